package contract

import (
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/reference"
)

var creditRules = []rule{
	{"BoundMachinesCountBeforeThePool", func(s *scene) {
		n := s.need("c", 10, cpu(4))
		s.machine("free", idle, cpu(4))
		s.machine("ours", bound, cpu(4), of("c"), price(9))
		s.run().claims(n, "ours").does()
	}},
	{"ConfiguredThenConfiguringThenCreating", func(s *scene) {
		n := s.need("c", 10, cpu(12))
		s.machine("a", binding, cpu(4), of("c"), serving(n))
		s.machine("b", bound, cpu(4), of("c"), serving(n), price(9))
		s.machine("d", creating, cpu(4), held(n))
		s.run().claims(n, "b a d")
	}},
	{"KeepOrderIsPriceThenReclamationThenID", func(s *scene) {
		n := s.need("c", 10, cpu(16))
		s.machine("a", bound, cpu(4), of("c"), price(2))
		s.machine("e", bound, cpu(4), of("c"), price(1), worth(0, 3))
		s.machine("d", bound, cpu(4), of("c"), price(1), worth(0, 3))
		s.machine("f", bound, cpu(4), of("c"), price(1), worth(0, model.BucketPinned))
		s.machine("b", bound, cpu(4), of("c"), price(1))
		s.run().claims(n, "f d e b").does("Reclaim a")
	}},
	{"UnspecifiedReclamationIsZeroDollars", func(s *scene) {
		n := s.need("c", 10, cpu(4))
		s.machine("a", bound, cpu(4), of("c"))
		s.machine("b", bound, cpu(4), of("c"), worth(0, model.BucketZero))
		s.run().claims(n, "a")
	}},
	{"OwnIncumbentsComeFirstOverTheWholeWalk", func(s *scene) {
		n := s.need("c", 10, cpu(8), group("g"))
		s.machine("cheap", bound, cpu(4), of("c"))
		s.machine("own2", binding, cpu(4), of("c"), price(8), serving(n))
		s.machine("own1", bound, cpu(4), of("c"), price(9), serving(n))
		s.run().claims(n, "own1 own2").does("Reclaim cheap")
	}},
	{"WhatNobodyBelowHasComesBeforeWhatLowerNeedsHave", func(s *scene) {
		low := s.need("c", 10, cpu(4))
		high := s.need("c", 20, cpu(4))
		s.machine("a", bound, cpu(4), of("c"), serving(low))
		s.machine("b", bound, cpu(4), of("c"), price(9))
		s.run().claims(high, "b").claims(low, "a").does()
	}},
	{"OfLowerNeedsTheLowestGivesFirst", func(s *scene) {
		lowest := s.need("c", 10, cpu(4))
		mid := s.need("c", 20, cpu(4))
		high := s.need("c", 30, cpu(4))
		s.machine("a", bound, cpu(4), of("c"), serving(mid))
		s.machine("b", binding, cpu(4), of("c"), price(9), serving(lowest))
		s.run().claims(high, "b").claims(mid, "a").claims(lowest, "")
	}},
	{"WhatAHigherNeedLeavesIsNobodys", func(s *scene) {
		low := s.need("c", 10, cpu(4))
		mid := s.need("c", 20, cpu(4))
		high := s.need("c", 30, cpu(4))
		s.machine("a", bound, cpu(4), of("c"), serving(low))
		s.machine("h1", bound, cpu(4), of("c"), price(7), serving(high))
		s.machine("h2", bound, cpu(4), of("c"), price(8), serving(high))
		s.run().claims(high, "h1").claims(mid, "h2").claims(low, "a").does()
	}},
	{"OfRowsWithOneStampTheLastIsTheOwner", func(s *scene) {
		r1 := s.need("c", 10, cpu(4), arrival(1))
		mid := s.need("c", 10, cpu(4), arrival(5), requires("x", model.DoesNotExist))
		r2 := s.need("c", 10, cpu(4), arrival(9))
		high := s.need("c", 20, cpu(4))
		s.machine("a", bound, cpu(4), of("c"), price(9), serving(r1))
		s.machine("m", bound, cpu(4), of("c"), price(1), serving(mid))
		s.run().claims(high, "a").claims(r1, "m").claims(mid, "").claims(r2, "")
	}},
	{"ARowTakesWhatFitsItBestOfWhatItShares", func(s *scene) {
		r1 := s.need("c", 10, cpu(8), arrival(1))
		r2 := s.need("c", 10, cpu(4), arrival(2))
		s.machine("a", bound, cpu(4), of("c"), price(1), serving(r1))
		s.machine("b", bound, cpu(8), of("c"), price(2), serving(r1))
		s.run().claims(r1, "b").claims(r2, "a").does()
	}},
	{"ARowTakesTheMostOfWhatItSharesWhereNothingCoversIt", func(s *scene) {
		r1 := s.need("c", 10, cpu(10), arrival(1))
		r2 := s.need("c", 10, cpu(3), arrival(2))
		s.machine("a", bound, cpu(3), of("c"), price(1), serving(r1))
		s.machine("b", bound, cpu(4), of("c"), price(2), serving(r1))
		s.machine("d", bound, cpu(6), of("c"), price(3), serving(r1))
		s.run().claims(r1, "d b").claims(r2, "a").does()
	}},
	{"TheLastRowOfAStampTakesInKeepOrder", func(s *scene) {
		n := s.need("c", 10, cpu(8))
		s.machine("a", bound, cpu(4), of("c"), price(1), serving(n))
		s.machine("b", bound, cpu(8), of("c"), price(2), serving(n))
		s.run().claims(n, "a b").does()
	}},
	{"WhatIsIdleAndHeldComesBeforeWhatLowerNeedsHave", func(s *scene) {
		low := s.need("c", 10, cpu(4))
		high := s.need("c", 20, cpu(4))
		s.machine("a", bound, cpu(4), of("c"), serving(low))
		s.machine("r", idle, cpu(4), price(9), held(high))
		s.run().claims(high, "r").claims(low, "a").does("Bootstrap r 1")
	}},
	{"WhatNobodyBelowHasComesBeforeWhatIsHeld", func(s *scene) {
		high := s.need("c", 20, cpu(4))
		s.machine("a", bound, cpu(4), of("c"))
		s.machine("r", idle, cpu(4), held(high))
		s.run().claims(high, "a").does()
	}},
	{"AParkedGangIsNotBootstrappedWhatIsHeldForIt", func(s *scene) {
		high := s.need("c", 20, cpu(8), unit(cpu(4)), same(rackKey), parked)
		s.machine("a", bound, cpu(4), of("c"), rack("r"), serving(high))
		s.machine("r", idle, cpu(4), rack("r"), held(high))
		s.run().claims(high, "a").does()
	}},
	{"AParkedNeedTakesFromLowerNeedsNoPart", func(s *scene) {
		low := s.need("c", 10, cpu(4))
		high := s.need("c", 20, cpu(12), unit(cpu(4)), parked)
		s.machine("a", bound, cpu(4), of("c"), serving(low))
		s.machine("b", bound, cpu(4), of("c"))
		s.run().claims(high, "b").claims(low, "a").does()
	}},
	{"AParkedNeedTakesFromLowerNeedsWhatCoversIt", func(s *scene) {
		low := s.need("c", 10, cpu(4))
		high := s.need("c", 20, cpu(8), unit(cpu(4)), same(rackKey), parked)
		s.machine("a", bound, cpu(4), of("c"), rack("r"), serving(low))
		s.machine("b", bound, cpu(4), of("c"), rack("r"))
		s.run().claims(high, "b a").claims(low, "").does()
	}},
	{"AnotherGroupsMachineIsNotOwn", func(s *scene) {
		n := s.need("c", 10, cpu(4), group("g"))
		s.machine("a", bound, cpu(4), of("c"), price(1), serving(n), func(m *model.Machine) { m.Assigned.Group = "h" })
		s.machine("b", bound, cpu(4), of("c"))
		s.run().claims(n, "b")
	}},
	{"WholeMachinesUntilCoveredInEveryDimension", func(s *scene) {
		n := s.need("c", 10, vec("cpu", 6, "memory", 10))
		s.machines("a b d", bound, vec("cpu", 4, "memory", 4), of("c"))
		s.machine("e", bound, vec("cpu", 4, "memory", 4), of("c"))
		s.run().claims(n, "a b d").does("Reclaim e")
	}},
	{"AMachineWithNothingStillMissingIsPassedOver", func(s *scene) {
		n := s.need("c", 10, vec("cpu", 4, "gpu", 8))
		s.machine("a", bound, cpu(4), of("c"))
		s.machine("b", bound, cpu(4), of("c"), price(1))
		s.machine("d", bound, vec("gpu", 8), of("c"), price(2))
		s.run().claims(n, "a d").does("Reclaim b")
	}},
	{"OtherClustersMachinesDoNotCount", func(s *scene) {
		n := s.need("c", 10, cpu(4))
		s.machine("a", bound, cpu(4), of("d"), serving(n))
		s.run().claims(n, "").does("Reclaim a")
	}},
	{"WhatDoesNotMatchIsNotCredited", func(s *scene) {
		n := s.need("c", 10, cpu(4), requires(model.KeyZone, model.In, "za"))
		s.machine("a", bound, cpu(4), of("c"), zone("zb"), serving(n))
		s.run().claims(n, "").does("Reclaim a")
	}},
	{"AHigherRankIsCreditedFirst", func(s *scene) {
		low := s.need("c", 10, cpu(4))
		high := s.need("c", 20, cpu(4))
		s.machine("a", bound, cpu(4), of("c"), serving(low))
		s.run().claims(high, "a").claims(low, "")
	}},
	{"CreatingCountsForTheNeedItIsCreatedFor", func(s *scene) {
		n := s.need("c", 10, cpu(4), group("g"))
		s.machine("cr", creating, cpu(4), held(n))
		s.machine("sp", spec, cpu(4))
		s.run().claims(n, "cr").does()
	}},
	{"CreatingDoesNotCountForAnotherGroup", func(s *scene) {
		g := s.need("c", 10, cpu(4), group("g"))
		h := s.need("c", 10, cpu(4), group("h"))
		s.machine("cr", creating, cpu(4), held(h))
		s.run().claims(g, "").claims(h, "cr")
	}},
	{"CreatingDoesNotCountForAnotherCluster", func(s *scene) {
		a := s.need("a", 10, cpu(4))
		b := s.need("b", 10, cpu(4))
		s.machine("cr", creating, cpu(4), held(b))
		s.run().claims(a, "").claims(b, "cr")
	}},
	{"CreatingDoesNotCountForAnotherProfile", func(s *scene) {
		high := s.need("a", 20, cpu(4))
		low := s.need("a", 10, cpu(4))
		s.machine("cr", creating, cpu(4), held(low))
		s.run().claims(high, "").claims(low, "cr")
	}},
	{"CreatingForAFoldCarriesTheFoldsStamp", func(s *scene) {
		n := s.need("c", 10, cpu(4), same(rackKey), group("g"))
		s.machine("cr", creating, cpu(4), rack("r"), held(foldOf(n)))
		s.machine("sp", spec, cpu(4), rack("r"))
		s.run().claims(n, "cr").does()
	}},
}

