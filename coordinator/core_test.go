package coordinator_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/coordinator"
	"github.com/tonnage/tonnage/engine/model"
)

func give(zoneName, shard string) coordinator.AssignDomain {
	return coordinator.AssignDomain{Assignment: coordinator.Assignment{Domain: zone(zoneName), Shard: shard}}
}

func TestCommandsAreRefusedAsTheProtocolSays(t *testing.T) {
	f := newFleet(t, coordinator.RebalanceOff, "s-0", "s-1")
	f.cycles(1)
	f.must(give("zone-a", "s-0"))
	f.must(coordinator.BindCluster{Cluster: "prod", Shard: "s-0"})
	for _, c := range []struct {
		says  string
		event coordinator.Event
		want  error
	}{
		{"a field is empty", give("", "s-0"), coordinator.ErrInvalid},
		{"a shard is empty", give("zone-b", ""), coordinator.ErrInvalid},
		{"a name is too long", give(strings.Repeat("z", coordinator.NameBytesMax+1), "s-0"), coordinator.ErrInvalid},
		{"the shard is unknown", give("zone-b", "s-9"), coordinator.ErrNotFound},
		{"another has it", give("zone-a", "s-1"), coordinator.ErrExists},
		{"the same has it", give("zone-a", "s-0"), nil},
		{"nobody has it", coordinator.UnassignDomain{Domain: zone("zone-z")}, nil},
		{"removed is nobody", coordinator.RemoveShard{Shard: "s-9"}, coordinator.ErrNotFound},
		{"bound to the same", coordinator.BindCluster{Cluster: "prod", Shard: "s-0"}, nil},
		{"bound to another", coordinator.BindCluster{Cluster: "prod", Shard: "s-1"}, coordinator.ErrExists},
		{"bound to nobody", coordinator.BindCluster{Cluster: "dev", Shard: "s-9"}, coordinator.ErrNotFound},
		{"a report of nobody", &coordinator.Report{}, coordinator.ErrInvalid},
		{"an offering of nobody", &coordinator.Offering{}, coordinator.ErrInvalid},
	} {
		if err := f.do(c.event); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.says, err, c.want)
		}
	}
	f.must(coordinator.RemoveShard{Shard: "s-0"})
	if n := len(f.core.Assignments()); n != 0 {
		t.Errorf("%d domains are left of a shard that was removed", n)
	}
	f.must(coordinator.BindCluster{Cluster: "prod", Shard: "s-1"})
	for key := range f.store {
		if strings.Contains(key, "s-0") || strings.HasPrefix(key, "instructions/") {
			t.Errorf("%s is left of a shard that was removed", key)
		}
	}
}

func TestTheFirstReportRegisters(t *testing.T) {
	f := newFleet(t, coordinator.RebalanceOff, "s-0")
	f.cycles(3)
	got := f.core.Shards()
	if len(got) != 1 || got[0].Address != "s-0:7780" || got[0].RegisteredAt != 1010*second || got[0].Epoch != 1 {
		t.Fatalf("registered %+v", got)
	}
	if s := f.core.Statuses("s-0"); s[0].Heartbeat != f.now || s[0].Cycle != 3 {
		t.Errorf("status %+v, want the last report's", s)
	}
}

