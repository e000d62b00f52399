package contract

import (
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/reference"
)

var reservationRules = []rule{
	{"WhatDrainsForANeedIsNotPreemptedForAgain", func(s *scene) {
		n := s.need("a", 50, cpu(4))
		s.holder(1)
		s.machine("d", draining, cpu(4), of("v"), held(n))
		s.machine("m", bound, cpu(4), of("v"))
		s.run().does().awaits(n, cpu(4)).lacks(n, cpu(4)).unmet(n, reference.UnmetAwaitingDrain).ends("")
	}},
	{"OnlyTheRestIsPreempted", func(s *scene) {
		n := s.need("a", 50, cpu(12))
		s.holder(1)
		s.machine("d", draining, cpu(4), of("v"), held(n))
		s.machines("m1 m2 m3", bound, cpu(4), of("v"))
		s.run().does("Preempt m1 0", "Preempt m2 0").awaits(n, cpu(4)).unmet(n, reference.UnmetAwaitingDrain)
	}},
	{"InFlightIsAtMostTheDeficit", func(s *scene) {
		n := s.need("a", 50, cpu(4))
		s.machine("d", draining, cpu(16), of("v"), held(n))
		s.run().awaits(n, cpu(4))
	}},
	{"AStampedVictimThatIsStillBoundIsInFlight", func(s *scene) {
		n := s.need("a", 50, cpu(4))
		s.holder(1)
		s.machine("d", bound, cpu(4), of("v"), held(n))
		s.machine("m", bound, cpu(4), of("v"))
		s.run().does().awaits(n, cpu(4)).unmet(n, reference.UnmetAwaitingDrain).ends("")
	}},
	{"WhatDrainsForAnotherIsNotInFlight", func(s *scene) {
		n := s.need("a", 50, cpu(4))
		other := s.need("b", 50, cpu(4))
		s.holder(1)
		s.machine("d", draining, cpu(4), of("v"), held(other))
		s.machine("m", bound, cpu(4), of("v"))
		s.run().does("Preempt m 0").awaits(n, nil).awaits(other, cpu(4))
	}},
	{"WhatDrainsForNobodyIsNotInFlight", func(s *scene) {
		n := s.need("a", 50, cpu(4))
		s.machine("d", draining, cpu(4), of("v"))
		s.run().does().awaits(n, nil).unmet(n, reference.UnmetPriorityStarved)
	}},
	{"ADrainingMachinesReservationDoesNotExpire", func(s *scene) {
		n := s.need("a", 50, cpu(4))
		s.holder(1)
		s.machine("d", draining, cpu(4), of("v"), held(n), until(-time.Hour))
		s.machine("m", bound, cpu(4), of("v"))
		s.run().does().unmet(n, reference.UnmetAwaitingDrain).ends("")
	}},
	{"RowsOfOneIdentityShareWhatDrainsInRankOrder", func(s *scene) {
		first := s.need("a", 50, cpu(4))
		second := s.need("a", 50, cpu(4))
		s.holder(1)
		s.machine("d", draining, cpu(4), of("v"), held(first))
		s.machines("m1 m2", bound, cpu(4), of("v"))
		s.run().does("Preempt m1 1").awaits(first, cpu(4)).awaits(second, nil)
	}},
	{"WhatDrainsIsSharedInKeepOrder", func(s *scene) {
		first := s.need("a", 50, cpu(4))
		second := s.need("a", 50, cpu(8))
		s.machine("a", draining, cpu(4), of("v"), held(first), price(5))
		s.machine("b", draining, cpu(8), of("v"), held(first), price(1))
		s.run().awaits(first, cpu(4)).awaits(second, cpu(4))
	}},
	{"WhatDoesNotServeItsOwnerIsNotInFlight", func(s *scene) {
		n := s.need("a", 50, cpu(4), unit(cpu(4)))
		s.holder(1)
		s.machine("d", draining, cpu(2), of("v"), held(n))
		s.machine("m", bound, cpu(4), of("v"))
		s.run().does("Preempt m 0").awaits(n, nil)
	}},
	{"AFoldAwaitsWhatDrainsForItsMembers", func(s *scene) {
		g := s.need("a", 50, cpu(4), same(rackKey), group("g"))
		s.holder(1)
		s.need("w", 99, cpu(4))
		s.machine("w1", idle, cpu(4), rack("r"))
		s.machine("d", draining, cpu(4), of("v"), held(g), rack("r"))
		s.machine("m", bound, cpu(4), of("v"), rack("r"))
		s.run().does("Bootstrap w1 2").awaits(g, cpu(4)).unmet(g, reference.UnmetAwaitingDrain)
	}},
	{"AFoldAwaitsWhatDrainsForItself", func(s *scene) {
		g := s.need("a", 50, cpu(4), same(rackKey), group("g"))
		s.holder(1)
		s.need("w", 99, cpu(4))
		s.machine("w1", idle, cpu(4), rack("r"))
		s.machine("d", draining, cpu(4), of("v"), held(foldOf(g)), rack("r"))
		s.machine("m", bound, cpu(4), of("v"), rack("r"))
		s.run().does("Bootstrap w1 2").awaits(g, cpu(4))
	}},
	{"AReservationEndsWhenItsOwnerIsSatisfiedOtherwise", func(s *scene) {
		n := s.need("a", 50, cpu(4))
		s.machine("i", idle, cpu(4))
		s.machine("d", draining, cpu(4), of("v"), held(n))
		s.run().satisfied(n).ends("d")
	}},
	{"ItStillHoldsInThePassThatSatisfiesItsOwner", func(s *scene) {
		n := s.need("a", 50, cpu(4))
		low := s.need("b", 10, cpu(4))
		s.machines("i j", idle, cpu(4), held(n))
		s.run().claims(n, "i").claims(low, "").ends("j")
	}},
	{"AReservationEndsWhenItsOwnerIsWithdrawn", func(s *scene) {
		s.need("a", 50, cpu(1))
		s.machine("d", draining, cpu(4), of("v"), heldBy("a", 5))
		s.run().ends("d")
	}},
	{"OwnersOfUnreportedClustersAreWaitedFor", func(s *scene) {
		s.machine("d", draining, cpu(4), of("v"), heldBy("silent", 5))
		s.machine("i", idle, cpu(4), heldBy("silent", 5), capacity(model.Spot, time.Hour))
		s.run().ends("").does()
	}},
	{"TheOwnersBootstrapKeepsTheStamp", func(s *scene) {
		n := s.need("a", 50, cpu(4))
		s.machine("i", idle, cpu(4), held(n))
		s.run().claims(n, "i").ends("")
	}},
	{"OneShortRowKeepsTheReservationOfItsIdentity", func(s *scene) {
		first := s.need("a", 50, cpu(4))
		s.need("a", 50, cpu(4))
		s.machine("i", idle, cpu(4))
		s.machine("d", draining, cpu(4), of("v"), held(first))
		s.run().satisfied(first).ends("")
	}},
}