var acquireRules = []rule{
	{"IdleAlwaysBeforeSpeculative", func(s *scene) {
		n := s.need("c", 10, cpu(8))
		s.machine("i", idle, cpu(4), price(100))
		s.machine("s", spec, cpu(4))
		s.run().claims(n, "i s").does("Bootstrap i 0", "Provision s 0")
	}},
	{"IdleOrderIsPriceThenReclamationThenID", func(s *scene) {
		n := s.need("c", 10, cpu(16))
		s.machine("a", idle, cpu(4), price(2))
		s.machine("e", idle, cpu(4), price(1))
		s.machine("d", idle, cpu(4), price(1))
		s.machine("f", idle, cpu(4), price(1), worth(0, 9))
		s.machine("g", idle, cpu(4), price(3))
		s.run().claims(n, "f d e a")
	}},
	{"IdleIsNotOrderedByRisk", func(s *scene) {
		n := s.need("c", 10, cpu(4), interruption(20))
		s.machine("a", idle, cpu(4), price(1), risk(0.9))
		s.machine("b", idle, cpu(4), price(2))
		s.run().claims(n, "a")
	}},
	{"SpeculativeOrderIsEffectiveCost", func(s *scene) {
		// $8 × 0.1 = $0.80: the safe machine is cheaper.
		n := s.need("c", 10, cpu(4), interruption(model.BucketForDollars(8)))
		s.machine("a", spec, cpu(4), price(1), risk(0.1))
		s.machine("b", spec, cpu(4), price(1.5))
		s.run().claims(n, "b")
	}},
	{"ASmallPenaltyTakesTheRisk", func(s *scene) {
		n := s.need("c", 10, cpu(4), interruption(model.BucketForDollars(1)))
		s.machine("a", spec, cpu(4), price(1.5))
		s.machine("b", spec, cpu(4), price(1), risk(0.1))
		s.run().claims(n, "b")
	}},
	{"EffectiveCostUsesTheBucketsBound", func(s *scene) {
		// $5 counts as $8, so the risk costs 0.8 and not 0.5.
		n := s.need("c", 10, cpu(4), interruption(model.BucketForDollars(5)))
		s.machine("a", spec, cpu(4), price(1), risk(0.1))
		s.machine("b", spec, cpu(4), price(1.7))
		s.run().claims(n, "b")
	}},
	{"EqualCostsGoByPriceThenID", func(s *scene) {
		n := s.need("c", 10, cpu(12), interruption(model.BucketOneDollar))
		s.machine("a", spec, cpu(4), price(1))
		s.machine("d", spec, cpu(4), price(0.5), risk(0.5))
		s.machine("b", spec, cpu(4), price(0.5), risk(0.5))
		s.run().claims(n, "b d a")
	}},
	{"ReclamationPlaysNoPartForSpeculative", func(s *scene) {
		n := s.need("c", 10, cpu(4))
		s.machine("a", spec, cpu(4))
		s.machine("b", spec, cpu(4), worth(0, 9))
		s.run().claims(n, "a")
	}},
	{"PinnedTakesASafeMachineAtAnyPrice", func(s *scene) {
		n := s.need("c", 10, cpu(4), interruption(model.BucketPinned))
		s.machine("a", spec, cpu(4), risk(0.001))
		s.machine("b", spec, cpu(4), price(1e9))
		s.run().claims(n, "b")
	}},
	{"PinnedSortsRiskByProbabilityThenPriceThenID", func(s *scene) {
		n := s.need("c", 10, cpu(20), interruption(model.BucketPinned))
		s.machine("a", spec, cpu(4), risk(0.3))
		s.machine("b", spec, cpu(4), risk(0.1), price(2))
		s.machine("e", spec, cpu(4), risk(0.1), price(1))
		s.machine("d", spec, cpu(4), risk(0.1), price(1))
		s.machine("f", spec, cpu(4), price(50))
		s.run().claims(n, "f d e b a")
	}},
	{"WhatRemainsIsTheDeficit", func(s *scene) {
		n := s.need("c", 10, vec("cpu", 10, "gpu", 2))
		s.machine("a", idle, cpu(4))
		s.run().lacks(n, vec("cpu", 6, "gpu", 2)).claims(n, "a")
	}},
	{"AParkedNeedKeepsItsCreditAndAcquiresNothing", func(s *scene) {
		n := s.need("c", 10, cpu(8), parked)
		s.machine("a", bound, cpu(4), of("c"))
		s.machine("b", idle, cpu(4))
		s.run().claims(n, "a").lacks(n, cpu(4)).unmet(n, reference.UnmetParked).does()
	}},
	{"DrainingMachinesCountForNobodyInPhase1", func(s *scene) {
		n := s.need("c", 10, cpu(4))
		s.machine("d", draining, cpu(4), of("c"), held(n))
		s.machine("s", spec, cpu(4))
		s.run().claims(n, "s")
	}},
	{"AMachineReservedForEqualOrHigherRankIsNoCandidate", func(s *scene) {
		high := s.need("b", 20, cpu(4), requires("k", model.Exists))
		low := s.need("c", 10, cpu(4))
		s.machine("m", idle, cpu(4), held(high))
		s.run().claims(low, "").unmet(low, reference.UnmetPriorityStarved)
	}},
	{"AMachineReservedForALowerRankMayBeTaken", func(s *scene) {
		high := s.need("b", 20, cpu(4))
		low := s.need("c", 10, cpu(4))
		s.machine("m", idle, cpu(4), held(low))
		s.run().claims(high, "m").claims(low, "").ends("m")
	}},
	{"OwnReservedMachinesComeFirst", func(s *scene) {
		n := s.need("c", 10, cpu(12))
		s.machine("a", idle, cpu(4))
		s.machine("z", idle, cpu(4), price(9), held(n))
		s.machine("y", idle, cpu(4), price(8), held(n))
		s.run().claims(n, "y z a").ends("")
	}},
	{"RankAmongEqualPrioritiesDecidesOnReservations", func(s *scene) {
		first, second := s.need("c", 10, cpu(4)), s.need("c", 10, cpu(4), group("g"))
		s.machine("m", idle, cpu(4), held(second))
		s.run().claims(first, "m").claims(second, "")
	}},
	{"RowsOfOneIdentityShareTheirReservations", func(s *scene) {
		first, second := s.need("c", 10, cpu(4)), s.need("c", 10, cpu(4))
		s.machines("m n", idle, cpu(4), held(second), price(5))
		s.machine("a", idle, cpu(4))
		s.run().claims(first, "m").claims(second, "n")
	}},
	{"AnUnreportedOwnerHoldsByTheRankOnTheRecord", func(s *scene) {
		equal := s.need("b", 10, cpu(4))
		s.machine("m", idle, cpu(4), heldBy("silent", 10))
		s.run().claims(equal, "").ends("")
	}},
	{"AHigherRankThanTheRecordsMayTake", func(s *scene) {
		higher := s.need("b", 10, cpu(4), reclamation(2))
		s.machine("m", idle, cpu(4), heldBy("silent", 10))
		s.run().claims(higher, "m").ends("m")
	}},
	{"AnOwnerThatIsGoneHoldsNothing", func(s *scene) {
		n := s.need("b", 10, cpu(4))
		s.machine("m", idle, cpu(4), heldBy("b", 99))
		s.run().claims(n, "m").ends("m")
	}},
	{"AfterItsDeadlineAReservationHoldsNothing", func(s *scene) {
		high := s.need("b", 20, cpu(4), requires("k", model.Exists))
		low := s.need("c", 10, cpu(4))
		s.machine("m", idle, cpu(4), held(high), until(-1))
		s.run().claims(low, "m").ends("m")
	}},
	{"AtItsDeadlineAReservationStillHolds", func(s *scene) {
		high := s.need("b", 20, cpu(4), requires("k", model.Exists))
		low := s.need("c", 10, cpu(4))
		s.machine("m", idle, cpu(4), held(high), until(0))
		s.run().claims(low, "").ends("")
	}},
	{"ACreatedMachineIsItsNeedsWhenItTurnsIdle", func(s *scene) {
		low := s.need("c", 10, cpu(4))
		s.need("c", 9, cpu(4))
		s.machine("m", idle, cpu(4), price(7), held(low), serving(low), capacity(model.Spot, time.Hour))
		s.machine("cheap", idle, cpu(4))
		s.run().does("Bootstrap m 0", "Bootstrap cheap 1")
	}},
}

