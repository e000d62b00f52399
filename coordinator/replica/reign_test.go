package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tonnage/tonnage/coordinator"
	"github.com/tonnage/tonnage/coordinator/store"
)

// disk is a keeper in memory: each commit waits until the test lets it end.
type disk struct {
	state   map[string][]byte
	commits [][]store.Write
	outcome chan error // of one commit each
	deposed bool       // a confirmation says so
	alone   bool       // nobody confirms anything
}

func (d *disk) Load(_ context.Context, _ *store.Claim, add func(string, []byte) error) error {
	for _, k := range slices.Sorted(maps.Keys(d.state)) {
		if err := add(k, d.state[k]); err != nil {
			return err
		}
	}
	return nil
}

func (d *disk) Commit(_ context.Context, _ *store.Claim, writes []store.Write) error {
	d.commits = append(d.commits, writes)
	if err := <-d.outcome; err != nil {
		return err
	}
	for _, w := range writes {
		if w.Value == nil {
			delete(d.state, w.Key)
		} else {
			d.state[w.Key] = w.Value
		}
	}
	return nil
}

func (d *disk) Confirm(ctx context.Context, _ *store.Claim) error {
	if d.alone {
		<-ctx.Done()
		return ctx.Err()
	}
	if d.deposed {
		return store.ErrDeposed
	}
	return nil
}

type silent struct{}

func (silent) Applied(string)            {}
func (silent) Leads(bool, int64)         {}
func (silent) Heard(bool)                {}
func (silent) Passed(time.Duration, int) {}
func (silent) Exported(error)            {}
func (silent) ReportDropped()            {}

// leading is a replica that leads, with the shard s-0.
func leading(t *testing.T) (*Replica, *disk) {
	t.Helper()
	d := &disk{state: map[string][]byte{"shards/s-0": []byte(`{"id":"s-0"}`)}, outcome: make(chan error)}
	r := &Replica{
		config: Config{Log: slog.New(slog.DiscardHandler), Now: time.Now, Metrics: silent{}},
		keeper: d, core: coordinator.New(coordinator.RebalanceOff),
	}
	if err := r.load(t.Context(), &store.Claim{Term: 7}); err != nil {
		t.Fatal(err)
	}
	return r, d
}

func domain(n int) coordinator.Domain {
	return coordinator.Domain{Key: "rack", Value: fmt.Sprint("r-", n)}
}

// answer is what a call returned, once it has.
type answer struct {
	err  error
	back bool
	saw  int // domains
}

func (r *Replica) assign(n int) *answer {
	a := &answer{}
	go func() {
		_, err := r.Do(context.Background(), coordinator.AssignDomain{Assignment: coordinator.Assignment{Domain: domain(n), Shard: "s-0"}}, nil)
		a.err, a.back = err, true
	}()
	synctest.Wait()
	return a
}

func (r *Replica) count() *answer {
	a := &answer{}
	go func() {
		a.err = r.Read(context.Background(), func(c *coordinator.Core, _ int64) { a.saw = c.DomainCount() })
		a.back = true
	}()
	synctest.Wait()
	return a
}

func (a *answer) want(t *testing.T, what string, back bool, err error) {
	t.Helper()
	synctest.Wait()
	if a.back != back || !errors.Is(a.err, err) {
		t.Errorf("%s: answered %t, error %v; want answered %t, error %v", what, a.back, a.err, back, err)
	}
}

// TestNobodyWaitsForOthersCommits: a report that asks for nothing is answered
// while a commit is on its way; whoever has seen what is not durable yet is not.
func TestNobodyWaitsForOthersCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, d := leading(t)
		first := r.assign(0)
		second, third := r.assign(1), r.assign(2)
		taken := &answer{}
		go func() {
			_, err := r.Do(context.Background(), coordinator.AssignDomain{Assignment: coordinator.Assignment{Domain: domain(1), Shard: "nobody"}}, nil)
			taken.err, taken.back = err, true
		}()
		reader := r.count()
		_, err := r.Hear(t.Context(), &coordinator.Report{Shard: "s-0", Cycle: 1}, func(*coordinator.Core, int64) bool { return false })
		if err != nil {
			t.Errorf("a report that asks for nothing: %v", err)
		}
		told := &answer{}
		go func() {
			_, told.err = r.Hear(context.Background(), &coordinator.Report{Shard: "s-0", Cycle: 2}, func(c *coordinator.Core, _ int64) bool {
				told.saw = len(c.Instructions("s-0"))
				return true
			})
			told.back = true
		}()
		all := []*answer{first, second, third, taken, reader, told}
		for i, a := range all {
			a.want(t, fmt.Sprint("call ", i, " before anything is durable"), false, nil)
		}
		d.outcome <- nil
		first.want(t, "the first command", true, nil)
		reader.want(t, "a list that knows of the second", false, nil)
		d.outcome <- nil
		for i, a := range []*answer{first, second, third, reader, told} {
			a.want(t, fmt.Sprint("call ", i, " at the end"), true, nil)
		}
		taken.want(t, "a refusal", true, coordinator.ErrNotFound)
		if reader.saw != 3 || told.saw != 3 {
			t.Errorf("a list has %d domains, a shard is told %d things; want 3 each", reader.saw, told.saw)
		}
		keys := map[string]bool{}
		for _, w := range d.commits[len(d.commits)-1] {
			if keys[w.Key] {
				t.Errorf("%s is written twice in one commit", w.Key)
			}
			keys[w.Key] = true
		}
		if len(d.commits) != 2 || string(d.state["sequence"]) != "3" {
			t.Errorf("%d commits, the last sequence number is %s; want 2 commits and 3", len(d.commits), d.state["sequence"])
		}
		r.count().want(t, "a list when all is durable", true, nil)
	})
}