// keeps says that an idle machine held so long is not deleted.
func keeps(c model.CapacityType, idleFor time.Duration) func(*scene) {
	return func(s *scene) {
		s.machine("m", idle, cpu(4), capacity(c, idleFor))
		s.run().does()
	}
}

func deletes(c model.CapacityType, idleFor time.Duration) func(*scene) {
	return func(s *scene) {
		s.machine("m", idle, cpu(4), capacity(c, idleFor))
		s.run().does("Delete m")
	}
}

var releaseRules = []rule{
	{"WhatNobodyClaimsIsReclaimed", func(s *scene) {
		s.need("c", 10, cpu(4))
		s.machines("a b", bound, cpu(4), of("c"))
		s.run().does("Reclaim b").grace("b", 600)
	}},
	{"AClusterThatReportedNothingIsReclaimedWhole", func(s *scene) {
		s.in.Reported["c"] = true
		s.machines("a b", bound, cpu(4), of("c"))
		s.run().does("Reclaim a", "Reclaim b")
	}},
	{"NothingIsReclaimedBeforeTheFirstReport", func(s *scene) {
		s.in.Reported["c"] = false
		s.machine("a", bound, cpu(4), of("c"))
		s.run().does()
	}},
	{"ReclaimsGoByClusterThenKeepOrder", func(s *scene) {
		s.machine("a", bound, cpu(4), of("c2"))
		s.machine("b", bound, cpu(4), of("c1"), price(2))
		s.machine("d", bound, cpu(4), of("c1"), price(1))
		s.machine("e", bound, cpu(4), of("c1"), price(1), worth(0, 9))
		s.run().does("Reclaim e", "Reclaim d", "Reclaim b", "Reclaim a")
	}},
	{"NothingIsReclaimedBesideAPreemption", func(s *scene) {
		s.need("p", 900, cpu(8), unit(cpu(8)))
		s.need("v", 100, cpu(8), unit(cpu(8)))
		s.machine("a", bound, cpu(8), of("v"))
		s.machine("b", bound, cpu(2), of("v"))
		s.machine("c", bound, cpu(2), of("w"))
		s.run().does("Preempt a 0", "Reclaim c")
	}},
	{"ThePreemptionOfExcessHoldsNoReclaimBack", func(s *scene) {
		s.need("p", 900, cpu(8), unit(cpu(8)))
		s.machine("a", bound, cpu(8), of("v"))
		s.machine("b", bound, cpu(2), of("v"))
		s.run().does("Preempt a 0", "Reclaim b")
	}},
	{"OnlyConfiguredMachinesAreReclaimed", func(s *scene) {
		s.machine("a", binding, cpu(4), of("c"))
		s.machine("b", draining, cpu(4), of("c"))
		s.run().does()
	}},
	{"OnDemandIsDeletedAfterTenMinutes", deletes(model.OnDemand, 10*time.Minute)},
	{"OnDemandIsKeptForTenMinutes", keeps(model.OnDemand, 10*time.Minute-1)},
	{"SpotIsDeletedAfterAMinute", deletes(model.Spot, time.Minute)},
	{"SpotIsKeptForAMinute", keeps(model.Spot, time.Minute-1)},
	{"BareMetalIsNeverDeleted", keeps(model.BareMetal, 1000*time.Hour)},
	{"ReservedCapacityIsNeverDeleted", keeps(model.Reserved, 1000*time.Hour)},
	{"UnspecifiedCapacityIsNeverDeleted", keeps(model.CapacityUnspecified, 1000*time.Hour)},
	{"AHoldOfZeroSwitchesReleaseOff", func(s *scene) {
		s.in.Options.Release = reference.Release{OnDemand: 0, Spot: time.Minute}
		s.machine("a", idle, cpu(4), capacity(model.OnDemand, time.Hour))
		s.machine("b", idle, cpu(4), capacity(model.Spot, time.Hour))
		s.run().does("Delete b")
	}},
	{"ClaimedMachinesAreNotDeleted", func(s *scene) {
		s.need("c", 10, cpu(4))
		s.machine("m", idle, cpu(4), capacity(model.Spot, time.Hour))
		s.run().does("Bootstrap m 0")
	}},
	{"ReservedMachinesAreNotDeleted", func(s *scene) {
		n := s.need("c", 10, cpu(4), requires("k", model.Exists))
		s.machine("m", idle, cpu(4), capacity(model.Spot, time.Hour), held(n))
		s.run().does()
	}},
	{"AMachineIsNotDeletedInTheCycleInWhichItsReservationEnds", func(s *scene) {
		n := s.need("c", 10, cpu(4), requires("k", model.Exists))
		s.machine("m", idle, cpu(4), capacity(model.Spot, time.Hour), held(n), until(-1))
		s.run().does().ends("m")
	}},
	{"WhatAGangCouldUseThatWaitsElsewhereIsNotDeleted", func(s *scene) {
		n := s.need("c", 10, cpu(12), unit(cpu(4)), same(rackKey), group("g"))
		s.machine("b1", idle, cpu(4), rack("rb"), held(n))
		s.machine("b2", draining, cpu(4), of("v"), rack("rb"), held(n))
		s.machine("a", idle, cpu(4), rack("ra"), capacity(model.Spot, time.Hour))
		s.machine("small", idle, cpu(2), rack("ra"), capacity(model.Spot, time.Hour))
		s.run().does("Bootstrap b1 0", "Delete small").gathers(n, "rb")
	}},
	{"WhatAGangCouldUseThatIsShortAndWaitsForNothingIsDeleted", func(s *scene) {
		n := s.need("c", 10, cpu(12), unit(cpu(4)), same(rackKey), group("g"))
		s.machines("b1 b2", idle, cpu(4), rack("rb"))
		s.machine("a", idle, cpu(4), rack("ra"), capacity(model.Spot, time.Hour))
		s.run().does("Bootstrap b1 0", "Bootstrap b2 0", "Delete a").gathers(n, "rb")
	}},
	{"WhatARowCouldUseThatWasFoldedForAMachineThatAnotherGotIsNotDeleted", func(s *scene) {
		s.need("c", 10, cpu(8), unit(cpu(4)), same(rackKey), group("g"))
		s.need("h", 20, cpu(8), unit(cpu(8)))
		s.machine("large", idle, cpu(8), rack("ra"))
		s.machine("part", idle, cpu(4), rack("ra"), capacity(model.Spot, time.Hour))
		s.machine("small", idle, cpu(2), rack("ra"), capacity(model.Spot, time.Hour))
		s.machine("elsewhere", idle, cpu(4), capacity(model.Spot, time.Hour))
		s.run().does("Bootstrap large 1", "Delete elsewhere", "Delete small")
	}},
	{"WhatARowCouldUseThatStaysFoldedIsDeleted", func(s *scene) {
		s.need("c", 10, cpu(8), unit(cpu(4)), same(rackKey), group("g"))
		first := s.need("c", 20, cpu(8), unit(cpu(8)))
		s.machine("large", bound, cpu(8), of("c"), serving(first), rack("ra"))
		s.machine("part", idle, cpu(4), rack("ra"), capacity(model.Spot, time.Hour))
		s.run().does("Delete part")
	}},
	{"DeletesGoByIDWhateverTheReports", func(s *scene) {
		s.machine("b", idle, cpu(4), capacity(model.Spot, time.Hour))
		s.machine("a", idle, cpu(4), capacity(model.OnDemand, time.Hour), price(9))
		s.run().does("Delete a", "Delete b")
	}},
	{"APlanIsEmittedByKind", func(s *scene) {
		s.need("c", 50, cpu(12))
		s.need("v", 1, cpu(4))
		s.machine("d", idle, vec("gpu", 1), capacity(model.Spot, time.Hour))
		s.machine("r", bound, vec("gpu", 1), of("w"))
		s.machine("p", bound, cpu(4), of("v"))
		s.machine("s", spec, cpu(4))
		s.machine("b", idle, cpu(4))
		o := s.run().does("Bootstrap b 0", "Provision s 0", "Preempt p 0", "Reclaim r", "Delete d")
		for machine, reason := range map[string]string{
			"b": reference.ReasonIdle, "s": reference.ReasonSpeculative, "p": reference.ReasonPreempt,
			"r": reference.ReasonExcess, "d": reference.ReasonRelease,
		} {
			if got := o.action(machine).Reason; got != reason {
				s.Errorf("reason of %s: got %q, want %q", machine, got, reason)
			}
		}
	}},
}
