package contract

import (
	"math"
	"strings"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/reference"
)

// crew adds a gang of the cluster, named like it, with its machines of four
// cores: "ra:a1,a2 rb:b1" stand in racks ra and rb, all in one zone.
func (s *scene) crew(cluster string, priority int32, where string, opts ...needOpt) {
	s.Helper()
	n := s.need(cluster, priority, cpu(int64(4*(1+strings.Count(where, " ")+strings.Count(where, ",")))),
		append([]needOpt{unit(cpu(4)), same(model.KeyZone), group(cluster)}, opts...)...)
	for _, place := range strings.Fields(where) {
		at, ids, _ := strings.Cut(place, ":")
		for _, id := range strings.Split(ids, ",") {
			s.machine(id, bound, cpu(4), of(cluster), rack(at), zone("z"), serving(n))
		}
	}
}

// top is a gang that wants so many machines in one rack.
func (s *scene) top(machines int64) *row {
	s.Helper()
	return s.need("t", 1000, cpu(4*machines), unit(cpu(4)), same(rackKey), group("top"))
}

func least(r model.Resources) needOpt { return func(n *row) { n.MinAggregate = r } }
func shortFor(d time.Duration) needOpt {
	return func(n *row) { n.ShortSince = sceneStart - int64(d) }
}

// planned reserves the machine for the row as part of a plan. One that is bound is to be
// preempted for it, unless until says otherwise.
func planned(n *row) machineOpt {
	return func(m *model.Machine) {
		held(n)(m)
		if m.Reservation.Plan = 7; m.State == bound {
			m.Reservation.Deadline = 0
		}
	}
}

