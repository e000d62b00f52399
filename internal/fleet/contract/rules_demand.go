package contract

import (
	"math"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/reference"
)

// matches says whether a row with the requirement takes the one machine.
func matches(key string, op model.Operator, values []string, yes bool, opts ...machineOpt) func(*scene) {
	return func(s *scene) {
		s.Helper()
		s.need("c", 10, cpu(4), requires(key, op, values...))
		s.machine("m", idle, cpu(4), opts...)
		if yes {
			s.run().does("Bootstrap m 0")
		} else {
			s.run().does()
		}
	}
}

func list(values ...string) []string { return values }

var matchingRules = []rule{
	{"AllocatableReplacesResourcesAsAWhole", func(s *scene) {
		n := s.need("c", 10, vec("cpu", 4, "memory", 4))
		s.machine("m", idle, vec("cpu", 4, "memory", 8), alloc(cpu(4)))
		s.run().lacks(n, vec("memory", 4))
	}},
	{"EmptyAllocatableMeansResources", func(s *scene) {
		n := s.need("c", 10, cpu(4))
		s.machine("m", idle, cpu(4), alloc(model.Resources{}))
		s.run().satisfied(n)
	}},
	{"DrainingDeletingAndFailedServeNobody", func(s *scene) {
		n := s.need("c", 10, cpu(4))
		s.machine("m1", draining, cpu(4), of("c"))
		s.machine("m2", model.Deleting, cpu(4))
		s.machine("m3", model.Failed, cpu(4))
		s.run().lacks(n, cpu(4)).does()
	}},
	{"EveryMachineCountedCoversTheMinimumUnit", func(s *scene) {
		n := s.need("c", 100, cpu(12), unit(cpu(4)))
		s.machine("a", bound, cpu(3), of("c"))
		s.machine("b", idle, cpu(3))
		s.machine("d", spec, cpu(3))
		s.machine("e", bound, cpu(3), of("v"))
		s.machine("f", idle, cpu(4))
		s.run().claims(n, "f").lacks(n, cpu(8)).does("Bootstrap f 0", "Reclaim a", "Reclaim e")
	}},
	{"WithoutAMinimumUnitAnySizeCounts", func(s *scene) {
		n := s.need("c", 10, cpu(4))
		s.machines("a b", idle, cpu(2))
		s.run().claims(n, "a b").satisfied(n)
	}},
	{"UnknownDimensionIsZero", func(s *scene) {
		n := s.need("c", 10, vec("cpu", 4, "fpga", 1))
		s.machine("m", idle, cpu(8))
		s.run().lacks(n, vec("fpga", 1))
	}},
	{"ARowThatWaitsForWhatNoMachineOffersKeepsItsCredit", func(s *scene) {
		n := s.need("c", 10, vec("cpu", 8, "fpga", 2), unit(vec("cpu", 4, "fpga", 1)))
		s.machine("a", bound, cpu(4), of("c"), serving(n))
		s.machine("b", idle, cpu(4))
		s.machine("d", bound, cpu(4), of("v"))
		s.run().claims(n, "a").lacks(n, vec("cpu", 4, "fpga", 2)).unmet(n, reference.UnmetNoMatchingSupply).does("Reclaim d")
	}},
	{"ARowThatWaitsIsNotSatisfiedByTheRest", func(s *scene) {
		n := s.need("c", 10, vec("cpu", 4, "fpga", 1), unit(vec("cpu", 4, "fpga", 1)))
		s.machine("a", bound, cpu(4), of("c"), serving(n))
		s.run().claims(n, "a").lacks(n, vec("fpga", 1)).unmet(n, reference.UnmetNoMatchingSupply).does()
	}},
	{"OneMachineThatOffersTheNameEndsTheWait", func(s *scene) {
		n := s.need("c", 10, vec("cpu", 4, "fpga", 1), unit(vec("cpu", 4, "fpga", 1)))
		s.machine("a", bound, cpu(4), of("c"), serving(n))
		s.machine("b", idle, vec("cpu", 4, "fpga", 1))
		s.run().claims(n, "b").satisfied(n).does("Bootstrap b 0", "Reclaim a")
	}},
	{"AGangThatCannotBeWholeWaits", func(s *scene) {
		n := s.need("c", 10, vec("cpu", 8, "fpga", 1), unit(cpu(4)), same(rackKey))
		s.machine("a", bound, cpu(4), of("c"), serving(n), rack("r1"))
		s.machine("b", idle, cpu(4), rack("r1"))
		s.run().claims(n, "a").lacks(n, vec("cpu", 4, "fpga", 1)).unmet(n, reference.UnmetNoMatchingSupply).does()
	}},
	{"WhatNoMachineOffersDoesNotCount", func(s *scene) {
		n := s.need("c", 10, vec("cpu", 4, "fpga", 1))
		s.machine("m", idle, cpu(8))
		s.run().claims(n, "m").lacks(n, vec("fpga", 1)).unmet(n, reference.UnmetNoMatchingSupply)
	}},
	{"AMachineWithNothingWantedIsNotClaimed", func(s *scene) {
		n := s.need("c", 10, vec("gpu", 8))
		s.machine("a", idle, cpu(8))
		s.machine("b", idle, vec("gpu", 8), price(9))
		s.run().claims(n, "b")
	}},
	{"AnEmptyAggregateIsSatisfiedWithNothing", func(s *scene) {
		n := s.need("c", 10, nil)
		s.machine("a", bound, cpu(8), of("c"))
		s.run().claims(n, "").satisfied(n).does("Reclaim a")
	}},
	{"SumsSaturate", func(s *scene) {
		n := s.need("c", 10, cpu(math.MaxInt64))
		s.machines("a b d", idle, cpu(math.MaxInt64/2+1))
		s.run().claims(n, "a b").satisfied(n)
	}},
	{"InNeedsThePresentAttributeListed", matches("k", model.In, list("a", "b"), true, label("k", "b"))},
	{"InRefusesOtherValues", matches("k", model.In, list("a", "b"), false, label("k", "c"))},
	{"InRefusesAnAbsentAttribute", matches("k", model.In, list("a"), false)},
	{"InWithAnEmptyListNeverMatches", matches("k", model.In, nil, false, label("k", "a"))},
	{"NotInMatchesAnAbsentAttribute", matches("k", model.NotIn, list("a"), true)},
	{"NotInRefusesListedValues", matches("k", model.NotIn, list("a"), false, label("k", "a"))},
	{"ExistsNeedsTheAttribute", matches("k", model.Exists, nil, false)},
	{"ExistsTakesAnyValue", matches("k", model.Exists, nil, true, label("k", ""))},
	{"DoesNotExistTakesAnAbsentAttribute", matches("k", model.DoesNotExist, nil, true)},
	{"DoesNotExistRefusesTheAttribute", matches("k", model.DoesNotExist, nil, false, label("k", ""))},
	{"SameNeedsTheAttribute", matches("k", model.Same, nil, false)},
	{"SameWithValuesNeedsOneOfThem", matches("k", model.Same, list("a"), false, label("k", "b"))},
	{"GtComparesIntegers", matches("k", model.Gt, list("9"), true, label("k", "10"))},
	{"GtIsStrict", matches("k", model.Gt, list("10"), false, label("k", "10"))},
	{"LtComparesIntegers", matches("k", model.Lt, list("10"), true, label("k", "9"))},
	{"GtRefusesAnAbsentAttribute", matches("k", model.Gt, list("-5"), false)},
	{"LtRefusesWhatIsNoInteger", matches("k", model.Lt, list("5"), false, label("k", "1.5"))},
	{"InstanceTypeReadsTheTypedFieldFirst", matches(model.KeyInstanceType, model.In, list("big"), false, kind("small"), label(model.KeyInstanceType, "big"))},
	{"InstanceTypeFallsBackToTheLabel", matches(model.KeyInstanceType, model.In, list("big"), true, label(model.KeyInstanceType, "big"))},
	{"ZoneReadsTheTypedField", matches(model.KeyZone, model.In, list("za"), true, zone("za"))},
	{"CapacityTypeIsLowerCaseAndHyphenated", matches(model.KeyCapacityType, model.In, list("bare-metal"), true, capacity(model.BareMetal, 0))},
	{"AllRequirementsMustHold", func(s *scene) {
		n := s.need("c", 10, cpu(4), requires("a", model.Exists), requires("b", model.Exists))
		s.machine("m1", idle, cpu(4), label("a", "1"))
		s.machine("m2", idle, cpu(4), label("a", "1"), label("b", "1"), price(5))
		s.run().claims(n, "m2")
	}},
}

