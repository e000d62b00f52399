package shard_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
)

// rows are n needs of one machine each.
func rows(t *testing.T, n int) (out []model.Need) {
	for i := range n {
		x := need(t, 100, 4)
		x.Group = fmt.Sprint("g", i)
		out = append(out, x)
	}
	return out
}

func TestRefusedRollupLeavesTheLastGoodDemand(t *testing.T) {
	w := newWorld(t, machines(2, model.Configured, "c1"))
	w.report("c1", need(t, 1, 8))
	for what, bad := range map[string]struct {
		cluster string
		rows    []model.Need
	}{
		"no cluster":              {"", rows(t, 1)},
		"no profile":              {"c1", []model.Need{{Aggregate: cpu(1)}}},
		"another cluster":         {"c1", []model.Need{{Cluster: "c2", Profile: need(t, 1, 1).Profile}}},
		"minimum above the whole": {"c1", []model.Need{{Profile: need(t, 1, 1).Profile, Aggregate: cpu(1), MinAggregate: cpu(2)}}},
		"nameless dim":            {"c1", []model.Need{{Profile: need(t, 1, 1).Profile, Aggregate: model.Resources{{Name: "", Value: 1}}}}},
	} {
		if outcome, err := w.shard.ApplyRollup(bad.cluster, bad.rows, w.now); err == nil || outcome != shard.RollupRefused {
			t.Errorf("%s: %v and %v", what, outcome, err)
		}
	}
	if got := w.steps(3); len(got) != 0 {
		t.Errorf("the last good demand is covered, but: %v", got)
	}
}

func TestQuarantine(t *testing.T) {
	for _, x := range []struct {
		name     string
		accepted int
		rollups  []int // rows of each
		want     []shard.RollupOutcome
	}{
		{"below ten rows nothing is suspicious", 9, []int{0}, []shard.RollupOutcome{shard.RollupAccepted}},
		{"a tenth is enough", 20, []int{2}, []shard.RollupOutcome{shard.RollupAccepted}},
		{"less than a tenth is held twice", 20, []int{1, 0, 1}, []shard.RollupOutcome{shard.RollupHeld, shard.RollupHeld, shard.RollupAccepted}},
		{"a normal one resets", 10, []int{0, 0, 10, 0, 0, 0}, []shard.RollupOutcome{
			shard.RollupHeld, shard.RollupHeld, shard.RollupAccepted, shard.RollupHeld, shard.RollupHeld, shard.RollupAccepted}},
	} {
		w := newWorld(t, nil)
		w.report("c1", rows(t, x.accepted)...)
		for i, n := range x.rollups {
			w.now += 8 * second // less than that is a mere repeat
			got := w.report("c1", rows(t, n)...)
			if got != x.want[i] {
				t.Errorf("%s: roll-up %d with %d rows: got %v, want %v", x.name, i, n, got, x.want[i])
			}
			if held := slices.Contains(w.shard.Held(), "c1"); held != (got == shard.RollupHeld) {
				t.Errorf("%s: roll-up %d: held %v", x.name, i, held)
			}
		}
	}
}

func TestQuarantineCanBeOff(t *testing.T) {
	w := newWorld(t, nil, configured(func(c *shard.Config) { c.Quarantine = false }))
	w.report("c1", rows(t, 20)...)
	if got := w.report("c1"); got != shard.RollupAccepted {
		t.Errorf("got %v", got)
	}
}

// TestRowsThatGoOnKeepTheirArrival: a roll-up's new time stamp does not make a
// row younger, nor a cycle look at it again.
func TestRowsThatGoOnKeepTheirArrival(t *testing.T) {
	var arrivals []int64
	var version uint64
	w := newWorld(t, nil, func(_ *shard.Config, d *shard.Deps, _ *provCfg) {
		d.Decided = func(in engine.Input, _ *engine.Plan) {
			arrivals, version = slices.Clone(in.Demand.Block("c1").Arrivals()), in.Demand.Version()
		}
	})
	at := func(arrival int64, groups ...string) (out []model.Need) {
		for _, g := range groups {
			n := need(t, 100, 4)
			n.Group, n.Arrival = g, arrival
			out = append(out, n)
		}
		return out
	}
	w.report("c1", at(10, "a", "b")...)
	w.step()
	before := version
	w.report("c1", at(20, "a", "b")...)
	w.step()
	if !slices.Equal(arrivals, []int64{10, 10}) || version != before {
		t.Errorf("the same again: arrived at %v, version %d, was %d", arrivals, version, before)
	}
	w.report("c1", at(30, "b", "new")...)
	w.step()
	if !slices.Equal(arrivals, []int64{10, 30}) {
		t.Errorf("one went, one came: arrived at %v", arrivals)
	}
}