// gangRules hold where victims are chosen by gangs.
var gangRules = []rule{
	{"WhatAPlanDoesNotUseOfAGangStays", func(s *scene) {
		s.top(2)
		s.crew("v", 1, "ra:a1,a2,a3,a4")
		s.run().does("Preempt a1 0", "Preempt a2 0").reserves("a1 0", "a2 0")
	}},
	{"AGangStaysInOtherDomains", func(s *scene) {
		s.top(2)
		s.crew("v", 1, "ra:a1,a2 rb:b1,b2")
		s.run().does("Preempt a1 0", "Preempt a2 0").reserves("a1 0", "a2 0")
	}},
	{"TheGangThatIsHereGoesBeforeTheOneThatIsWide", func(s *scene) {
		s.top(2)
		s.crew("a", 1, "ra:a1,a2 rb:b1,b2,b3,b4,b5,b6")
		s.crew("z", 1, "ra:a3,a4")
		s.run().does("Preempt a3 0", "Preempt a4 0")
	}},
	{"NoMachineHoldsWhatNoneOffers", func(s *scene) {
		s.need("t", 1000, cpu(8))
		n := s.need("v", 1, vec("cpu", 4, "unknown", 1), same(model.KeyZone))
		s.machine("a1", bound, cpu(4), of("v"), zone("z"), serving(n))
		s.run().does()
	}},
	{"SurplusGoesOneByOneInReverseKeepOrder", func(s *scene) {
		s.top(1)
		n := s.need("v", 1, cpu(12), unit(cpu(4)), same(model.KeyZone), group("v"), least(cpu(4)))
		for i, id := range []string{"a1", "a2", "a3"} {
			s.machine(id, bound, cpu(4), of("v"), rack("ra"), zone("z"), serving(n), price(float64(i)))
		}
		s.run().does("Preempt a3 0")
	}},
	{"SurplusOfWhatOverflowsGoesToo", func(s *scene) {
		s.need("t", 1000, cpu(4))
		n := s.need("v", 1, cpu(math.MaxInt64), same(model.KeyZone), least(cpu(8)))
		s.machine("a1", bound, cpu(8), of("v"), zone("z"), serving(n))
		s.machine("a2", bound, cpu(math.MaxInt64-4), of("v"), zone("z"), serving(n), price(1))
		s.run().does("Preempt a2 0")
	}},
	{"TheMinimumOfARoleIsKept", func(s *scene) {
		n := s.top(2)
		s.crew("v", 1, "ra:a1,a2", least(cpu(4)), requires("role", model.DoesNotExist))
		s.crew("v", 2000, "rb:b1,b2", requires("k", model.DoesNotExist))
		s.run().does().unmet(n, reference.UnmetPreemptionExhausted)
	}},
	{"ARoleOfHigherPriorityProtectsTheGang", func(s *scene) {
		n := s.top(2)
		s.crew("v", 1, "ra:a1,a2", requires("role", model.DoesNotExist))
		s.crew("v", 2000, "rb:b1,b2", requires("k", model.DoesNotExist))
		s.run().does().unmet(n, reference.UnmetPriorityStarved)
	}},
	{"LowerPriorityGoesBeforeTheGentlerClass", func(s *scene) {
		s.top(1)
		s.crew("v", 1, "ra:a1,a2")
		s.crew("w", 5, "ra:b1,b2", least(cpu(4)))
		s.run().does("Preempt a1 0")
	}},
	{"WithAnInfiniteBandTheGentlerClassGoesFirst", func(s *scene) {
		s.in.Options.Band = math.Inf(1)
		s.top(1)
		s.crew("v", 1, "ra:a1,a2")
		s.crew("w", 5, "ra:b1,b2", least(cpu(4)))
		s.run().does("Preempt b2 0")
	}},
	{"WithoutABandTheScoreDecides", func(s *scene) {
		s.in.Options.Band = 0
		s.top(1)
		s.crew("v", 1, "ra:a1,a2", interruption(3))
		s.crew("w", 1, "ra:b1,b2", interruption(6), least(cpu(4)))
		for i := range s.in.Machines {
			s.in.Machines[i].Assigned.Interruption = map[string]model.Bucket{"v": 3, "w": 6}[s.in.Machines[i].Cluster]
		}
		s.run().does("Preempt a1 0")
	}},
	{"AnExactFitSparesTheSingleMachine", func(s *scene) {
		s.top(4)
		s.need("a", 1, cpu(4), unit(cpu(4)))
		s.machine("a1", bound, cpu(4), of("a"), rack("ra"))
		s.crew("v", 1, "ra:b1,b2,b3,b4")
		s.run().does("Preempt b1 0", "Preempt b2 0", "Preempt b3 0", "Preempt b4 0")
	}},
	{"ASubstituteFitsTheGapThatItFills", func(s *scene) {
		// The excess leaves two missing: the gang of two, not the one of three
		// that is the better victim.
		s.top(3)
		s.crew("v", 1, "ra:a1,a2,a3", interruption(6))
		s.crew("w", 1, "ra:b1,b2", interruption(9))
		s.machine("x", bound, cpu(4), of("u"), rack("ra"), at(1))
		for i := range s.in.Machines {
			s.in.Machines[i].Assigned.Interruption = map[string]model.Bucket{"v": 6, "w": 9}[s.in.Machines[i].Cluster]
		}
		s.run().does("Preempt x 0", "Preempt b1 0", "Preempt b2 0")
	}},
	{"ABrokenGangGoesBeforeAWholeOne", func(s *scene) {
		s.top(2)
		s.crew("a", 1, "ra:a1,a2")
		s.need("z", 1, cpu(16), unit(cpu(4)), same(model.KeyZone), group("z"), shortFor(time.Minute))
		s.machines("z1 z2", bound, cpu(4), of("z"), rack("ra"), zone("z"))
		s.run().does("Preempt z1 0", "Preempt z2 0")
	}},
	{"AGangShortForLessThanAMinuteIsLeftAlone", func(s *scene) {
		s.top(2)
		s.crew("a", 5, "ra:a1,a2")
		s.need("z", 1, cpu(16), unit(cpu(4)), same(model.KeyZone), group("z"), shortFor(time.Minute-1))
		s.machines("z1 z2", bound, cpu(4), of("z"), rack("ra"), zone("z"))
		s.run().does("Preempt a1 0", "Preempt a2 0")
	}},
	{"AnAssemblingGangIsLeftAlone", func(s *scene) {
		n := s.top(2)
		v := s.need("v", 1, cpu(12), unit(cpu(4)), same(model.KeyZone), group("v"), shortFor(time.Hour))
		s.machines("a1 a2", bound, cpu(4), of("v"), rack("ra"), zone("z"), serving(v))
		s.machine("a3", binding, cpu(4), of("v"), rack("ra"), zone("z"), serving(v))
		s.run().does().unmet(n, reference.UnmetPriorityStarved)
	}},
	{"WhatIsLeftOfABrokenGangServesTheNext", func(s *scene) {
		s.top(2)
		next := s.need("u", 900, cpu(8), unit(cpu(4)), same(rackKey), group("next"))
		s.crew("v", 1, "ra:a1,a2,a3,a4")
		s.crew("w", 50, "ra:b1,b2")
		s.run().does("Preempt a1 0", "Preempt a2 0", "Preempt a3 1", "Preempt a4 1").unmet(next, reference.UnmetAwaitingDrain).
			reserves("a1 0", "a2 0", "a3 1", "a4 1")
	}},
	{"TheSearchEndsWithItsPairs", func(s *scene) {
		s.gang(50, 8)
		s.gang(50, 8)
		s.holder(1)
		for _, r := range []string{"r1", "r2", "r3"} {
			s.machine(r+"a", bound, cpu(4), of("v"), rack(r))
			s.machine(r+"b", bound, cpu(4), of("v"), rack(r))
		}
		s.in.Options.SearchPairs = 3
		s.run().does("Preempt r1a 0", "Preempt r1b 0")
		s.in.Options.SearchPairs = 4
		s.run().does("Preempt r1a 0", "Preempt r1b 0", "Preempt r2a 1", "Preempt r2b 1")
	}},
	{"WhatDrainsForNobodyIsTakenBeforeAnybodyIsPreempted", func(s *scene) {
		s.need("a", 50, cpu(4))
		s.holder(1)
		s.machine("d", draining, cpu(4), of("v"))
		s.machine("m", bound, cpu(4), of("v"))
		s.run().does().reserves("d 0")
	}},
	{"WhatDrainsForLowerPriorityIsTakenBeforeAnybodyIsPreempted", func(s *scene) {
		s.need("a", 50, cpu(4))
		other := s.need("b", 40, cpu(4))
		s.holder(1)
		s.machine("d", draining, cpu(4), of("v"), held(other))
		s.machine("m", bound, cpu(4), of("v"))
		s.run().does("Preempt m 1").reserves("d 0", "m 1").ends("d")
	}},
	{"WhatDrainsForWhoIsSatisfiedIsTakenBeforeAnybodyIsPreempted", func(s *scene) {
		other := s.need("b", 90, cpu(4))
		s.need("a", 50, cpu(8))
		s.holder(1)
		s.machine("d1", draining, cpu(4), of("w"), held(other))
		s.machine("d2", draining, cpu(4), of("w"), held(other))
		s.machine("i", idle, cpu(4))
		s.machine("m", bound, cpu(4), of("v"))
		s.run().does("Bootstrap i 0").reserves("d1 1", "d2 1").ends("d1 d2")
	}},
	{"WhatDrainsForAHigherNeedThatAwaitsEnoughWithoutItIsTaken", func(s *scene) {
		other := s.need("b", 90, cpu(8))
		s.need("a", 50, cpu(4))
		s.holder(1)
		s.machines("d1 d2 d3", draining, cpu(4), of("w"), planned(other))
		s.machine("m", bound, cpu(4), of("v"))
		s.run().does().reserves("d3 1").ends("d3").awaits(other, cpu(8))
	}},
	{"WhatDrainsOfAPlanThatEndedIsItsOwnersFirst", func(s *scene) {
		s.need("k", 9000, cpu(4))
		other := s.need("b", 60, cpu(4))
		s.need("a", 50, cpu(8))
		s.holder(1)
		s.machine("i", idle, cpu(4), planned(other))
		s.machines("d1 d2", draining, cpu(4), of("w"), planned(other))
		s.machine("m", bound, cpu(4), of("v"))
		s.run().does("Bootstrap i 0", "Preempt m 2").reserves("d1 1", "d2 2", "m 2").ends("d1 d2 i").awaits(other, cpu(4))
	}},
	{"WhatDrainsOfItsOwnClusterIsNotCountedOn", func(s *scene) {
		s.need("a", 50, cpu(4))
		s.holder(1)
		s.machine("d", draining, cpu(4), of("a"))
		s.machine("m", bound, cpu(4), of("v"))
		s.run().does("Preempt m 0")
	}},
	{"ExcessIsTakenBeforeWhatDrainsForAnother", func(s *scene) {
		s.need("a", 50, cpu(4))
		other := s.need("b", 40, cpu(4))
		s.need("v", 60, cpu(1), unit(cpu(1)))
		s.machine("d", draining, cpu(4), of("w"), held(other))
		s.machine("k", bound, cpu(4), of("v"), price(1))
		s.machine("x", bound, cpu(4), of("v"), price(2))
		s.run().does("Preempt x 0").reserves("x 0").ends("")
	}},
	{"AGangsPlanCountsOnWhatDrainsForNobody", func(s *scene) {
		n := s.gang(50, 8)
		s.holder(1)
		s.machine("d", draining, cpu(4), of("v"), rack("r1"))
		s.machine("m1", bound, cpu(4), of("v"), rack("r1"))
		s.machine("m2", bound, cpu(4), of("v"), rack("r2"))
		s.machine("m3", bound, cpu(4), of("v"), rack("r2"))
		s.run().gathers(n, "r1").does("Preempt m1 0").reserves("d 0", "m1 0")
	}},
	{"ExcessOfHighPriorityIsReservedAndNotPreempted", func(s *scene) {
		n := s.top(2)
		s.crew("v", 1, "ra:a1,a2")
		s.machines("x1 x2", bound, cpu(4), of("u"), rack("ra"), at(5000))
		s.run().does("Reclaim x1", "Reclaim x2").reserves("x1 0", "x2 0").unmet(n, reference.UnmetAwaitingDrain)
	}},
	{"NoGangIsBrokenForAPart", func(s *scene) {
		n := s.need("t", 1000, cpu(40), unit(cpu(4)))
		s.crew("v", 1, "ra:a1,a2")
		s.need("w", 5, cpu(4))
		s.machine("b1", bound, cpu(4), of("w"))
		s.run().does("Preempt b1 0").unmet(n, reference.UnmetPreemptionExhausted)
	}},
	{"TheDomainWithTheLowestBandIsFreed", func(s *scene) {
		s.top(2)
		s.crew("a", 5, "ra:a1,a2")
		s.crew("v", 1, "rb:b1,b2,b3")
		s.run().does("Preempt b1 0", "Preempt b2 0")
	}},
	{"OfOneBandTheDomainWithFewestGangsIsFreed", func(s *scene) {
		s.top(4)
		s.crew("a", 1, "ra:a1,a2")
		s.crew("b", 1, "ra:a3,a4")
		s.crew("v", 1, "rb:b1,b2,b3,b4")
		s.run().does("Preempt b1 0", "Preempt b2 0", "Preempt b3 0", "Preempt b4 0")
	}},
	{"OfAsManyGangsTheDomainWithFewestMachinesIsFreed", func(s *scene) {
		s.top(2)
		s.crew("a", 1, "ra:a1,a2,a3")
		s.crew("v", 1, "rb:b1,b2")
		s.run().does("Preempt b1 0", "Preempt b2 0")
	}},
	{"UnreportedMachinesWithAGroupAreLeftAlone", func(s *scene) {
		n := s.top(2)
		s.in.Reported["u"] = false
		s.machines("a1 a2", bound, cpu(4), of("u"), rack("ra"), func(m *model.Machine) { m.Assigned.Group = "g" })
		s.run().does().unmet(n, reference.UnmetPriorityStarved)
	}},
	{"FreeMachinesThatAPlanLeavesAreHeldForTheNext", func(s *scene) {
		// The gang goes to rb; what it leaves in ra is of use to the row of v,
		// which has nothing to preempt, and is not deleted.
		s.gang(100, 8)
		s.need("v", 1, cpu(40))
		s.machine("a1", idle, cpu(4), rack("ra"), capacity(model.Spot, time.Hour))
		s.machines("b1 b2", bound, cpu(4), of("v"), rack("rb"), at(1))
		s.run().does("Preempt b1 0", "Preempt b2 0").reserves("b1 0", "b2 0", "a1 1")
	}},
	{"FreeMachinesThatTheSkewAllowsByNowAreHeld", func(s *scene) {
		// When i3 could be had, zb had one; j2 came after all that is Idle.
		n := s.need("a", 50, cpu(24), hard(model.KeyZone, 1))
		s.machines("i1 i2 i3", idle, cpu(4), zone("za"))
		s.machine("j1", idle, cpu(4), zone("zb"))
		s.machine("j2", spec, cpu(4), zone("zb"))
		s.run().does("Bootstrap i1 0", "Bootstrap j1 0", "Bootstrap i2 0", "Provision j2 0").reserves("i3 0").
			lacks(n, cpu(8)).unmet(n, reference.UnmetSpread)
	}},
	{"DomainsThatCannotCoverAreNoTries", func(s *scene) {
		n := s.gang(100, 8)
		s.need("v", 1, cpu(8), requires(rackKey, model.In, "rb"))
		s.in.Options.TopDomains = 1
		s.machine("a1", idle, cpu(4), rack("ra"))
		s.machines("b1 b2", bound, cpu(4), of("v"), rack("rb"), at(1))
		s.run().does("Preempt b1 0", "Preempt b2 0").gathers(n, "rb").unmet(n, reference.UnmetAwaitingDrain)
	}},
}

