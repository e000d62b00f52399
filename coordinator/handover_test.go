package coordinator_test

import (
	"testing"

	"github.com/tonnage/tonnage/coordinator"
	"github.com/tonnage/tonnage/engine/model"
)

// handOver is a fleet in which s-1 is short of five machines and s-0 has eight
// that nobody uses.
func handOver(t *testing.T) *fleet {
	f := newFleet(t, coordinator.RebalanceOn, "s-0", "s-1")
	f.machines("a", "zone-a", model.Idle, 8)
	f.assign()
	f.short("s-1", 5, nil)
	return f
}

// checkExactlyOne holds when all is quiet.
func (f *fleet) checkExactlyOne() {
	f.t.Helper()
	for id := range f.provider.Machines {
		if o := f.owners(id); len(o) != 1 {
			f.t.Errorf("machine %s is used by %q, want exactly one", id, o)
		}
	}
	f.checkLoans()
}

func TestAShortfallIsMetWithoutChurn(t *testing.T) {
	f := handOver(t)
	f.cycles(60)
	f.checkExactlyOne()
	if got := f.received("s-1"); got != 5 {
		t.Errorf("s-1 received %d machines, want the 5 that it needs", got)
	}
	moves := f.core.Moves()
	if len(moves) != 1 || moves[0].Phase != coordinator.Settled || len(moves[0].Machines) != 5 {
		t.Errorf("moves %+v, want one of 5 machines, settled", moves)
	}
	f.cycles(100)
	if n := len(f.core.Moves()); n != 1 {
		t.Errorf("%d moves after the need was met, want still 1", n)
	}
}