// beats: of two rows that want the only machine the second, better one gets it.
func beats(loser, winner func(*scene) *row) func(*scene) {
	return func(s *scene) {
		s.Helper()
		l, w := loser(s), winner(s)
		s.machine("m", idle, cpu(4))
		s.run().claims(w, "m").claims(l, "").unmet(l, reference.UnmetPriorityStarved)
	}
}

// wants4 is a row for the one machine.
func wants4(cluster string, priority int32, opts ...needOpt) func(*scene) *row {
	return func(s *scene) *row { s.Helper(); return s.need(cluster, priority, cpu(4), opts...) }
}

var rankRules = []rule{
	{"HigherPriorityFirst", beats(wants4("a", 9), wants4("b", 10))},
	{"NegativePrioritiesAreLowest", beats(wants4("a", math.MinInt32), wants4("b", -1))},
	{"ThenHigherInterruptionBucket", beats(wants4("a", 9, interruption(4), reclamation(9)), wants4("b", 9, interruption(5)))},
	{"PinnedIsTheHighestBucket", beats(wants4("a", 9, interruption(26)), wants4("b", 9, interruption(model.BucketPinned)))},
	{"ThenHigherReclamationBucket", beats(wants4("a", 9, reclamation(4), arrival(1)), wants4("b", 9, reclamation(5), arrival(2)))},
	{"ThenEarlierArrival", beats(wants4("a", 9, arrival(7)), wants4("b", 9, arrival(6)))},
	{"ArrivalZeroSortsBeforeEveryOther", beats(wants4("a", 9, arrival(1)), wants4("b", 9))},
	{"ThenSmallerCluster", beats(wants4("b", 9), wants4("a", 9))},
	{"ClustersCompareAsBytes", beats(wants4("a", 9), wants4("B", 9))},
	{"ThenRowOrder", func(s *scene) {
		first, second := s.need("a", 9, cpu(4), group("z")), s.need("a", 9, cpu(4), group("b"))
		s.machine("m", idle, cpu(4))
		s.run().claims(first, "m").claims(second, "")
	}},
	{"EachRowIsANeedOfItsOwnThoughEqual", func(s *scene) {
		first, second := s.need("a", 9, cpu(4)), s.need("a", 9, cpu(4))
		s.machines("m1 m2", idle, cpu(8))
		s.run().claims(first, "m1").claims(second, "m2")
	}},
	{"RowsOfOneStampGoByTheLargestUnit", func(s *scene) {
		small := s.need("a", 9, cpu(4), unit(cpu(2)))
		large := s.need("a", 9, cpu(4), unit(cpu(4)))
		s.machine("m", idle, cpu(4))
		s.run().claims(large, "m").claims(small, "").does("Bootstrap m 1")
	}},
	{"RowsOfOneStampStandInThePlacesThatTheyHave", func(s *scene) {
		small := s.need("a", 9, cpu(4), unit(cpu(2)), arrival(1))
		between := s.need("b", 9, cpu(4), arrival(2))
		large := s.need("a", 9, cpu(4), unit(cpu(4)), arrival(3))
		s.machines("m1 m2", idle, cpu(4))
		o := s.run()
		o.claims(large, "m1").claims(between, "m2").claims(small, "")
		for i, n := range []*row{large, between, small} {
			if got := o.plan.Needs[n.at].Rank; got != i {
				o.Errorf("row %d has rank %d, want %d", n.at, got, i)
			}
		}
	}},
	{"UnitsCompareDimensionByDimensionByName", func(s *scene) {
		a := s.need("a", 9, vec("memory", 8, "cpu", 2), unit(vec("memory", 8, "cpu", 2)))
		b := s.need("a", 9, vec("memory", 4, "cpu", 4), unit(vec("memory", 4, "cpu", 4)))
		s.machine("m", idle, vec("memory", 8, "cpu", 4))
		s.run().claims(a, "").claims(b, "m")
	}},
	{"RowsOfOneStampAndUnitStandAsTheyWere", func(s *scene) {
		first := s.need("a", 9, cpu(4), unit(cpu(4)))
		small := s.need("a", 9, cpu(4))
		last := s.need("a", 9, cpu(4), unit(cpu(4)))
		s.machines("m1 m2", idle, cpu(4))
		s.run().claims(first, "m1").claims(last, "m2").claims(small, "")
	}},
	{"RowsOfOtherGroupsKeepTheirPlaces", func(s *scene) {
		small := s.need("a", 9, cpu(4), unit(cpu(2)), group("g"))
		large := s.need("a", 9, cpu(4), unit(cpu(4)), group("h"))
		s.machine("m", idle, cpu(4))
		s.run().claims(small, "m").claims(large, "")
	}},
	{"RowsOfOtherClustersAndProfilesKeepTheirPlaces", func(s *scene) {
		small := s.need("a", 9, cpu(4), unit(cpu(2)))
		s.need("a", 9, cpu(4), unit(cpu(3)), requires("x", model.DoesNotExist))
		s.need("b", 9, cpu(4), unit(cpu(4)))
		s.machine("m", idle, cpu(4))
		s.run().claims(small, "m")
	}},
	{"WhatIsParkedStaysTheRows", func(s *scene) {
		small := s.need("a", 9, cpu(4), unit(cpu(2)))
		large := s.need("a", 9, cpu(4), unit(cpu(4)), parked)
		s.machine("m", idle, cpu(4))
		s.run().claims(large, "").claims(small, "m").unmet(large, reference.UnmetParked)
	}},
	{"ActionsOfAKindAreInRankOrderThenAsPicked", func(s *scene) {
		s.need("a", 1, cpu(8))
		s.need("b", 2, cpu(16))
		s.machines("z y", idle, cpu(4))
		s.machine("x", idle, cpu(4), price(1))
		s.machines("s3 s2 s1", spec, cpu(4))
		s.run().does("Bootstrap y 1", "Bootstrap z 1", "Bootstrap x 1", "Provision s1 1", "Provision s2 0", "Provision s3 0")
	}},
}