// nestedRules are about topology keys of which one lies in another.
var nestedRules = []rule{
	{"OfNestedKeysTheNarrowestThatHoldsTheGangIsFreed", func(s *scene) {
		// The zone as a whole would give its lowest priorities.
		s.in.Options.Nested = []string{model.KeyZone, rackKey}
		s.need("t", 1000, cpu(8), unit(cpu(4)), same(model.KeyZone), group("top"))
		s.need("v", 1, cpu(8), unit(cpu(4)), requires("low", model.Exists))
		s.need("w", 5, cpu(4), unit(cpu(4)))
		s.machine("a1", bound, cpu(4), of("v"), rack("ra"), zone("z"), label("low", "1"))
		s.machine("b1", bound, cpu(4), of("v"), rack("rb"), zone("z"), label("low", "1"))
		s.machine("b2", bound, cpu(4), of("w"), rack("rb"), zone("z"))
		s.run().does("Preempt b1 0", "Preempt b2 0")
	}},
	{"WhereNoNarrowDomainHoldsTheGangAWiderOneIsFreed", func(s *scene) {
		s.in.Options.Nested = []string{model.KeyZone, rackKey}
		s.need("t", 1000, cpu(8), unit(cpu(4)), same(model.KeyZone), group("top"))
		s.need("v", 1, cpu(8), unit(cpu(4)))
		s.machine("a1", bound, cpu(4), of("v"), rack("ra"), zone("z"))
		s.machine("b1", bound, cpu(4), of("v"), rack("rb"), zone("z"))
		s.run().does("Preempt a1 0", "Preempt b1 0")
	}},
}