// TestFailedCommit: nobody is told of what was not committed, and memory is not
// ahead of the disk afterwards.
func TestFailedCommit(t *testing.T) {
	for _, c := range []struct {
		name  string
		err   error
		want  error
		leads bool
	}{
		{"unknown", store.ErrUnknown, ErrUnavailable, false},
		{"a part of it was", fmt.Errorf("%w: %w", store.ErrUnknown, store.ErrDeposed), ErrUnavailable, false},
		{"deposed", store.ErrDeposed, ErrNotLeader, false},
		{"refused", store.ErrRefused, ErrUnavailable, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, d := leading(t)
				all := []*answer{r.assign(0), r.assign(1), r.count()}
				d.outcome <- c.err
				for i, a := range all {
					a.want(t, fmt.Sprint("call ", i), true, c.want)
				}
				if r.Leads() != c.leads || len(d.commits) != 1 {
					t.Errorf("leads %t after %d commits, want %t after 1", r.Leads(), len(d.commits), c.leads)
				}
				if !c.leads {
					r.assign(2).want(t, "a command afterwards", true, ErrNotLeader)
					return
				}
				again := r.assign(3)
				d.outcome <- nil
				again.want(t, "a command afterwards", true, nil)
				reader := r.count()
				reader.want(t, "a list afterwards", true, nil)
				if reader.saw != 1 {
					t.Errorf("%d domains are known, want the one that was committed", reader.saw)
				}
			})
		})
	}
}

// TestDeposedReader: what was read is not answered when the claim is gone.
func TestDeposedReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, d := leading(t)
		d.deposed = true
		r.count().want(t, "a list", true, ErrNotLeader)
		if r.Leads() {
			t.Error("it still believes that it leads")
		}
	})
}

// TestCallerGoesAway: it is not known what became of the command, and it is
// carried out all the same.
func TestCallerGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, d := leading(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := r.Do(ctx, coordinator.AssignDomain{Assignment: coordinator.Assignment{Domain: domain(0), Shard: "s-0"}}, nil)
		if !errors.Is(err, ErrUnavailable) {
			t.Errorf("%v, want that it is not known", err)
		}
		d.outcome <- nil
		reader := r.count()
		if reader.want(t, "a list", true, nil); reader.saw != 1 {
			t.Errorf("%d domains, want 1", reader.saw)
		}
	})
}

// TestRecordTooLarge: what no store takes is refused before it is in memory.
func TestRecordTooLarge(t *testing.T) {
	r, d := leading(t)
	err := r.add(r.reign, []coordinator.Write{{Key: "shards/s-1", Value: make([]byte, store.BytesMax)}})
	if !errors.Is(err, coordinator.ErrFull) || len(d.commits) != 0 || len(r.core.Shards()) != 1 {
		t.Errorf("%v, %d commits, %d shards; want that it is refused", err, len(d.commits), len(r.core.Shards()))
	}
}

// TestNextFillsOneTransaction: entries are taken in order, whole, as many as one
// transaction holds.
func TestNextFillsOneTransaction(t *testing.T) {
	small := func(n int, key string) *entry {
		e := &entry{}
		for i := range n {
			e.writes = append(e.writes, coordinator.Write{Key: fmt.Sprintf(key, i), Value: []byte("x")})
		}
		return e
	}
	large := &entry{writes: []coordinator.Write{{Key: "large", Value: []byte(strings.Repeat("x", store.BytesMax/2))}}}
	for _, c := range []struct {
		name  string
		queue []*entry
		want  []int // entries of each transaction
	}{
		{"none", nil, nil},
		{"as many operations as fit", []*entry{small(store.OpsMax/2, "a%d"), small(store.OpsMax/2, "b%d"), small(1, "c%d")}, []int{2, 1}},
		{"the same keys", []*entry{small(store.OpsMax, "a%d"), small(store.OpsMax, "a%d")}, []int{2}},
		{"more than one transaction holds", []*entry{small(3*store.OpsMax, "a%d"), small(1, "b%d")}, []int{1, 1}},
		{"as many bytes as fit", []*entry{large, small(1, "b%d"), large, small(1, "c%d")}, []int{2, 2}},
	} {
		g := &reign{queue: c.queue}
		var got []int
		for {
			entries, writes := g.next()
			if len(entries) == 0 {
				break
			}
			if len(entries) > 1 && len(writes) > store.OpsMax {
				t.Errorf("%s: %d operations of %d entries", c.name, len(writes), len(entries))
			}
			got = append(got, len(entries))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v entries in each transaction, want %v", c.name, got, c.want)
		}
	}
}

// heard keeps what was said last of whether a leader is heard.
type heard struct {
	silent
	last *bool
}

func (h heard) Heard(is bool) { *h.last = is }

// TestALeaderThatIsNotHeardSaysSo: it goes on believing that it leads, and its gauge does not.
func TestALeaderThatIsNotHeardSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, d := leading(t)
		is := false
		r.config.Metrics = heard{last: &is}
		for _, c := range []struct{ alone, deposed, want, leads bool }{
			{false, false, true, true}, {true, false, false, true}, {false, false, true, true}, {false, true, false, false},
		} {
			d.alone, d.deposed = c.alone, c.deposed
			r.attest(t.Context())
			if is != c.want || r.Leads() != c.leads {
				t.Errorf("alone %v, deposed %v: heard %v, leads %v", c.alone, c.deposed, is, r.Leads())
			}
		}
	})
}