func TestReportsOutOfOrderAreDropped(t *testing.T) {
	f := newFleet(t, coordinator.RebalanceOff)
	short := []coordinator.Shortfall{{Priority: 1, Deficit: resources("cpu", 1)}}
	for i, c := range []struct {
		epoch, cycle, stamp int64
		dropped             bool
	}{
		{2, 1, 1, false}, {2, 5, 2, false}, {2, 5, 3, true}, {2, 4, 4, true}, {2, 6, 5, false},
		{1, 99, 6, true},  // a process that was replaced
		{3, 1, 7, false},  // its successor
		{2, 100, 8, true}, // a zombie
		{3, 1, 9, false},  // a shard that does not keep its epoch, started anew
		{3, 1, 9, true},   // the same report again
		{3, 2, 10, false},
	} {
		r := &coordinator.Report{Shard: "s", Epoch: c.epoch, Cycle: c.cycle, Stamp: c.stamp, Shortfalls: slices.Clone(short)}
		e, err := f.core.Step(f.now, r)
		if err != nil {
			t.Fatal(err)
		}
		f.commit(e)
		if (e.Dropped != "") != c.dropped {
			t.Errorf("report %d, (%d, %d): dropped %q, want dropped %t", i, c.epoch, c.cycle, e.Dropped, c.dropped)
		}
	}
	// A successor knows the epoch too.
	f.restartCore()
	e, _ := f.core.Step(f.now, &coordinator.Report{Shard: "s", Epoch: 2, Cycle: 1000})
	if e.Dropped == "" {
		t.Error("a successor believes a process that was replaced")
	}
}

func TestShortfallsAgeAndClear(t *testing.T) {
	f := newFleet(t, coordinator.RebalanceOff)
	report := func(cycle int64, age int32, n int) coordinator.Effects {
		r := &coordinator.Report{Shard: "s", Epoch: 1, Cycle: cycle, Stamp: cycle}
		for i := range n {
			r.Shortfalls = append(r.Shortfalls, coordinator.Shortfall{Priority: int32(i), Deficit: resources("cpu", 1), AgeCycles: age})
		}
		e, err := f.core.Step(f.now, r)
		if err != nil {
			t.Fatal(err)
		}
		f.commit(e)
		return e
	}
	notices := 0
	for cycle := int64(1); cycle <= 8; cycle++ {
		for _, n := range report(cycle, 0, 1).Notices { // a shard that does not count
			if strings.Contains(n, "has been short") {
				notices++
				if cycle != coordinator.EscalateAgeCycles+1 {
					t.Errorf("escalated in cycle %d", cycle)
				}
			}
		}
		if got := f.core.Statuses("s")[0].Shortfalls[0].AgeCycles; got != int32(cycle) {
			t.Errorf("age %d in cycle %d", got, cycle)
		}
	}
	if notices != 1 {
		t.Errorf("escalated %d times, want once", notices)
	}
	if report(9, 40, 2); f.core.Statuses("s")[0].Shortfalls[0].AgeCycles != 40 {
		t.Error("the age that a shard counts is not taken")
	}
	if report(10, 0, 0); len(f.core.Statuses("s")[0].Shortfalls) != 0 {
		t.Error("a report without shortfalls leaves the last ones")
	}
	if report(11, 1, 300); len(f.core.Statuses("s")[0].Shortfalls) != coordinator.ShortfallsMax {
		t.Error("shortfalls are not bounded")
	}
}

// ids are the instructions of a shard by what they say.
func (f *fleet) told(shard string) []string {
	var out []string
	for _, i := range f.core.Instructions(shard) {
		out = append(out, fmt.Sprintf("%d %s", i.Verb, i.Domain.Value))
	}
	return out
}

func (f *fleet) ack(shard string, cycle int64, outcome coordinator.Outcome) {
	f.t.Helper()
	r := &coordinator.Report{Shard: shard, Epoch: 1, Cycle: cycle, Stamp: cycle}
	for _, i := range f.core.Instructions(shard) {
		r.Acks = append(r.Acks, coordinator.Ack{ID: i.ID, Outcome: outcome})
	}
	f.must(r)
}