var spreadRules = []rule{
	{"StepsKeepTheSkew", func(s *scene) {
		n := s.need("c", 10, cpu(16), unit(cpu(4)), hard(model.KeyZone, 1))
		s.machines("a1 a2 a3", idle, cpu(4), zone("za"))
		s.machines("b1 b2 b3", idle, cpu(4), zone("zb"), price(1))
		s.run().claims(n, "a1 b1 a2 b2")
	}},
	{"ALargerSkewLetsTheCheaperDomainLead", func(s *scene) {
		n := s.need("c", 10, cpu(16), hard(model.KeyZone, 2))
		s.machines("a1 a2 a3", idle, cpu(4), zone("za"))
		s.machines("b1 b2 b3", idle, cpu(4), zone("zb"), price(1))
		s.run().claims(n, "a1 a2 b1 a3")
	}},
	{"CountsStartAtTheCreditedMachines", func(s *scene) {
		n := s.need("c", 10, cpu(12), hard(model.KeyZone, 1))
		s.machine("a0", bound, cpu(4), of("c"), zone("za"))
		s.machines("a1 a2", idle, cpu(4), zone("za"))
		s.machines("b1 b2", idle, cpu(4), zone("zb"), price(1))
		s.run().claims(n, "a0 b1 a1")
	}},
	{"WhatIsHeldForTheNeedIsExemptFromTheSkew", func(s *scene) {
		// Bought when quota slots were tried, it must not be refused once it is
		// Idle: it would be given back and bought again.
		n := s.need("c", 10, vec("cpu", 8, "memory", 4), hard(model.KeyZone, 1))
		s.machine("a0", bound, vec("cpu", 4, "memory", 4), of("c"), zone("za"))
		s.machine("a1", idle, cpu(4), zone("za"), held(n))
		s.machine("b1", idle, vec("memory", 1), zone("zb"))
		s.run().claims(n, "a0 a1").satisfied(n)
	}},
	{"CreditItselfIsNotConstrained", func(s *scene) {
		n := s.need("c", 10, cpu(8), hard(model.KeyZone, 1))
		s.machines("a1 a2", bound, cpu(4), of("c"), zone("za"))
		s.machine("b1", idle, cpu(4), zone("zb"))
		s.run().claims(n, "a1 a2").does()
	}},
	{"TheMinimumIsOverDomainsWithACandidateAtTheStart", func(s *scene) {
		// zb has one machine; after it the floor stays at 1 and za stops at 2.
		n := s.need("c", 10, cpu(24), hard(model.KeyZone, 1))
		s.machines("a1 a2 a3", idle, cpu(4), zone("za"))
		s.machine("b1", idle, cpu(4), zone("zb"))
		s.run().claims(n, "a1 b1 a2").lacks(n, cpu(12)).unmet(n, reference.UnmetSpread)
	}},
	{"ADomainWithoutACandidateDoesNotHoldOthersBack", func(s *scene) {
		n := s.need("c", 10, cpu(8), unit(cpu(4)), hard(model.KeyZone, 1))
		s.machines("a1 a2", idle, cpu(4), zone("za"))
		s.machine("b1", idle, cpu(2), zone("zb"))
		s.run().claims(n, "a1 a2")
	}},
	{"TheCheapestHeadGoesFirstThenTheSmallerDomain", func(s *scene) {
		n := s.need("c", 10, cpu(12), hard(model.KeyZone, 1))
		s.machine("a", idle, cpu(4), zone("zc"), price(1))
		s.machine("b", idle, cpu(4), zone("zb"), price(1), worth(0, 2))
		s.machine("d", idle, cpu(4), zone("za"), price(2))
		s.run().claims(n, "b a d")
	}},
	{"InsideADomainTheOrderIsThatOfTheStage", func(s *scene) {
		n := s.need("c", 10, cpu(8), hard(model.KeyZone, 1))
		s.machine("a", idle, cpu(4), zone("za"))
		s.machine("b", idle, cpu(4), zone("za"), worth(0, 9))
		s.machine("d", idle, cpu(4), zone("zb"), price(2))
		s.run().claims(n, "b d")
	}},
	{"SpeculativeHeadsCompareByEffectiveCost", func(s *scene) {
		n := s.need("c", 10, cpu(4), hard(model.KeyZone, 1), interruption(model.BucketForDollars(8)))
		s.machine("a", spec, cpu(4), zone("za"), price(1), risk(0.3))
		s.machine("b", spec, cpu(4), zone("zb"), price(2))
		s.run().claims(n, "b")
	}},
	{"PinnedHeadsGoByProbabilityThenPrice", func(s *scene) {
		n := s.need("c", 10, cpu(12), hard(model.KeyZone, 1), interruption(model.BucketPinned))
		s.machine("a", spec, cpu(4), zone("za"), risk(0.3))
		s.machine("b", spec, cpu(4), zone("zb"), risk(0.1), price(5))
		s.machine("d", spec, cpu(4), zone("zc"), price(9))
		s.run().claims(n, "d b a")
	}},
	{"IdlePicksCountWhenSpeculativeIsTried", func(s *scene) {
		n := s.need("c", 10, cpu(8), hard(model.KeyZone, 1))
		s.machine("a1", idle, cpu(4), zone("za"))
		s.machine("a2", spec, cpu(4), zone("za"))
		s.machine("b1", spec, cpu(4), zone("zb"), price(9))
		s.run().claims(n, "a1 b1")
	}},
	{"EachStageHasItsOwnStart", func(s *scene) {
		// Among Idle only za has a candidate: it may take both.
		n := s.need("c", 10, cpu(12), hard(model.KeyZone, 1))
		s.machines("a1 a2", idle, cpu(4), zone("za"))
		s.machine("b1", spec, cpu(4), zone("zb"))
		s.run().claims(n, "a1 a2 b1")
	}},
	{"ScheduleAnywayDoesNotConstrain", func(s *scene) {
		n := s.need("c", 10, cpu(8), spread(model.KeyZone, 1, model.ScheduleAnyway))
		s.machines("a1 a2", idle, cpu(4), zone("za"))
		s.machine("b1", idle, cpu(4), zone("zb"), price(1))
		s.run().claims(n, "a1 a2")
	}},
	{"AllHardConstraintsMustHold", func(s *scene) {
		n := s.need("c", 10, cpu(12), hard(model.KeyZone, 1), hard(rackKey, 1))
		s.machines("m1 m2", idle, cpu(4), zone("za"), rack("r1"))
		s.machine("m3", idle, cpu(4), zone("za"), rack("r2"), price(1))
		s.machine("m4", idle, cpu(4), zone("zb"), rack("r3"), price(2))
		s.run().claims(n, "m1 m4 m3")
	}},
	{"SeveralConstraintsTieByTheTupleInKeyOrder", func(s *scene) {
		// rack sorts before zone among the keys.
		n := s.need("c", 10, cpu(4), hard(model.KeyZone, 1), hard(rackKey, 1))
		s.machine("a", idle, cpu(4), zone("za"), rack("r2"))
		s.machine("b", idle, cpu(4), zone("zb"), rack("r1"))
		s.run().claims(n, "b")
	}},
	{"AMachineWithoutTheKeyIsNoCandidate", func(s *scene) {
		n := s.need("c", 10, cpu(8), hard(model.KeyZone, 1))
		s.machine("a", idle, cpu(4))
		s.machine("b", idle, cpu(4), zone("zb"), price(5))
		s.run().claims(n, "b").lacks(n, cpu(4))
	}},
	{"AnOwnReservedHeadBeatsCheaperOnes", func(s *scene) {
		n := s.need("c", 10, cpu(4), hard(model.KeyZone, 1))
		s.machine("a", idle, cpu(4), zone("za"))
		s.machine("b", idle, cpu(4), zone("zb"), price(5), held(n))
		s.run().claims(n, "b")
	}},
	{"CandidatesWithNothingMissingStayInTheStart", func(s *scene) {
		// zb only offers memory, which is covered; its count still is the floor.
		n := s.need("c", 10, vec("cpu", 8, "memory", 1), hard(model.KeyZone, 1))
		s.machines("a1 a2", idle, vec("cpu", 4, "memory", 4), zone("za"))
		s.machine("b1", idle, vec("memory", 4), zone("zb"), price(9))
		s.run().claims(n, "a1").lacks(n, cpu(4)).unmet(n, reference.UnmetSpread)
	}},
	{"SameWinsOverSpread", func(s *scene) {
		n := s.need("c", 10, cpu(8), unit(cpu(4)), same(model.KeyZone), hard(rackKey, 1))
		s.machines("a1 a2", idle, cpu(4), zone("za"), rack("r1"))
		s.machine("b1", idle, cpu(4), zone("zb"), rack("r2"))
		s.run().claims(n, "a1 a2")
	}},
}
