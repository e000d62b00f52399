package contract

import (
	"math"
	"time"

	"github.com/tonnage/tonnage/engine/model"
)

// superfluousRules are about what a Need that is covered gives back.
var superfluousRules = []rule{
	{"WhatALargerMachineMadeSuperfluousIsGivenBack", func(s *scene) {
		n := s.need("c", 10, cpu(8))
		s.machine("a", idle, cpu(2))
		s.machine("b", idle, cpu(8), price(1))
		s.run().claims(n, "b").does("Bootstrap b 0")
	}},
	{"ItIsFreeForTheNextNeed", func(s *scene) {
		n := s.need("c", 10, cpu(8))
		next := s.need("d", 5, cpu(2))
		s.machine("a", idle, cpu(2))
		s.machine("b", idle, cpu(8), price(1))
		s.machine("e", idle, cpu(2), price(2))
		s.run().claims(n, "b").claims(next, "a").does("Bootstrap b 0", "Bootstrap a 1")
	}},
	{"SpeculativeOnesAreGivenBackToo", func(s *scene) {
		n := s.need("c", 10, cpu(8))
		next := s.need("d", 5, cpu(2))
		s.machine("a", spec, cpu(2))
		s.machine("b", spec, cpu(8), price(1))
		s.run().claims(n, "b").claims(next, "a").does("Provision b 0", "Provision a 1")
	}},
	{"AnIdleOneThatABoughtOneMadeSuperfluousStays", func(s *scene) {
		n := s.need("c", 10, cpu(8))
		s.machine("a", idle, cpu(2))
		s.machine("b", spec, cpu(8))
		s.run().claims(n, "b").does("Provision b 0")
	}},
	{"TheLastPickedGoesFirst", func(s *scene) {
		n := s.need("c", 10, cpu(8))
		s.machines("a1 a2", idle, cpu(2))
		s.machine("b", idle, cpu(6), price(1))
		s.run().claims(n, "a1 b")
	}},
	{"WhatIsCreditedStays", func(s *scene) {
		n := s.need("c", 10, cpu(8))
		s.machine("k", bound, cpu(2), of("c"), serving(n))
		s.machine("b", idle, cpu(8))
		s.run().claims(n, "k b").does("Bootstrap b 0")
	}},
	{"CreditCountsForWhatIsSuperfluous", func(s *scene) {
		n := s.need("c", 10, cpu(12))
		s.machine("k", bound, cpu(4), of("c"), serving(n))
		s.machines("a1 a2", idle, cpu(2))
		s.machine("b", idle, cpu(6), price(1))
		s.run().claims(n, "k a1 b")
	}},
	{"EveryDimensionIsStillCovered", func(s *scene) {
		n := s.need("c", 10, vec("cpu", 8, "memory", 4))
		s.machine("a", idle, vec("cpu", 2, "memory", 2))
		s.machine("b", idle, vec("cpu", 8, "memory", 2), price(1))
		s.run().claims(n, "a b")
	}},
	{"ANeedThatStaysShortGivesBackWhatItWouldLackNoMoreWithout", func(s *scene) {
		n := s.need("c", 10, vec("cpu", 8, "gpu", 1))
		next := s.need("d", 5, cpu(2))
		s.machine("a", idle, cpu(2))
		s.machine("b", idle, cpu(8), price(1))
		s.machine("g", bound, vec("gpu", 1), of("d"))
		s.run().claims(n, "b").lacks(n, vec("gpu", 1)).claims(next, "a")
	}},
	{"ANeedThatStaysShortKeepsWhatItWouldLackMoreWithout", func(s *scene) {
		n := s.need("c", 10, vec("cpu", 12, "gpu", 1))
		s.machine("a", idle, cpu(2))
		s.machine("b", idle, cpu(8), price(1))
		s.run().claims(n, "a b").lacks(n, vec("cpu", 2, "gpu", 1))
	}},
	{"UnderHardSpreadWhatTheSkewAllowsIsGivenBack", func(s *scene) {
		n := s.need("c", 10, cpu(8), hard(model.KeyZone, 1))
		next := s.need("d", 5, cpu(2), hard(model.KeyZone, 1))
		s.machine("a", idle, cpu(2), zone("za"))
		s.machine("b", idle, cpu(8), zone("zb"), price(1))
		s.run().claims(n, "b").claims(next, "a")
	}},
	{"UnderHardSpreadWhatTheSkewNeedsStays", func(s *scene) {
		n := s.need("c", 10, cpu(16), hard(model.KeyZone, 1))
		s.machine("a", idle, cpu(2), zone("za"))
		s.machines("b1 b2", idle, cpu(8), zone("zb"), price(1))
		s.run().claims(n, "a b1 b2")
	}},
	{"UnderHardSpreadWhatIsUnevenMustNotGrowMoreSo", func(s *scene) {
		n := s.need("c", 10, cpu(14), hard(model.KeyZone, 1))
		s.machines("b1 b2 b3", bound, cpu(2), of("c"), zone("zb"))
		s.machine("a1", idle, cpu(2), zone("za"))
		s.machine("a2", idle, cpu(8), zone("za"), price(1))
		s.run().claims(n, "b1 b2 b3 a1 a2")
	}},
	{"UnderHardSpreadByHostsTheNextHasWhatIsGivenBack", func(s *scene) {
		n := s.need("c", 10, cpu(8), hard("host", 1))
		next := s.need("d", 5, cpu(2), hard("host", 1))
		s.machine("a", idle, cpu(2), label("host", "1"))
		s.machine("b", idle, cpu(8), label("host", "2"), price(1))
		s.run().claims(n, "b").claims(next, "a")
	}},
	{"UnderHardSpreadWhatHasNoDomainIsGivenBack", func(s *scene) {
		n := s.need("a", 50, cpu(8), hard(rackKey, 1))
		s.machine("none", idle, cpu(4), held(n))
		s.machine("empty", idle, cpu(8), rack(""))
		s.run().does("Bootstrap empty 0").satisfied(n)
	}},
	{"UnderHardSpreadNothingIsBoughtThatIsSuperfluous", func(s *scene) {
		n := s.need("c", 10, cpu(8), hard(model.KeyZone, 1))
		s.machine("a", spec, cpu(2), zone("za"))
		s.machine("b", spec, cpu(8), zone("zb"), price(1))
		s.run().does("Provision b 0").claims(n, "b")
	}},
	{"AGangGivesBackInItsDomain", func(s *scene) {
		n := s.need("c", 10, cpu(12), unit(cpu(2)), same(rackKey))
		s.machine("a", idle, cpu(2), rack("r"))
		s.machines("b1 b2", idle, cpu(6), rack("r"), price(1))
		next := s.need("d", 5, cpu(2), requires(rackKey, model.In, "r"))
		s.run().claims(n, "b1 b2").claims(next, "a")
	}},
	{"AReservedMachineIsGivenBackToo", func(s *scene) {
		n := s.need("c", 10, cpu(8))
		s.machine("r", idle, cpu(2), held(n))
		s.machine("b", idle, cpu(8))
		s.run().claims(n, "b").ends("r").does("Bootstrap b 0")
	}},
	{"AReservedMachineThatIsGivenBackHoldsUntilTheNextCycle", func(s *scene) {
		n := s.need("c", 10, cpu(8))
		next := s.need("d", 5, cpu(2))
		s.machine("r", idle, cpu(2), held(n))
		s.machine("b", idle, cpu(8))
		s.run().claims(n, "b").claims(next, "").ends("r")
	}},
	{"AnotherRowOfTheStampMayHaveIt", func(s *scene) {
		n := s.need("c", 10, cpu(8))
		other := s.need("c", 10, cpu(2))
		s.machine("r", idle, cpu(2), held(n))
		s.machine("b", idle, cpu(8))
		s.run().claims(n, "b").claims(other, "r").ends("")
	}},
	{"TakenMeansKept", func(s *scene) {
		s.need("h", 9001, cpu(12), requires("kind", model.Exists))
		n := s.top(2)
		s.machines("a1 a2", idle, cpu(4), rack("ra"), label("kind", "x"), planned(n))
		s.machine("b", spec, cpu(12), label("kind", "x"))
		s.machines("c1 c2", idle, cpu(4), rack("rc"))
		s.run().ends("").gathers(n, "ra").claims(n, "a1 a2")
	}},
	{"SumsBeyondTheLargestNumberAreExact", func(s *scene) {
		n := s.need("c", 10, cpu(math.MaxInt64))
		s.machine("a", idle, cpu(3))
		s.machine("b", idle, cpu(4))
		s.machine("d", idle, cpu(math.MaxInt64), price(1))
		s.run().claims(n, "d")
	}},
}