// planRules are about reservations that are part of a plan.
var planRules = []rule{
	{"AHigherRankThatTakesAMachineVoidsThePlan", func(s *scene) {
		n := s.top(3)
		king := s.need("k", 9000, cpu(4), unit(cpu(4)))
		s.machine("a1", idle, cpu(4), rack("ra"), planned(n))
		s.machines("a2 a3", draining, cpu(4), of("v"), rack("ra"), planned(n))
		s.need("v", 1, cpu(4), unit(cpu(4)))
		s.machine("b1", bound, cpu(4), of("v"), rack("ra"))
		s.run().does("Bootstrap a1 1", "Preempt b1 0").satisfied(king).ends("a1 a2 a3").reserves("a2 0", "a3 0", "b1 0").
			awaits(n, cpu(8)).unmet(n, reference.UnmetAwaitingDrain)
	}},
	{"SiblingsOfAVoidedPlanAreFreeAtOnce", func(s *scene) {
		n := s.top(2)
		s.need("k", 9000, cpu(4), unit(cpu(4)))
		next := s.need("n", 10, cpu(4), unit(cpu(4)), requires(rackKey, model.In, "rb"))
		s.machine("a1", idle, cpu(4), rack("rb"), planned(n))
		s.machine("a2", idle, cpu(4), rack("rb"), planned(n), price(1))
		s.machines("b1 b2", spec, cpu(4), rack("rc"))
		s.run().does("Bootstrap a1 1", "Bootstrap a2 2", "Provision b1 0", "Provision b2 0").ends("a1 a2").gathers(n, "rc").satisfied(next)
	}},
	{"WhatStillDrainsCountsInThePassInWhichItEnds", func(s *scene) {
		n := s.top(2)
		s.need("k", 9000, cpu(4), unit(cpu(4)))
		s.machine("a1", idle, cpu(4), rack("ra"), held(n))
		s.machine("a2", draining, cpu(4), of("v"), rack("ra"), held(n))
		s.need("v", 1, cpu(4), unit(cpu(4)))
		s.machine("b1", bound, cpu(4), of("v"), rack("ra"))
		s.run().does("Bootstrap a1 1", "Preempt b1 0").ends("a1 a2").reserves("a2 0", "b1 0").awaits(n, cpu(4))
	}},
	{"APlanWhoseDomainIsLostEnds", func(s *scene) {
		n := s.top(3)
		s.machine("b0", draining, cpu(4), of("v"), rack("rb"), planned(n))
		s.crew("v", 1, "ra:a1,a2,a3")
		s.run().does().ends("b0").unmet(n, reference.UnmetPriorityStarved)
	}},
	{"WhatTheOwnerNeedsNoLongerEnds", func(s *scene) {
		n := s.top(1)
		s.machines("a1 a2", draining, cpu(4), of("v"), rack("ra"), planned(n))
		s.run().does().ends("a2").awaits(n, cpu(4)).unmet(n, reference.UnmetAwaitingDrain)
	}},
	{"NothingIsBoundBeforeEveryDrainHasBegun", func(s *scene) {
		n := s.top(2)
		s.machine("a1", idle, cpu(4), rack("ra"), planned(n))
		s.machine("a2", bound, cpu(4), of("v"), rack("ra"), planned(n))
		s.need("v", 1, cpu(4), unit(cpu(4)))
		s.run().does().ends("").unmet(n, reference.UnmetAwaitingDrain)
	}},
	{"WhatAPlanCountsOnAsExcessCountsForNobody", func(s *scene) {
		n := s.top(2)
		s.machine("a1", idle, cpu(4), rack("ra"), planned(n))
		s.machine("a2", bound, cpu(4), of("v"), rack("ra"), planned(n), until(time.Minute))
		v := s.need("v", 1, cpu(4), unit(cpu(4)))
		s.run().does("Reclaim a2").ends("").claims(v, "").unmet(n, reference.UnmetAwaitingDrain)
	}},
	{"ANeedThatLostAMachineCountsOnTheExcessOfItsCluster", func(s *scene) {
		loser := s.lost(20)
		low := s.need("b", 10, cpu(4))
		s.machine("v2", bound, cpu(4), of("v"), at(30))
		s.run().claims(loser, "v1").does("Preempt v1 0").reserves("v1 0").unmet(low, reference.UnmetPriorityStarved)
	}},
	{"MoreThanItLostIsThereForPlansBelowIt", func(s *scene) {
		s.lost(20)
		s.need("b", 10, cpu(4))
		s.machines("v2 v3", bound, cpu(4), of("v"), at(30))
		s.run().does("Preempt v1 0").reserves("v1 0", "v3 2")
	}},
	{"ThereIsExcessForPlansAboveIt", func(s *scene) {
		s.lost(5)
		s.need("b", 10, cpu(4))
		s.machine("v2", bound, cpu(4), of("v"), at(30))
		s.run().does("Preempt v1 0").reserves("v1 0", "v2 2")
	}},
	{"WhatDoesNotServeItIsThereForPlansBelowIt", func(s *scene) {
		s.lost(20)
		s.need("b", 10, cpu(1))
		s.machine("v2", bound, cpu(1), of("v"), at(30))
		s.run().does("Preempt v1 0").reserves("v1 0", "v2 2")
	}},
	{"WhatAPlanCountsOnAsExcessIsNoVictim", func(s *scene) {
		n := s.top(2)
		s.machine("a1", idle, cpu(4), rack("ra"), planned(n))
		s.machine("a2", bound, cpu(4), of("v"), rack("ra"), planned(n), until(time.Minute))
		w := s.need("w", 2000, cpu(4), unit(cpu(4)))
		s.machine("a3", bound, cpu(4), of("v"), rack("ra"))
		s.need("v", 1, cpu(4), unit(cpu(4)))
		s.run().does("Bootstrap a1 1").claims(w, "a1") // a2 is its cluster's again: it may be reclaimed in the next cycle
	}},
	{"TheIdlePartStartsOnceTheRestDrains", func(s *scene) {
		n := s.top(2)
		s.machine("a1", idle, cpu(4), rack("ra"), planned(n))
		s.machine("a2", draining, cpu(4), of("v"), rack("ra"), planned(n))
		s.run().does("Bootstrap a1 0").ends("").unmet(n, reference.UnmetAwaitingDrain)
	}},
	{"AnOwnerWhosePlanFailedPreemptsNobody", func(s *scene) {
		n := s.top(2)
		s.crew("v", 1, "ra:a1,a2")
		s.in.BackingOff = map[model.Owner]bool{n.Owner(): true}
		s.run().does().unmet(n, reference.UnmetPriorityStarved)
	}},
	{"APlanHoldsLastWhatIsHeldForALowerRank", func(s *scene) {
		n := s.top(3)
		low := s.need("l", 5, cpu(4), requires("k", model.Exists))
		s.need("v", 1, cpu(8), unit(cpu(8)))
		s.machine("a1", idle, cpu(9), rack("ra"))
		s.machine("b1", idle, cpu(4), rack("rb"), price(9))
		s.machine("b2", idle, cpu(4), rack("rb"), held(low))
		s.machine("b3", bound, cpu(8), of("v"), rack("rb"))
		s.run().does("Preempt b3 0").reserves("b1 0", "b3 0").gathers(n, "rb").ends("")
	}},
	{"ADryRunCountsFirstWhatTheNeedAcquires", func(s *scene) {
		// With all that v has and b, which is dear, 16 are there; with b counted first, two of v suffice.
		n := s.need("t", 1000, cpu(12), unit(cpu(4)), same(rackKey), group("top"))
		s.machine("b", idle, cpu(4), rack("ra"), price(9))
		s.crew("v", 1, "ra:a1,a2,a3,a4")
		s.run().does("Bootstrap b 0", "Preempt a1 0", "Preempt a2 0").reserves("a1 0", "a2 0").gathers(n, "ra")
	}},
	{"APlanInAnotherDomainHoldsItsIdleMachines", func(s *scene) {
		// Phase 1 gathers more in ra, where nobody can be preempted.
		n := s.top(3)
		s.machines("a1 a2", idle, cpu(4), rack("ra"), capacity(model.Spot, time.Hour))
		s.machine("b1", idle, cpu(4), rack("rb"), capacity(model.Spot, time.Hour))
		s.crew("v", 1, "rb:b2,b3")
		s.run().does("Preempt b2 0", "Preempt b3 0").reserves("b1 0", "b2 0", "b3 0").gathers(n, "rb")
	}},
}