func TestDomainsAreToldUntilAcknowledged(t *testing.T) {
	f := newFleet(t, coordinator.RebalanceOff)
	f.ack("s", 1, coordinator.Accepted)
	f.must(give("a", "s"))
	f.must(give("b", "s"))
	want := []string{"0 a", "0 b"}
	for i, outcome := range []coordinator.Outcome{coordinator.Failed, coordinator.RejectedStale, coordinator.OutcomeUnspecified} {
		f.ack("s", int64(2+i), outcome)
		f.restartCore()
		if got := f.told("s"); !slices.Equal(got, want) {
			t.Errorf("after %s it is told %q, want %q", outcome, got, want)
		}
	}
	if n := f.core.PendingCount("s"); n != 2 {
		t.Errorf("%d pending", n)
	}
	f.ack("s", 9, coordinator.Accepted)
	if got := f.told("s"); len(got) != 0 {
		t.Errorf("after it has accepted, it is still told %q", got)
	}
	first := f.core.Instructions("s")
	f.must(give("c", "s"))
	if i := f.core.Instructions("s"); len(i) != 1 || i[0].Sequence <= 2 || len(first) != 0 {
		t.Errorf("sequence numbers are given out twice: %+v", i)
	}
	f.ack("s", 10, coordinator.RejectedInvalid)
	if got := f.told("s"); len(got) != 0 {
		t.Errorf("what a shard can not do is told again: %q", got)
	}
}

// TestADomainIsNotGivenBeforeItIsLetGo: two shards must never both have it.
func TestADomainIsNotGivenBeforeItIsLetGo(t *testing.T) {
	f := newFleet(t, coordinator.RebalanceOff)
	f.ack("s-0", 1, coordinator.Accepted)
	f.ack("s-1", 1, coordinator.Accepted)
	f.must(give("a", "s-0"))
	f.ack("s-0", 2, coordinator.Accepted)
	f.must(coordinator.UnassignDomain{Domain: zone("a")})
	f.must(give("a", "s-1"))
	if got := f.told("s-1"); len(got) != 0 {
		t.Fatalf("s-1 is told %q before s-0 let go", got)
	}
	f.must(coordinator.UnassignDomain{Domain: zone("a")})
	f.ack("s-1", 2, coordinator.Accepted)
	f.ack("s-0", 3, coordinator.Accepted)
	if got := f.told("s-1"); len(got) != 0 {
		t.Fatalf("s-1 is told %q about a domain that was taken from it before it heard of it", got)
	}
	f.must(give("a", "s-0"))
	if got := f.told("s-0"); !slices.Equal(got, []string{"0 a"}) {
		t.Errorf("s-0 is told %q", got)
	}
}

func TestManyInstructionsGoInParts(t *testing.T) {
	f := newFleet(t, coordinator.RebalanceOff)
	f.ack("s", 1, coordinator.Accepted)
	const n = 2500
	for i := range n {
		f.must(give(fmt.Sprintf("rack-%04d", i), "s"))
	}
	got := map[string]bool{}
	for cycle := int64(2); f.core.PendingCount("s") > 0; cycle++ {
		told := f.core.Instructions("s")
		if len(told) > coordinator.InstructionsMax || cycle > 10 {
			t.Fatalf("%d instructions in cycle %d", len(told), cycle)
		}
		for _, i := range told {
			got[i.Domain.Value] = true
		}
		f.ack("s", cycle, coordinator.Accepted)
	}
	if len(got) != n {
		t.Errorf("%d domains were told, want %d", len(got), n)
	}
}

func TestUnknownDurableRecordsAreLeftAlone(t *testing.T) {
	c := coordinator.New(coordinator.RebalanceOff)
	l := c.Load(7)
	if err := l.Add("later/thing", []byte("x")); err != nil {
		t.Error(err)
	}
	if err := l.Add("shards/s", []byte("{")); err == nil || !strings.Contains(err.Error(), "shards/s") {
		t.Errorf("a broken record is taken, or not named: %v", err)
	}
}

func TestNamesWithSlashesKeepApart(t *testing.T) {
	f := newFleet(t, coordinator.RebalanceOff)
	f.ack("a/b", 1, coordinator.Accepted)
	d := coordinator.Domain{Key: "x/y", Value: "z/../%2f"}
	f.must(coordinator.AssignDomain{Assignment: coordinator.Assignment{Domain: d, Shard: "a/b"}})
	f.restartCore()
	if got := f.core.Assignments(); len(got) != 1 || got[0].Domain != d || got[0].Shard != "a/b" {
		t.Errorf("read back %+v", got)
	}
}