// TestNothingIsReclaimedBeforeTheFirstReport: also a cluster that reports
// nothing has reported, and a held roll-up opens the gate too.
func TestNothingIsReclaimedBeforeTheFirstReport(t *testing.T) {
	w := newWorld(t, machines(2, model.Configured, "c1"))
	if got := w.steps(5); len(got) != 0 {
		t.Fatalf("before any report: %v", got)
	}
	w.report("c1")
	if c := w.step(); c.Counts[engine.Reclaim] != 2 {
		t.Errorf("after an empty report: %v", c.Counts)
	}
}

func TestHeldRollupOpensTheGate(t *testing.T) {
	w := newWorld(t, append(machines(10, model.Configured, "c1"), machine("x", model.Configured, "c1")))
	if err := w.shard.LoadDemand("c1", rows(t, 10)); err != nil {
		t.Fatal(err)
	}
	if got := w.steps(3); len(got) != 0 {
		t.Fatalf("demand of a file is no report: %v", got)
	}
	if got := w.report("c1"); got != shard.RollupHeld {
		t.Fatalf("got %v", got)
	}
	c := w.step()
	if c.Counts[engine.Reclaim] != 1 || !slices.Equal(c.Held, []string{"c1"}) {
		t.Errorf("the eleventh machine is excess: %v, held %v", c.Counts, c.Held)
	}
}