// tenantRules are about reclaim between tenants.
var tenantRules = []rule{
	{"ATenantBelowItsShareTakesFromOneAbove", func(s *scene) {
		s.tenants("t", cpu(8), "v", cpu(8))
		n := s.need("t", 1, cpu(8), unit(cpu(4)))
		s.need("v", 1, cpu(16), unit(cpu(4)))
		s.machines("a1 a2 a3 a4", bound, cpu(4), of("v"))
		s.run().does("Preempt a1 0", "Preempt a2 0").grace("a1", 600).unmet(n, reference.UnmetAwaitingDrain).reserves("a1 0", "a2 0")
	}},
	{"AGiverKeepsItsShare", func(s *scene) {
		s.tenants("t", cpu(40), "v", cpu(12))
		n := s.need("t", 1, cpu(8), unit(cpu(4)))
		s.need("v", 1, cpu(16), unit(cpu(4)))
		s.machines("a1 a2 a3 a4", bound, cpu(4), of("v"))
		s.run().does("Preempt a1 0").unmet(n, reference.UnmetPreemptionExhausted)
	}},
	{"ATakerStaysWithinItsShare", func(s *scene) {
		s.tenants("t", cpu(8), "v", cpu(4))
		s.need("t", 1, cpu(16), unit(cpu(4)))
		s.need("v", 1, cpu(16), unit(cpu(4)))
		s.machine("o", bound, cpu(4), of("t"))
		s.machines("a1 a2 a3 a4", bound, cpu(4), of("v"))
		s.run().does("Preempt a1 0")
	}},
	{"AUnitIsDebitedAsAWhole", func(s *scene) {
		s.tenants("t", cpu(40), "v", cpu(12))
		s.need("t", 1, cpu(4), unit(cpu(4)))
		s.crew("v", 1, "ra:a1,a2,a3,a4")
		s.run().does()
	}},
	{"TheTenantFarthestAboveGivesFirst", func(s *scene) {
		s.tenants("t", cpu(40), "v", cpu(8), "w", cpu(4))
		s.need("t", 1, cpu(4), unit(cpu(4)))
		s.need("v", 1, cpu(12), unit(cpu(4)))
		s.need("w", 1, cpu(12), unit(cpu(4)))
		s.machines("a1 a2 a3", bound, cpu(4), of("v"))
		s.machines("b1 b2 b3", bound, cpu(4), of("w"))
		s.run().does("Preempt b1 0")
	}},
	{"SurplusGoesBeforeWhatServesNoGang", func(s *scene) {
		s.tenants("t", cpu(4), "v", cpu(4))
		s.need("t", 1, cpu(4), unit(cpu(4)))
		s.crew("v", 1, "ra:z1,z2,z3", least(cpu(4)))
		s.need("v", 1, cpu(4), unit(cpu(4)))
		s.machine("a1", bound, cpu(4), of("v"))
		s.run().does("Preempt z3 0")
	}},
	{"NobodyTakesFromHigherPriority", func(s *scene) {
		s.tenants("t", cpu(40), "v", cpu(4))
		s.need("t", 1, cpu(4), unit(cpu(4)))
		s.need("v", 2, cpu(16), unit(cpu(4)))
		s.machines("a1 a2 a3 a4", bound, cpu(4), of("v"))
		s.run().does()
	}},
	{"AGiverOfHigherRankDoesNotTakeBackWhatItGave", func(s *scene) {
		s.tenants("t", cpu(8), "v", cpu(8))
		s.need("v", 1, cpu(16), unit(cpu(4)))
		n := s.need("t", 1, cpu(8), unit(cpu(4)), arrival(5))
		s.machines("a1 a2", idle, cpu(4), planned(n))
		s.machines("a3 a4", bound, cpu(4), of("v"))
		s.run().does("Bootstrap a1 1", "Bootstrap a2 1")
	}},
	{"HigherPriorityTakesWhatATenantsPlanHolds", func(s *scene) {
		s.tenants("t", cpu(8), "v", cpu(8))
		s.need("v", 2, cpu(4), unit(cpu(4)))
		n := s.need("t", 1, cpu(4), unit(cpu(4)))
		s.machine("a1", idle, cpu(4), planned(n))
		s.run().does("Bootstrap a1 0").ends("a1")
	}},
	{"WithoutTenantsEqualPriorityIsSafe", func(s *scene) {
		s.need("t", 1, cpu(4), unit(cpu(4)))
		s.need("v", 1, cpu(16), unit(cpu(4)))
		s.machines("a1 a2 a3 a4", bound, cpu(4), of("v"))
		s.run().does()
	}},
}

// tenants adds tenants of one cluster each: name and share in turn.
func (s *scene) tenants(pairs ...any) {
	for i := 0; i < len(pairs); i += 2 {
		name := pairs[i].(string)
		s.in.Options.Tenants = append(s.in.Options.Tenants, reference.Tenant{Name: name, Clusters: []string{name}, Share: pairs[i+1].(model.Resources)})
	}
}