// TestIdleMachines: as the last offer of the shard's process says.
func TestIdleMachines(t *testing.T) {
	f := newFleet(t, coordinator.RebalanceOff)
	idle := func() *int32 { return f.core.Statuses("s")[0].Idle }
	f.must(&coordinator.Report{Shard: "s", Epoch: 1, Cycle: 1})
	if idle() != nil {
		t.Error("known before any offer")
	}
	f.must(&coordinator.Offering{Shard: "s", Epoch: 1, Idle: new(int32(7))})
	if n := idle(); n == nil || *n != 7 {
		t.Errorf("%v, want 7", n)
	}
	f.must(&coordinator.Report{Shard: "s", Epoch: 2, Cycle: 1})
	if idle() != nil {
		t.Error("known of a process that is gone")
	}
}

// lost makes an offering of a shard that has lost its domains, but for some.
func lost(shard string, left ...string) *coordinator.Offering {
	sum := &model.DomainSum{}
	for _, value := range left {
		sum.Add(zone(value).Key, value)
	}
	return &coordinator.Offering{Shard: shard, Epoch: 1, Lost: sum}
}

// TestLostDomainsAreToldAgain: all of them, once; and the answer says what they are.
func TestLostDomainsAreToldAgain(t *testing.T) {
	f := newFleet(t, coordinator.RebalanceOff)
	f.ack("s", 1, coordinator.Accepted)
	f.ack("other", 1, coordinator.Accepted)
	f.must(give("a", "s"))
	f.must(give("b", "s"))
	f.must(give("c", "other"))
	f.ack("s", 2, coordinator.Accepted)
	whole := lost("s", "b", "a")
	f.must(whole)
	if got := f.told("s"); whole.Domains != *whole.Lost || len(got) != 0 {
		t.Errorf("a shard that has all of them left is told %q", got)
	}
	for range 2 {
		part := lost("s", "a", "c")
		f.must(part)
		if part.Domains != *whole.Lost {
			t.Errorf("the domains are %+v, want %+v", part.Domains, *whole.Lost)
		}
		got := f.told("s")
		if slices.Sort(got); !slices.Equal(got, []string{"0 a", "0 b"}) {
			t.Errorf("it is told %q", got)
		}
		f.restartCore()
		f.ack("other", 2, coordinator.Accepted)
		f.ack("s", 3, coordinator.OutcomeUnspecified)
	}
	f.ack("s", 4, coordinator.Accepted)
	f.must(give("d", "s"))
	if i := f.core.Instructions("s"); len(i) != 1 || i[0].Sequence != 6 {
		t.Errorf("sequence numbers are given out twice: %+v", i)
	}
	none := lost("other")
	f.must(coordinator.UnassignDomain{Domain: zone("c")})
	f.must(none)
	if none.Domains.Count != 0 {
		t.Errorf("the domains of a shard without are %+v", none.Domains)
	}
}

// TestAReplacedProcessHearsOfIt: by an offer, also from a leader that has not heard of the shard yet.
func TestAReplacedProcessHearsOfIt(t *testing.T) {
	f := newFleet(t, coordinator.RebalanceOff)
	f.must(&coordinator.Report{Shard: "s", Epoch: 3, Cycle: 1})
	for range 2 {
		for _, c := range []struct {
			epoch, newest int64
		}{{2, 3}, {3, 3}} {
			o := &coordinator.Offering{Shard: "s", Epoch: c.epoch}
			if _, err := f.core.Step(f.now, o); err != nil || o.Newest != c.newest {
				t.Errorf("epoch %d: the newest is %d, want %d; %v", c.epoch, o.Newest, c.newest, err)
			}
		}
		f.restartCore()
	}
}