var normaliseRules = []rule{
	{"GangsThatFitOneMachineShareMachines", func(s *scene) {
		g1 := s.need("c", 10, cpu(8), same(rackKey), group("g1"), unit(cpu(2)))
		g2 := s.need("c", 10, cpu(8), same(rackKey), group("g2"), unit(cpu(2)))
		s.machines("m1 m2", idle, cpu(16), rack("r1"))
		s.run().claims(g1, "m1").claims(g2, "m1").does("Bootstrap m1 0").satisfied(g2).gathers(g1, "")
	}},
	{"SpreadOfGangsDoesNotBindTheirFold", func(s *scene) {
		// Same has won over spread for every member.
		g := s.need("c", 10, cpu(8), same(rackKey), hard(model.KeyZone, 1), group("g1"))
		s.need("c", 10, cpu(8), same(rackKey), hard(model.KeyZone, 1), group("g2"))
		s.machines("a1 a2", idle, cpu(8), rack("r1"), zone("za"))
		s.machine("b1", idle, cpu(8), rack("r2"), zone("zb"), price(9))
		s.run().claims(g, "a1 a2").satisfied(g)
	}},
	{"AFoldMayCrossDomains", func(s *scene) {
		g := s.need("c", 10, cpu(8), same(rackKey), group("g1"))
		s.need("c", 10, cpu(8), same(rackKey), group("g2"))
		s.machine("m1", idle, cpu(8), rack("r1"))
		s.machine("m2", idle, cpu(8), rack("r2"))
		s.run().claims(g, "m1 m2").does("Bootstrap m1 0", "Bootstrap m2 0")
	}},
	{"AFoldStillNeedsTheAttribute", func(s *scene) {
		g := s.need("c", 10, cpu(8), same(rackKey), group("g1"))
		s.machine("m1", spec, cpu(8), rack("r1"))
		s.machine("m2", idle, cpu(8), price(7))
		s.run().claims(g, "m1")
	}},
	{"AFoldStillNeedsOneOfTheValues", func(s *scene) {
		g := s.need("c", 10, cpu(8), same(rackKey, "r1", "r2"), group("g1"))
		s.machine("m1", spec, cpu(8), rack("r2"))
		s.machine("m2", idle, cpu(8), rack("r3"))
		s.machine("m3", bound, cpu(8), of("c"), rack("r3"))
		s.run().claims(g, "m1").does("Provision m1 0", "Reclaim m3")
	}},
	{"FoldingLooksAtOwnBoundMachines", func(s *scene) {
		g := s.need("c", 10, cpu(8), same(rackKey), group("g"), unit(cpu(4)))
		s.machine("big", binding, cpu(8), of("c"), rack("r1"), price(9))
		s.machines("s1 s2", idle, cpu(4), rack("r2"))
		s.run().claims(g, "big").gathers(g, "")
	}},
	{"FoldingDoesNotLookAtOtherClusters", func(s *scene) {
		g := s.need("c", 10, cpu(8), same(rackKey), group("g"), unit(cpu(4)))
		s.machine("big", bound, cpu(8), of("d"), rack("r1"), at(10))
		s.machines("s1 s2", idle, cpu(4), rack("r2"))
		s.run().claims(g, "s1 s2").gathers(g, "r2")
	}},
	{"FoldingIgnoresClaims", func(s *scene) {
		// Folded, its unit is its whole: the small machines are too small.
		s.need("a", 20, cpu(8), unit(cpu(8)))
		g := s.need("c", 10, cpu(8), same(rackKey), group("g"), unit(cpu(4)))
		s.machine("big", idle, cpu(8), rack("r1"))
		s.machines("s1 s2", idle, cpu(4), rack("r2"))
		s.run().claims(g, "").lacks(g, cpu(8)).couldCover(g, true)
	}},
	{"AGangLargerThanEveryMachineDoesNotFold", func(s *scene) {
		g := s.need("c", 10, cpu(8), same(rackKey), group("g"))
		s.machine("m1", idle, cpu(7), rack("r1"))
		s.machine("m2", idle, cpu(7), rack("r2"), price(1))
		s.machine("m3", idle, cpu(7), rack("r2"), price(1))
		s.run().claims(g, "m2 m3").gathers(g, "r2")
	}},
	{"OnlyMachinesWithTheAttributeFold", func(s *scene) {
		g := s.need("c", 10, cpu(8), same(rackKey), group("g"))
		s.machine("m1", idle, cpu(8))
		s.machine("m2", idle, cpu(4), rack("r2"))
		s.run().claims(g, "m2").gathers(g, "r2")
	}},
	{"AFoldTakesRankAndNameOfItsFirstMember", func(s *scene) {
		s.need("c", 10, cpu(4), same(rackKey), group("late"), arrival(9))
		early := s.need("c", 10, cpu(4), same(rackKey), group("early"), arrival(1))
		other := s.need("b", 10, cpu(4), arrival(5))
		s.machine("m1", idle, cpu(8), rack("r"))
		s.machine("m2", idle, cpu(4), price(3))
		s.run().does("Bootstrap m1 1", "Bootstrap m2 2").claims(early, "m1").claims(other, "m2")
	}},
	{"OtherAggregatesFoldApart", func(s *scene) {
		a := s.need("c", 10, cpu(5), same(rackKey), group("a"))
		b := s.need("c", 10, cpu(4), same(rackKey), group("b"))
		s.machines("m1 m2", idle, cpu(16), rack("r"))
		s.run().claims(a, "m1").claims(b, "m2")
	}},
	{"FoldsOfOneStampGoByTheLargestUnit", func(s *scene) {
		small := s.need("c", 10, cpu(4), same(rackKey), group("a"), arrival(1))
		large := s.need("c", 10, cpu(8), same(rackKey), group("b"), arrival(2))
		s.need("c", 10, cpu(4), same(rackKey), group("d"), arrival(3))
		s.machine("m1", idle, cpu(8), rack("r"))
		s.run().claims(large, "m1").claims(small, "").does("Bootstrap m1 1")
	}},
	{"AFoldAndAPlainRowMayHaveOneStamp", func(s *scene) {
		plain := s.need("c", 10, cpu(4), requires(rackKey, model.Exists))
		large := s.need("c", 10, cpu(8), same(rackKey), group("b"))
		s.machine("m1", idle, cpu(8), rack("r"))
		s.run().claims(large, "m1").claims(plain, "")
	}},
	{"OtherClustersFoldApart", func(s *scene) {
		a := s.need("c", 10, cpu(4), same(rackKey), group("a"))
		b := s.need("d", 10, cpu(4), same(rackKey), group("a"))
		s.machines("m1 m2", idle, cpu(16), rack("r"))
		s.run().claims(a, "m1").claims(b, "m2")
	}},
	{"ProfilesThatSayTheSameOfOneMachineFoldTogether", func(s *scene) {
		a := s.need("c", 10, cpu(4), same(rackKey, "r"), requires(model.KeyZone, model.In, "z"), group("a"))
		b := s.need("c", 10, cpu(4), same(model.KeyZone, "z"), requires(rackKey, model.In, "r"), group("b"))
		s.machine("m1", idle, cpu(8), rack("r"), zone("z"))
		s.run().claims(a, "m1").claims(b, "m1").satisfied(b)
	}},
	{"OtherKeysOfSameFoldApart", func(s *scene) {
		a := s.need("c", 10, cpu(4), same(rackKey), group("a"))
		b := s.need("c", 10, cpu(4), same(model.KeyZone), group("b"))
		s.machines("m1 m2", idle, cpu(8), rack("r"), zone("z"))
		s.run().claims(a, "m1").claims(b, "m2").satisfied(b)
	}},
	{"FoldingLooksAtWhatIsCreatedForTheGangOrItsFold", func(s *scene) {
		a := s.need("a", 10, cpu(8), same(rackKey), group("g"), unit(cpu(4)))
		b := s.need("b", 10, cpu(8), same(rackKey), group("g"), unit(cpu(4)))
		d := s.need("d", 10, cpu(8), same(rackKey), group("g"), unit(cpu(4)))
		other := s.need("d", 10, cpu(4), group("o"))
		s.machine("ca", creating, cpu(8), rack("r1"), held(a))
		s.machine("cb", creating, cpu(8), rack("r1"), held(foldOf(b)))
		s.machine("cd", creating, cpu(8), rack("r1"), held(other))
		s.machines("i1 i2 i3 i4 i5 i6", idle, cpu(4), rack("r2"))
		s.run().claims(a, "ca").gathers(a, "").claims(b, "cb").gathers(b, "").gathers(d, "r2")
	}},
	{"FoldingLooksAtWhatDrainsForTheGangOrItsFold", func(s *scene) {
		a := s.need("a", 10, cpu(8), same(rackKey), group("g"), unit(cpu(4)))
		b := s.need("b", 10, cpu(8), same(rackKey), group("g"), unit(cpu(4)))
		d := s.need("d", 10, cpu(8), same(rackKey), group("g"), unit(cpu(4)))
		other := s.need("d", 10, cpu(4), group("o"))
		s.machine("da", draining, cpu(8), of("v"), rack("r1"), held(a))
		s.machine("db", draining, cpu(8), of("v"), rack("r1"), held(foldOf(b)))
		s.machine("dd", draining, cpu(8), of("v"), rack("r1"), held(other))
		s.machines("i1 i2", idle, cpu(4), rack("r2"))
		o := s.run()
		o.claims(a, "").awaits(a, cpu(8)).claims(b, "").awaits(b, cpu(8)).claims(d, "i1 i2").gathers(d, "r2")
	}},
	{"FoldingIgnoresExpiredReservations", func(s *scene) {
		g := s.need("a", 10, cpu(8), same(rackKey), group("g"), unit(cpu(4)))
		s.machine("i1", idle, cpu(4), rack("r1"), held(g), until(-1))
		s.machine("big", idle, cpu(8), rack("r2"), price(9))
		s.run().claims(g, "big")
	}},
	{"AGangThatHasBegunDoesNotFold", func(s *scene) {
		g := s.need("c", 10, cpu(8), same(rackKey), group("g"), unit(cpu(4)))
		s.machines("a b", bound, cpu(4), of("c"), rack("r1"), serving(g))
		s.machine("big", idle, cpu(8), rack("r2"))
		s.run().claims(g, "a b").gathers(g, "r1").does()
	}},
	{"AGangBeginsWithWhatIsConfiguring", func(s *scene) {
		g := s.need("c", 10, cpu(8), same(rackKey), group("g"), unit(cpu(4)))
		s.machines("a b", binding, cpu(4), of("c"), rack("r1"), serving(g))
		s.machine("big", idle, cpu(8), rack("r2"))
		s.run().claims(g, "a b").gathers(g, "r1").does()
	}},
	{"AGangBeginsWithWhatIsCreatedForIt", func(s *scene) {
		g := s.need("c", 10, cpu(8), same(rackKey), group("g"), unit(cpu(4)))
		s.machines("a b", creating, cpu(4), rack("r1"), held(g))
		s.machine("big", idle, cpu(8), rack("r2"))
		s.run().claims(g, "a b").gathers(g, "r1").does()
	}},
	{"AGangBeginsWithWhatIsHeldForIt", func(s *scene) {
		g := s.need("c", 10, cpu(8), same(rackKey), group("g"), unit(cpu(4)))
		s.machines("a b", idle, cpu(4), rack("r1"), held(g))
		s.machine("big", idle, cpu(8), rack("r2"))
		s.run().claims(g, "a b").gathers(g, "r1")
	}},
	{"AGangBeginsWithWhatDrainsForIt", func(s *scene) {
		g := s.need("c", 10, cpu(8), same(rackKey), group("g"), unit(cpu(4)))
		s.machines("a b", draining, cpu(4), of("v"), rack("r1"), held(g))
		s.machine("big", idle, cpu(8), rack("r2"))
		s.run().gathers(g, "r1").awaits(g, cpu(8))
	}},
	{"AGangOfAnotherStampHasNotBegun", func(s *scene) {
		g := s.need("c", 10, cpu(8), same(rackKey), group("g"), unit(cpu(4)))
		h := s.need("c", 10, cpu(8), same(rackKey), group("h"), unit(cpu(4)))
		s.machines("a b", bound, cpu(4), of("c"), rack("r1"), serving(h))
		s.machine("big", idle, cpu(8), rack("r2"))
		s.run().claims(g, "big").gathers(g, "").claims(h, "a b")
	}},
	{"WhatAGangCannotUseBeginsNothing", func(s *scene) {
		g := s.need("c", 10, cpu(8), same(rackKey), group("g"), unit(cpu(4)))
		s.machine("a", bound, cpu(2), of("c"), rack("r1"), serving(g))
		s.machine("b", bound, cpu(4), of("c"), serving(g))
		s.machine("d", bound, vec("gpu", 8), of("c"), rack("r1"), serving(g))
		s.machine("big", idle, cpu(8), rack("r2"))
		s.run().claims(g, "big").gathers(g, "")
	}},
	{"WhatHoldsAllOfItBeginsNoGang", func(s *scene) {
		g := s.need("c", 10, cpu(8), same(rackKey), group("g"), unit(cpu(4)))
		s.machine("a", bound, cpu(8), of("c"), rack("r1"), serving(g))
		s.run().claims(g, "a").gathers(g, "")
	}},
	{"OneHasBegunAndItsTwinHasNot", func(s *scene) {
		g := s.need("c", 10, cpu(8), same(rackKey), group("g"), unit(cpu(4)))
		h := s.need("c", 10, cpu(8), same(rackKey), group("h"), unit(cpu(4)))
		s.machines("a b", bound, cpu(4), of("c"), rack("r1"), serving(g))
		s.machine("big", idle, cpu(8), rack("r2"))
		s.run().claims(g, "a b").gathers(g, "r1").claims(h, "big").gathers(h, "")
	}},
	{"AFoldIsCreditedWhatIsCreatedForAMember", func(s *scene) {
		g := s.need("c", 10, cpu(4), same(rackKey), group("g"))
		h := s.need("c", 10, cpu(4), same(rackKey), group("h"))
		s.machine("cg", creating, cpu(4), rack("r1"), held(g))
		s.machine("ch", creating, cpu(4), rack("r1"), held(h))
		s.machines("i1 i2", idle, cpu(4), rack("r2"))
		s.run().claims(g, "cg ch").satisfied(h).does()
	}},
	{"AFoldTakesWhatIsHeldForAMemberFirst", func(s *scene) {
		s.need("c", 10, cpu(4), same(rackKey), group("g"))
		h := s.need("c", 10, cpu(4), same(rackKey), group("h"))
		s.machine("i1", idle, cpu(8), rack("r1"))
		s.machine("i2", idle, cpu(8), rack("r2"), held(h), price(9))
		s.run().claims(h, "i2")
	}},
	{"APlainRowJoinsNoFold", func(s *scene) {
		a := s.need("c", 10, cpu(4), same(rackKey))
		b := s.need("c", 10, cpu(4))
		s.machines("m1 m2", idle, cpu(8), rack("r"))
		s.run().claims(a, "m1").claims(b, "m2")
	}},
	{"StampsFromBeforeTheFoldAreNotItsOwn", func(s *scene) {
		g := s.need("c", 10, cpu(4), same(rackKey), group("g"))
		s.machine("old", bound, cpu(4), of("c"), rack("r"), price(1), serving(g))
		s.machine("new", idle, cpu(4), rack("r"))
		s.machine("other", bound, cpu(4), of("c"), rack("r"))
		s.run().claims(g, "other")
	}},
	{"AFoldsOwnStampIsThatOfItsProfileWithoutGroup", func(s *scene) {
		g := s.need("c", 10, cpu(4), same(rackKey), group("g"))
		s.machine("mine", bound, cpu(4), of("c"), price(1), rack("r"), serving(foldOf(g)))
		s.machine("other", bound, cpu(4), of("c"), rack("r"))
		s.run().claims(g, "mine")
	}},
	{"AFoldIsParkedOnlyIfEveryMemberIs", func(s *scene) {
		s.need("c", 10, cpu(4), same(rackKey), group("a"), parked)
		b := s.need("c", 10, cpu(4), same(rackKey), group("b"))
		s.need("d", 10, cpu(4), same(rackKey), group("a"), parked)
		d := s.need("d", 10, cpu(4), same(rackKey), group("b"), parked)
		s.machines("m1 m2", idle, cpu(8), rack("r"))
		s.run().claims(b, "m1").claims(d, "").unmet(d, reference.UnmetParked)
	}},
}