// TestACrashAtEachStepLeavesOneOwner crashes whoever is at work at each point
// of a hand-over: the coordinator before and after each durable write, either
// shard before and after each of its own, and each answer on its way.
func TestACrashAtEachStepLeavesOneOwner(t *testing.T) {
	whole := handOver(t)
	whole.points = 0
	whole.cycles(30)
	points := whole.points
	names := map[string]int{}
	for k := 1; k <= points; k++ {
		f := handOver(t)
		f.points, f.crashAt = 0, k
		f.cycles(30)
		names[f.crashed]++
		f.crashAt = 0
		f.cycles(60)
		f.checkExactlyOne()
		if got := f.received("s-1"); got != 5 {
			t.Errorf("crash %d at %q: s-1 received %d machines, want 5", k, f.crashed, got)
		}
		if open := f.openMoves(); len(open) > 0 {
			t.Errorf("crash %d at %q: moves left open: %+v", k, f.crashed, open)
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	for _, want := range []string{"before release", "after release", "before adopt", "after adopt", "settle", "answer to report lost", "answer to offering lost"} {
		if names[want] == 0 {
			t.Errorf("no crash at %q among %d", want, points)
		}
	}
	if points < 50 {
		t.Errorf("only %d points were tried", points)
	}
}

// TestTwoCrashesLeaveOneOwner crashes at two points of the same hand-over.
func TestTwoCrashesLeaveOneOwner(t *testing.T) {
	for first := 1; first <= 60; first += 6 {
		for second := 1; second <= 40; second += 5 {
			f := handOver(t)
			f.points, f.crashAt = 0, first
			f.cycles(12)
			f.points, f.crashAt = 0, second
			f.cycles(30)
			f.crashAt = 0
			f.cycles(60)
			f.checkExactlyOne()
			if t.Failed() {
				t.Fatalf("after crashes at points %d and then %d", first, second)
			}
		}
	}
}

// TestARestoredCoordinatorTakesUpWhatDonorsReleased: the store goes back to any
// earlier moment, as after a restore from a snapshot.
func TestARestoredCoordinatorTakesUpWhatDonorsReleased(t *testing.T) {
	for at := 0; at < 25; at += 2 {
		f := handOver(t)
		f.cycles(at)
		snapshot := map[string][]byte{}
		for k, v := range f.store {
			snapshot[k] = v
		}
		for f.cycles(1); len(f.core.Moves()) == 0 || f.core.Moves()[0].Phase != coordinator.Released; f.cycles(1) {
			if f.now > 5000*second {
				break
			}
		}
		f.store = snapshot
		f.restartCore()
		f.cycles(80)
		f.checkExactlyOne()
		if got := f.received("s-1"); got < 5 {
			t.Errorf("restored to cycle %d: s-1 has %d machines, want 5", at, got)
		}
		if open := f.openMoves(); len(open) > 0 {
			t.Errorf("restored to cycle %d: open moves %+v", at, open)
		}
	}
}

func TestAReceiverThatIsRemovedGivesMachinesBack(t *testing.T) {
	f := handOver(t)
	for range 200 {
		f.cycles(1)
		if m := f.core.Moves(); len(m) > 0 && m[0].Phase == coordinator.Asked {
			break
		}
	}
	f.exchange("s-0") // gets the instruction and releases
	f.exchange("s-0") // says so
	if m := f.core.Moves(); len(m) != 1 || m[0].Phase != coordinator.Released {
		t.Fatalf("moves %+v, want one released", m)
	}
	f.must(coordinator.RemoveShard{Shard: "s-1"})
	delete(f.shards, "s-1")
	delete(f.disks, "s-1")
	f.cycles(5)
	f.checkExactlyOne()
	if m := f.core.Moves(); m[0].Phase != coordinator.Returned {
		t.Errorf("phase %s, want returned", m[0].Phase)
	}
}

func TestAReceiverThatRefusesGivesMachinesBack(t *testing.T) {
	f := handOver(t)
	f.shards["s-1"].Point = func(name string) { f.point(name) }
	for range 200 {
		f.cycles(1)
		if m := f.core.Moves(); len(m) > 0 && m[0].Phase == coordinator.Asked {
			break
		}
	}
	f.exchange("s-0")
	f.exchange("s-0")
	r := f.shards["s-1"].Report(f.now)
	r.Acks = []coordinator.Ack{{ID: f.core.Moves()[0].ID + "/adopt", Outcome: coordinator.RejectedInvalid, Reason: "no"}}
	f.must(r)
	delete(f.needs, "s-1")
	f.cycles(5)
	f.checkExactlyOne()
	if m := f.core.Moves(); m[0].Phase != coordinator.Returned {
		t.Errorf("phase %s, want returned", m[0].Phase)
	}
}

// TestADonorThatComesBackLateIsHeard: the move was given up meanwhile.
func TestADonorThatComesBackLateIsHeard(t *testing.T) {
	f := handOver(t)
	for range 200 {
		f.cycles(1)
		if m := f.core.Moves(); len(m) > 0 && m[0].Phase == coordinator.Asked {
			break
		}
	}
	donor := f.shards["s-0"]
	r := donor.Report(f.now)
	f.must(r)
	donor.Answered(f.term, r, f.core.Instructions("s-0")) // it has released, and is cut off
	delete(f.shards, "s-0")
	f.cycles(40)
	if m := f.core.Moves(); m[0].Phase != coordinator.Cancelled {
		t.Fatalf("phase %s, want cancelled", m[0].Phase)
	}
	f.shards["s-0"] = donor
	f.cycles(30)
	f.checkExactlyOne()
	if m := f.core.Moves(); m[0].Phase != coordinator.Settled {
		t.Errorf("phase %s, want settled", m[0].Phase)
	}
}

// TestADonorsTimeRunsWhileShardsAreHeard: a successor that no shard has reached yet, and a leader that
// is cut off from all shards, give no move up. When the shards are heard, the donor has its time,
// and no other one is asked in its place.
func TestADonorsTimeRunsWhileShardsAreHeard(t *testing.T) {
	const missing = 5
	f := newFleet(t, coordinator.RebalanceOn, "s-0", "s-1", "s-2")
	f.machines("a", "zone-a", model.Idle, 8)
	f.machines("b", "zone-b", model.Idle, 8)
	f.assign()
	f.short("s-2", missing, nil)
	for range 200 {
		f.cycles(1)
		if m := f.core.Moves(); len(m) > 0 && m[0].Phase == coordinator.Asked {
			break
		}
	}
	passes := func(when string) {
		for range 3 * coordinator.AskedPassesMax {
			f.must(coordinator.Rebalance{})
		}
		if m := f.core.Moves(); len(m) != 1 || m[0].Phase != coordinator.Asked {
			t.Fatalf("%s: the moves are %+v, want the one that was asked for", when, m)
		}
	}
	passes("no shard is heard")
	f.restartCore()
	passes("a successor has heard of no shard")
	f.must(f.shards["s-2"].Report(f.now))
	passes("a successor has heard of one shard")
	f.cycles(60)
	f.checkExactlyOne()
	if got := f.received("s-2"); got != missing || len(f.core.Moves()) != 1 {
		t.Errorf("s-2 received %d machines in %d moves, want %d in one", got, len(f.core.Moves()), missing)
	}
}

func TestManyRoundsOfNeedMoveNoMoreThanIsNeeded(t *testing.T) {
	f := newFleet(t, coordinator.RebalanceOn, "s-0", "s-1", "s-2")
	f.machines("a", "zone-a", model.Idle, 40)
	f.machines("b", "zone-b", model.Idle, 40)
	f.assign()
	f.short("s-2", 50, nil)
	f.cycles(80)
	f.checkExactlyOne()
	total := 0
	for _, m := range f.core.Moves() {
		total += len(m.Machines)
	}
	if got := f.received("s-2"); got != 50 || total != 50 {
		t.Errorf("s-2 received %d machines in moves of %d, want 50 of 50", got, total)
	}
	for _, id := range []string{"s-0", "s-1"} {
		have := 0
		for m := range f.provider.Machines {
			if f.disks[id].Owns(f.provider, m) {
				have++
			}
		}
		if have < 1 {
			t.Errorf("%s kept nothing", id)
		}
	}
}

// TestAnAcknowledgementAloneMovesNothing: a shard that says yes to what it does
// not understand keeps its machines, and a drain takes its time.
func TestAnAcknowledgementAloneMovesNothing(t *testing.T) {
	f := handOver(t)
	for range 200 {
		f.cycles(1)
		if m := f.core.Moves(); len(m) > 0 && m[0].Phase == coordinator.Asked {
			break
		}
	}
	donor := f.shards["s-0"]
	delete(f.shards, "s-0")
	m := f.core.Moves()[0]
	yes := []coordinator.Ack{{ID: m.ID + "/release", Outcome: coordinator.Accepted}}
	for range 3 {
		r := donor.Report(f.now)
		r.Acks = yes
		f.must(r)
		f.must(donor.Offering())
		if got := f.core.Moves()[0]; got.Phase != coordinator.Asked {
			t.Fatalf("phase %s after a yes without machines, want asked", got.Phase)
		}
		if told := f.core.Instructions("s-1"); len(told) != 0 {
			t.Fatalf("the receiver is told %+v", told)
		}
	}
	for range 30 {
		f.must(donor.Report(f.now))
		f.must(donor.Offering())
		f.cycles(1)
	}
	if got := f.core.Moves()[0]; got.Phase != coordinator.Cancelled {
		t.Errorf("phase %s of a move that brought nothing, want cancelled", got.Phase)
	}
	f.checkExactlyOne()
}

// TestADonorGivesWhatIsStillThere: some of what was asked for is in use by then.
func TestADonorGivesWhatIsStillThere(t *testing.T) {
	f := handOver(t)
	for range 200 {
		f.cycles(1)
		if m := f.core.Moves(); len(m) > 0 && m[0].Phase == coordinator.Asked {
			break
		}
	}
	asked := f.core.Moves()[0].Machines
	for _, id := range asked[:2] {
		f.provider.Machines[id].Offer.State = model.Configured
	}
	f.cycles(10)
	m := f.core.Moves()[0]
	if m.Phase != coordinator.Settled || len(m.Machines) != len(asked)-2 || f.received("s-1") != len(asked)-2 {
		t.Errorf("phase %s with %d of %d machines, received %d", m.Phase, len(m.Machines), len(asked), f.received("s-1"))
	}
	f.checkExactlyOne()
}