// togetherRules are about how rows of one stamp divide what they have, and what they give back together.
var togetherRules = []rule{
	{"WhatIsHeldForARowCountsAmongWhatTheyShare", func(s *scene) {
		first := s.need("c", 10, cpu(6))
		second := s.need("c", 10, cpu(4))
		s.machine("k", bound, cpu(4), of("c"), serving(first))
		s.machine("h", idle, cpu(6), held(first))
		s.run().claims(first, "h").claims(second, "k").does("Bootstrap h 0")
	}},
	{"WhatFewerRowsBelowCanUseGoesFirst", func(s *scene) {
		first := s.need("c", 10, cpu(4), unit(cpu(2)))
		second := s.need("c", 10, vec("memory", 8), unit(vec("memory", 8)))
		s.machines("a b", bound, cpu(2), of("c"), serving(first))
		s.machine("d", bound, vec("cpu", 4, "memory", 8), of("c"), serving(first))
		s.run().claims(first, "a b").claims(second, "d").does()
	}},
	{"WhatNoRowNeedsOnceTheyHaveDividedWhatTheyHaveIsGivenBack", func(s *scene) {
		first := s.need("c", 10, cpu(6))
		second := s.need("c", 10, cpu(4))
		s.machine("a", idle, cpu(2))
		s.machine("b", idle, cpu(4), price(1))
		s.machine("d", idle, cpu(6), price(2))
		s.run().claims(first, "d").claims(second, "b").does("Bootstrap d 0", "Bootstrap b 1")
	}},
	{"WhatRowsGiveBackTogetherIsFreeInTheNextCycle", func(s *scene) {
		first := s.need("c", 10, cpu(6))
		second := s.need("c", 10, cpu(4))
		next := s.need("d", 5, cpu(2))
		s.machine("a", idle, cpu(2), capacity(model.OnDemand, time.Hour))
		s.machine("b", idle, cpu(4), price(1))
		s.machine("d", idle, cpu(6), price(2))
		s.run().claims(first, "d").claims(second, "b").claims(next, "").does("Bootstrap d 0", "Bootstrap b 1")
	}},
	{"NothingIsBoughtThatNoRowNeeds", func(s *scene) {
		first := s.need("c", 10, cpu(6))
		second := s.need("c", 10, cpu(4))
		s.machine("k", bound, cpu(4), of("c"), serving(first))
		s.machine("a", idle, cpu(2))
		s.machine("d", spec, cpu(8))
		s.run().claims(first, "d").claims(second, "k").does("Provision d 0")
	}},
	{"TheNextCycleDoesNotTakeMore", func(s *scene) {
		first := s.need("c", 10, cpu(6))
		second := s.need("c", 10, cpu(4))
		s.machine("a", idle, cpu(2))
		s.machine("b", binding, cpu(4), of("c"), serving(first), price(1))
		s.machine("d", binding, cpu(6), of("c"), serving(first), price(2))
		s.run().claims(first, "d").claims(second, "b").does()
	}},
	{"WhatIsHeldForARowStays", func(s *scene) {
		first := s.need("c", 10, cpu(6))
		second := s.need("c", 10, cpu(4))
		s.machine("a", idle, cpu(2), held(first))
		s.machine("b", idle, cpu(4), price(1))
		s.machine("d", idle, cpu(6), price(2))
		s.run().claims(first, "a b").claims(second, "d")
	}},
	{"NothingIsGivenBackWhileARowIsShort", func(s *scene) {
		first := s.need("c", 10, cpu(6))
		second := s.need("c", 10, cpu(8))
		s.machine("a", idle, cpu(2))
		s.machine("b", idle, cpu(4), price(1))
		s.machine("d", idle, cpu(6), price(2))
		s.run().claims(first, "a b").claims(second, "d").lacks(second, cpu(2))
	}},
	{"RowsOfAnotherGroupShareNothing", func(s *scene) {
		first := s.need("c", 10, cpu(6), group("g"))
		second := s.need("c", 10, cpu(4), group("h"))
		s.machine("a", idle, cpu(2))
		s.machine("b", idle, cpu(4), price(1))
		s.machine("d", idle, cpu(6), price(2))
		s.run().claims(first, "a b").claims(second, "d")
	}},
}

