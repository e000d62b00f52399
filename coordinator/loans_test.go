package coordinator_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/coordinator"
	"github.com/tonnage/tonnage/engine/model"
)

// lent is a fleet in which s-0 has given five machines of zone-a to s-1, and s-2
// has a zone of its own.
func lent(t *testing.T) *fleet {
	t.Helper()
	f := newFleet(t, coordinator.RebalanceOn, "s-0", "s-1", "s-2")
	f.machines("a", "zone-a", model.Idle, 8)
	f.assign()
	f.short("s-1", 5, nil)
	f.cycles(40)
	if n := f.core.LoanCount(); n != 5 {
		t.Fatalf("%d machines are lent, want 5", n)
	}
	return f
}

func assignment(zoneName, shard string) coordinator.AssignDomain {
	return coordinator.AssignDomain{Assignment: coordinator.Assignment{Domain: zone(zoneName), Shard: shard}}
}

// refused: the error names a machine, both shards and what to do.
func (f *fleet) refused(e coordinator.Event, says ...string) {
	f.t.Helper()
	err := f.do(e)
	for _, want := range says {
		if err == nil || !errors.Is(err, coordinator.ErrExists) || !strings.Contains(err.Error(), want) {
			f.t.Errorf("%+v: %v, want a refusal that says %q", e, err, want)
		}
	}
}

// TestADomainIsNobodyElsesWhileMachinesOfItAreLent: not when it was taken from
// its shard, not after a restart, and not when that shard is gone; whoever has
// the machines, or had them, may have it.
func TestADomainIsNobodyElsesWhileMachinesOfItAreLent(t *testing.T) {
	f := lent(t)
	f.must(coordinator.UnassignDomain{Domain: zone("zone-a")})
	says := []string{"5 machines of domain topology.kubernetes.io/zone=zone-a are with other shards", `of "s-0" with "s-1"`, `"s-2" would take them up`, `assign it to "s-0" until`}
	f.refused(assignment("zone-a", "s-2"), says...)
	f.refused(assignment("zone-a", "s-1"), `assign it to "s-0" until`)
	f.must(assignment("zone-d", "s-2")) // another one
	f.restartCore()
	f.cycles(3)
	f.refused(assignment("zone-a", "s-2"), says...)
	f.must(assignment("zone-a", "s-0"))
	f.cycles(5)
	f.checkExactlyOne()

	f.must(coordinator.UnassignDomain{Domain: zone("zone-a")})
	f.must(coordinator.RemoveShard{Shard: "s-0"})
	delete(f.shards, "s-0")
	delete(f.disks, "s-0")
	f.refused(assignment("zone-a", "s-2"), `assign it to "s-1", or remove that shard`)
	f.must(assignment("zone-a", "s-1"))
	f.cycles(5)
	f.checkOwners("end")
	f.must(coordinator.UnassignDomain{Domain: zone("zone-a")})
	f.cycles(5)
	f.must(coordinator.RemoveShard{Shard: "s-1"})
	delete(f.shards, "s-1")
	delete(f.disks, "s-1")
	f.must(assignment("zone-a", "s-2")) // nobody has them any more
	f.cycles(5)
	f.checkOwners("end")
	if n := f.core.LoanCount(); n != 0 {
		t.Errorf("%d machines are lent by nobody to nobody", n)
	}
}

// TestADomainThatIsOrderedAwayWaitsForItsMachines: the order comes between any
// two steps of the hand-over. The next shard is told when the machines have come
// home, and no sooner; at no instant do two have one.
func TestADomainThatIsOrderedAwayWaitsForItsMachines(t *testing.T) {
	waited := 0
	for at := 10; at < 22; at++ {
		f := newFleet(t, coordinator.RebalanceOn, "s-0", "s-1", "s-2")
		f.machines("a", "zone-a", model.Idle, 8)
		f.assign()
		f.short("s-1", 5, nil)
		f.cycles(at)
		f.must(coordinator.UnassignDomain{Domain: zone("zone-a")})
		given := f.do(assignment("zone-a", "s-2")) == nil
		f.cycles(30)
		f.checkOwners("later")
		lent, has := f.core.LoanCount(), f.disks["s-2"].Domains[zone("zone-a")]
		switch {
		case lent > 0 && has:
			t.Errorf("ordered in cycle %d: %d machines are lent, and another shard has their domain", at, lent)
		case lent == 0 && given && !has:
			t.Errorf("ordered in cycle %d: nothing is lent, and the next shard does not have the domain", at)
		case lent > 0:
			waited++
		}
	}
	if waited == 0 {
		t.Error("no order came after a release")
	}
}

// TestALoanEndsWhenTheMachineIsHome: by a move, or when its shard says that
// nothing of the domain is away.
func TestALoanEndsWhenTheMachineIsHome(t *testing.T) {
	f := lent(t)
	delete(f.needs, "s-1")
	for id := range f.disks["s-1"].Received {
		f.provider.Machines[id].Offer.State = model.Idle
	}
	for _, m := range f.provider.Machines {
		if m.Domain == zone("zone-a") && f.disks["s-0"].Owns(f.provider, m.ID) {
			m.Offer.State, m.Priority = model.Configured, 2000
		}
	}
	f.cycles(20) // the pair rests
	f.short("s-0", 3, nil)
	f.cycles(40)
	f.checkExactlyOne()
	if n := f.core.LoanCount(); n != 2 {
		t.Errorf("%d machines are lent after three came home, want 2", n)
	}

	// The machines are gone altogether: the shards forget them.
	for id, l := range f.core.Loans() {
		delete(f.provider.Machines, id)
		delete(f.disks[l.Home].Given, id)
		delete(f.disks[l.Holder].Received, id)
	}
	f.must(coordinator.UnassignDomain{Domain: zone("zone-a")})
	f.refused(assignment("zone-a", "s-2"), "2 machines")
	f.cycles(3)
	f.must(assignment("zone-a", "s-2"))
	if n := f.core.LoanCount(); n != 0 {
		t.Errorf("%d machines are lent that are gone", n)
	}
}

// TestWhoIsToGiveUpADomainLendsNothing: its machines would hold the domain back.
func TestWhoIsToGiveUpADomainLendsNothing(t *testing.T) {
	f := handOver(t)
	donor := f.shards["s-0"]
	f.must(assignment("zone-x", "s-0"))
	f.cycles(1)
	f.must(coordinator.UnassignDomain{Domain: zone("zone-x")})
	for range 20 { // it reports, and does nothing about it
		f.now += 10 * second
		f.exchange("s-1")
		f.must(donor.Report(f.now))
		f.must(donor.Offering())
		f.must(coordinator.Rebalance{})
	}
	if n := len(f.core.Moves()); n != 0 {
		t.Errorf("%d moves of a shard that is to give up a domain", n)
	}
	f.cycles(30)
	if got := f.received("s-1"); got != 5 {
		t.Errorf("s-1 received %d machines after that, want 5", got)
	}
}