// stamped is a roll-up as an operator's session hands it over: rows with the time
// that the operator says.
func stamped(t *testing.T, cluster string, stamp int64, needs ...model.Need) *demand.Builder {
	t.Helper()
	b := demand.NewBuilder()
	b.Reset(cluster)
	for i := range needs {
		needs[i].Arrival = stamp
		if err := b.AddNeed(&needs[i]); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// take hands over a roll-up of an operator.
func (w *world) take(b *demand.Builder) {
	w.t.Helper()
	if outcome, err := w.shard.TakeRollup(b, w.now); err != nil || outcome != shard.RollupAccepted {
		w.t.Fatalf("%v, %v", outcome, err)
	}
}

// TestStampsOfOperatorsDoNotOvertake: among equals the cluster is served whose demand the
// shard heard of first, whatever time operators write into their roll-ups.
func TestStampsOfOperatorsDoNotOvertake(t *testing.T) {
	for name, stamp := range map[string]int64{"none": 0, "before 1970": -1, "1970": 1, "the year 2262": math.MaxInt64} {
		w := newWorld(t, nil)
		w.take(stamped(t, "first", w.now+second, need(t, 1, 4)))
		w.step()
		w.take(stamped(t, "a", stamp, need(t, 1, 4)))
		w.step()
		w.take(stamped(t, "z", w.now-5*second, need(t, 1, 4)))
		for i, want := range []string{"first", "a", "z"} {
			id := fmt.Sprint("m-", i)
			if err := w.fleet.Add(machine(id, model.Idle, "")); err != nil {
				t.Fatal(err)
			}
			if w.steps(1); w.get(id).Cluster != want {
				t.Errorf("stamped %s: machine %d goes to %q, want %q", name, i, w.get(id).Cluster, want)
			}
		}
	}
}

// TestAnswersWaitForNoCycle: while a cycle decides, roll-ups are answered, and the next cycle takes
// over the newest of each cluster.
func TestAnswersWaitForNoCycle(t *testing.T) {
	var entered, leave chan struct{}
	w := newWorld(t, machines(3, model.Idle, ""), func(_ *shard.Config, d *shard.Deps, _ *provCfg) {
		d.Decided = func(engine.Input, *engine.Plan) {
			if entered != nil {
				close(entered)
				<-leave
			}
		}
	})
	entered, leave = make(chan struct{}), make(chan struct{})
	stepped := make(chan *shard.Cycle)
	go func() { stepped <- w.step() }()
	<-entered
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		w.take(stamped(t, "c1", 0, need(t, 1, 4)))
		w.take(stamped(t, "c1", 0, need(t, 1, 8)))
		w.take(stamped(t, "c2", 0, need(t, 1, 4)))
		_ = w.shard.CoordinatorTerm() // goes out with each acknowledgement
		_ = w.shard.HearTerm(1)
		_ = w.shard.Held()
	}()
	select {
	case <-answered:
	case <-time.After(patience):
		t.Error("the answers wait for the cycle")
	}
	close(leave)
	if c := <-stepped; c.Counts[engine.Bootstrap] != 0 {
		t.Errorf("the cycle took over what came while it decided: %v", c.Counts)
	}
	<-answered
	entered = nil
	w.step()
	if got := w.shard.Count()[model.Configured]; got != 3 || w.boundTo("c1") != 2 || w.boundTo("c2") != 1 {
		t.Errorf("%d machines are bound, %d to c1 and %d to c2; want 2 and 1", got, w.boundTo("c1"), w.boundTo("c2"))
	}
}

func (w *world) boundTo(cluster string) (n int) {
	w.shard.Machines(func(m model.Machine) bool {
		if m.State == model.Configured && m.Cluster == cluster {
			n++
		}
		return true
	})
	return n
}

// TestRowsKeepTheArrivalOfARollupThatNoCycleSaw: a roll-up that a newer one
// replaces in the mailbox counts for when its rows came.
func TestRowsKeepTheArrivalOfARollupThatNoCycleSaw(t *testing.T) {
	w := newWorld(t, nil)
	w.take(stamped(t, "early", 0, need(t, 1, 4)))
	w.now += second
	w.take(stamped(t, "a", 0, need(t, 1, 4)))
	w.now += second
	w.take(stamped(t, "early", 0, need(t, 1, 4), need(t, 9, 4)))
	for i, want := range []string{"early", "early", "a"} {
		id := fmt.Sprint("m-", i)
		if err := w.fleet.Add(machine(id, model.Idle, "")); err != nil {
			t.Fatal(err)
		}
		if w.steps(1); w.get(id).Cluster != want {
			t.Errorf("machine %d goes to %q, want %q", i, w.get(id).Cluster, want)
		}
	}
}

// TestQuarantineCountsWhatNoCycleHasSeen: the rows of an accepted roll-up protect
// the cluster from the moment it is acknowledged, and a held one leaves it there.
func TestQuarantineCountsWhatNoCycleHasSeen(t *testing.T) {
	w := newWorld(t, machines(12, model.Idle, ""))
	w.take(stamped(t, "c1", 0, rows(t, 10)...))
	if outcome, err := w.shard.TakeRollup(stamped(t, "c1", 0), w.now); err != nil || outcome != shard.RollupHeld {
		t.Fatalf("%v, %v", outcome, err)
	}
	if w.steps(1); w.boundTo("c1") != 10 {
		t.Errorf("%d machines are bound, want one for each of the 10 rows that were accepted", w.boundTo("c1"))
	}
}

// TestMailboxesAreBounded: roll-ups that together would take too much memory
// until the next cycle are refused, and there is room again after it.
func TestMailboxesAreBounded(t *testing.T) {
	w := newWorld(t, nil, configured(func(c *shard.Config) { c.Quarantine = false }))
	large := func(cluster string) *demand.Builder {
		b := demand.NewBuilder()
		b.Reset(cluster)
		p := b.Profile(need(t, 1, 4).Profile)
		b.Grow(demand.RowsMax / 2)
		for range demand.RowsMax / 2 {
			if err := b.Add(&demand.Row{Profile: p}); err != nil {
				t.Fatal(err)
			}
		}
		return b
	}
	refused := ""
	for i := range shard.MailboxBytesMax/(demand.RowsMax/2*20) + 1 {
		if outcome, err := w.shard.TakeRollup(large(fmt.Sprint("c", i)), w.now); outcome == shard.RollupRefused {
			refused = err.Error()
			break
		}
	}
	if !strings.Contains(refused, "at most 67108864 may wait") {
		t.Fatalf("refused with %q", refused)
	}
	w.take(stamped(t, "c0", 0, need(t, 1, 4))) // in the place of a large one
	w.step()
	w.take(large("another"))
}

// TestRollupsWithTooManyMadeUpResourcesAreRefusedAtOnce: no answer says that they
// were accepted; and what one cluster makes up takes nothing from others.
func TestRollupsWithTooManyMadeUpResourcesAreRefusedAtOnce(t *testing.T) {
	w := newWorld(t, nil)
	naming := func(cluster string, n int) *demand.Builder {
		var rows []model.Need
		for i := range n {
			rows = append(rows, model.Need{Profile: need(t, 1, 1).Profile, Aggregate: model.NewResources(model.Amount{Name: fmt.Sprint(cluster, i), Value: 1})})
		}
		return stamped(t, cluster, 0, rows...)
	}
	w.step() // what machines offer is known from here on
	for i := range 8 {
		w.take(naming(fmt.Sprint("c", i), model.UnofferedNamesMax))
	}
	w.step()
	if outcome, err := w.shard.TakeRollup(naming("c0", model.UnofferedNamesMax+1), w.now); outcome != shard.RollupRefused || err == nil || !strings.Contains(err.Error(), "17 resources that no machine offers") {
		t.Errorf("%v, %v", outcome, err)
	}
	w.step()
	w.shard.Demand(func(d *demand.Table) {
		for i := range 8 {
			if b := d.Block(fmt.Sprint("c", i)); b.Len() != model.UnofferedNamesMax || b.UnofferedRows() != b.Len() {
				t.Errorf("cluster c%d has %d rows, of which %d ask for what no machine offers", i, b.Len(), b.UnofferedRows())
			}
		}
	})
}

// TestARestartForgetsNoDemand: after a restart a roll-up that asks for nearly nothing of what
// the cluster asked for before, or of what is bound to it where that is not known, is
// held, and its machines stay.
func TestARestartForgetsNoDemand(t *testing.T) {
	for _, remembers := range []bool{true, false} {
		t.Run(fmt.Sprintf("remembers=%v", remembers), func(t *testing.T) {
			memory := newMemory()
			w := newWorld(t, machines(40, model.Configured, "c1"), func(_ *shard.Config, d *shard.Deps, _ *provCfg) { d.Memory = memory })
			w.report("c1", need(t, 1, 160)) // one row
			w.steps(2)
			if !remembers {
				w.deps.Memory = newMemory()
			}
			w.restart()
			for i, want := range []int{0, 0, 40} {
				w.report("c1")
				c := w.step()
				if c.Counts[engine.Reclaim] != want || slices.Contains(c.Held, "c1") != (want == 0) {
					t.Errorf("roll-up %d: %d machines are reclaimed, want %d; held are %v", i+1, c.Counts[engine.Reclaim], want, c.Held)
				}
			}
		})
	}
}

// TestQuarantineLooksAtWhatIsAskedFor: rows that stay and ask for nearly nothing, few rows
// that are gone, and repeats that confirm nothing.
func TestQuarantineLooksAtWhatIsAskedFor(t *testing.T) {
	small := func(n int) (out []model.Need) {
		for i := range n {
			x := need(t, 1, 1)
			x.MinUnit, x.Group = cpu(1), fmt.Sprint(i)
			out = append(out, x)
		}
		return out
	}
	for name, x := range map[string]struct {
		machines, rows int
		then           []model.Need
		apart          int64 // seconds
		reclaimed      []bool
	}{
		"rows that ask for nearly nothing": {20, 20, small(20)[:7], 10, []bool{false, false, true}},
		"few rows that are gone":           {20, 2, nil, 10, []bool{false, false, true}},
		"repeats":                          {20, 2, nil, 4, []bool{false, false, false, false, true}},
		"few machines":                     {9, 9, nil, 10, []bool{true}},
		"a tenth":                          {20, 20, small(20)[:8], 10, []bool{true}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, machines(x.machines, model.Configured, "c1"))
			var asks []model.Need
			for i := range x.rows {
				n := need(t, 1, 4*int64(x.machines)/int64(x.rows))
				n.Group = fmt.Sprint(i)
				asks = append(asks, n)
			}
			w.report("c1", asks...)
			w.steps(1)
			for i, want := range x.reclaimed {
				w.report("c1", x.then...)
				c := w.stepAfter(time.Duration(x.apart) * time.Second)
				if got := c.Counts[engine.Reclaim] > 0; got != want {
					t.Errorf("roll-up %d: reclaimed %v, want %v; held are %v", i+1, got, want, c.Held)
				}
			}
		})
	}
}