// lowerRules are about Idle machines that are reserved for Needs of lower rank.
var lowerRules = []rule{
	{"WhatIsHeldForALowerRankComesAfterAllThatNobodyHolds", func(s *scene) {
		high := s.need("b", 20, cpu(8))
		low := s.need("c", 10, cpu(4))
		s.machine("a", idle, cpu(4), held(low))
		s.machine("z", idle, cpu(4), price(9))
		s.machine("s", spec, cpu(4))
		s.run().claims(high, "z a").claims(low, "s")
	}},
	{"ItIsLeftToItsOwner", func(s *scene) {
		high := s.need("b", 20, cpu(4))
		low := s.need("c", 10, cpu(4))
		s.machine("a", idle, cpu(4), held(low))
		s.machine("z", idle, cpu(4), price(9))
		s.run().claims(high, "z").claims(low, "a")
	}},
	{"TheLowestOwnersComesFirst", func(s *scene) {
		high := s.need("b", 20, cpu(4))
		mid := s.need("c", 10, cpu(4))
		low := s.need("c", 5, cpu(4))
		s.machine("a", idle, cpu(4), held(mid))
		s.machine("z", idle, cpu(4), price(9), held(low))
		s.machines("s1 s2", spec, cpu(4))
		s.run().claims(high, "z").claims(mid, "a").claims(low, "s1")
	}},
	{"OfOneOwnerTheyGoInKeepOrder", func(s *scene) {
		high := s.need("b", 20, cpu(4))
		low := s.need("c", 10, cpu(8))
		s.machine("z", idle, cpu(4), price(1), held(low))
		s.machine("a", idle, cpu(4), price(2), held(low))
		s.run().claims(high, "z").claims(low, "a")
	}},
	{"AReservationHasTheRankOfTheFirstRowOfItsStamp", func(s *scene) {
		high := s.need("b", 20, cpu(4))
		first := s.need("c", 10, cpu(2))
		mid := s.need("d", 10, cpu(4), arrival(1))
		s.need("c", 10, cpu(1), arrival(2))
		s.machine("a", idle, cpu(4), held(first))
		s.machine("z", idle, cpu(4), price(9), held(mid))
		s.run().claims(high, "z").claims(first, "a")
	}},
	{"AnUnreportedOwnerStandsWhereItsRecordDoes", func(s *scene) {
		high := s.need("b", 20, cpu(4))
		s.need("c", 10, cpu(4))
		s.machine("a", idle, cpu(4), heldBy("silent", 15))
		s.machine("z", idle, cpu(4), price(9), held(s.need("c", 10, cpu(4), group("g"))))
		s.run().claims(high, "z").ends("z")
	}},
	{"TheyCountForAGangsDomain", func(s *scene) {
		gang := s.need("b", 20, cpu(8), unit(cpu(4)), same(rackKey))
		low := s.need("c", 10, cpu(4))
		s.machine("a1", idle, cpu(4), rack("ra"), held(low))
		s.machine("a2", idle, cpu(4), rack("ra"), price(9))
		s.machine("b1", idle, cpu(4), rack("rb"))
		s.run().gathers(gang, "ra").claims(gang, "a2 a1").claims(low, "b1")
	}},
	{"UnderHardSpreadTheyComeLastToo", func(s *scene) {
		high := s.need("b", 20, cpu(4), hard(model.KeyZone, 1))
		low := s.need("c", 10, cpu(4))
		s.machine("a", idle, cpu(4), zone("za"), held(low))
		s.machine("z", idle, cpu(4), zone("zb"), price(9))
		s.run().claims(high, "z").claims(low, "a")
	}},
	{"UnderHardSpreadTheirDomainsCountForTheMinimum", func(s *scene) {
		high := s.need("b", 20, cpu(12), hard(model.KeyZone, 1))
		low := s.need("c", 10, cpu(4))
		s.machine("a", idle, cpu(4), zone("za"), held(low))
		s.machines("z1 z2", idle, cpu(4), zone("zb"), price(9))
		s.run().claims(high, "z1 a z2")
	}},
	{"UnderHardSpreadTheLowestOwnersComesFirst", func(s *scene) {
		high := s.need("b", 20, cpu(4), hard(model.KeyZone, 1))
		mid := s.need("c", 10, cpu(4))
		low := s.need("c", 5, cpu(4))
		s.machine("a", idle, cpu(4), zone("za"), held(mid))
		s.machine("z", idle, cpu(4), zone("zb"), price(9), held(low))
		s.machine("s", spec, cpu(4), zone("zc"))
		s.run().claims(high, "z").claims(mid, "a").claims(low, "s")
	}},
}
