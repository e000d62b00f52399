package contract

import (
	"math"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/reference"
)

// holder adds a row of the victims' cluster that claims everything there.
func (s *scene) holder(priority int32) {
	s.Helper()
	s.need("v", priority, cpu(1<<40))
}

var preemptRules = []rule{
	{"UnsatisfiedNeedsPreemptInRankOrder", func(s *scene) {
		low := s.need("a", 50, cpu(4))
		high := s.need("b", 60, cpu(4))
		s.holder(1)
		s.machine("m", bound, cpu(4), of("v"))
		s.run().does("Preempt m 1").unmet(high, reference.UnmetAwaitingDrain).unmet(low, reference.UnmetPriorityStarved)
	}},
	{"PreemptsComeByThePreemptorsRankThenAsChosen", func(s *scene) {
		s.need("a", 50, cpu(4))
		s.need("b", 60, cpu(8))
		s.holder(1)
		s.machines("m3 m2 m1", bound, cpu(4), of("v"))
		s.run().does("Preempt m1 1", "Preempt m2 1", "Preempt m3 0")
	}},
	{"ASatisfiedNeedDoesNotPreempt", func(s *scene) {
		s.need("a", 50, cpu(4))
		s.holder(1)
		s.machine("i", idle, cpu(4))
		s.machine("m", bound, cpu(4), of("v"))
		s.run().does("Bootstrap i 0")
	}},
	{"AParkedNeedPassesThrough", func(s *scene) {
		s.need("a", 50, cpu(4), parked)
		s.holder(1)
		s.machine("m", bound, cpu(4), of("v"))
		s.run().does()
	}},
	{"EqualPriorityIsNeverPreempted", func(s *scene) {
		n := s.need("a", 50, cpu(4), interruption(9))
		s.holder(50)
		s.machine("m", bound, cpu(4), of("v"))
		s.run().does().unmet(n, reference.UnmetPriorityStarved)
	}},
	{"TheCurrentHoldersPriorityCountsNotTheStamp", func(s *scene) {
		n := s.need("a", 50, cpu(4))
		s.holder(60)
		s.machine("m", bound, cpu(4), of("v"), at(1))
		s.run().does().unmet(n, reference.UnmetPriorityStarved)
	}},
	{"AHighStampDoesNotProtectALowHolder", func(s *scene) {
		s.need("a", 50, cpu(4))
		s.holder(1)
		s.machine("m", bound, cpu(4), of("v"), at(99))
		s.run().does("Preempt m 0")
	}},
	{"AnUnclaimedMachinesPriorityIsItsStamps", func(s *scene) {
		s.need("a", 50, cpu(8))
		s.machine("m1", bound, cpu(4), of("v"), at(50))
		s.machine("m2", bound, cpu(4), of("v"), at(49))
		s.run().does("Preempt m2 0", "Reclaim m1")
	}},
	{"OnlyConfiguredMachinesArePreempted", func(s *scene) {
		n := s.need("a", 50, cpu(4))
		s.holder(1)
		s.machine("m", binding, cpu(4), of("v"))
		s.run().does().unmet(n, reference.UnmetPriorityStarved)
	}},
	{"OwnClusterIsNotPreempted", func(s *scene) {
		s.need("a", 50, cpu(4), requires("k", model.Exists))
		s.need("a", 1, cpu(4))
		s.need("b", 60, cpu(4), requires("k", model.Exists))
		s.machine("m", bound, cpu(4), of("a"), label("k", "1"))
		s.run().does("Preempt m 2")
	}},
	{"VictimsMatchAndCoverTheMinimumUnit", func(s *scene) {
		s.need("a", 50, cpu(8), unit(cpu(4)), requires(model.KeyZone, model.In, "za"))
		s.holder(1)
		s.machine("m1", bound, cpu(4), of("v"), zone("zb"))
		s.machine("m2", bound, cpu(3), of("v"), zone("za"))
		s.machine("m3", bound, cpu(4), of("v"), zone("za"))
		s.run().does("Preempt m3 0")
	}},
	{"ReservedMachinesAreNoVictims", func(s *scene) {
		n := s.need("a", 50, cpu(4))
		mid := s.need("b", 40, cpu(4), requires("k", model.Exists))
		s.holder(1)
		s.machine("m", bound, cpu(4), of("v"), held(mid))
		s.run().does().unmet(n, reference.UnmetPriorityStarved)
	}},
	{"OnlyWhatIsMissingIsPreempted", func(s *scene) {
		s.need("a", 50, cpu(8))
		s.holder(1)
		s.machine("i", idle, cpu(4))
		s.machines("m1 m2", bound, cpu(4), of("v"))
		s.run().does("Bootstrap i 0", "Preempt m1 0")
	}},
	{"VictimsThatFreeNothingMissingAreNotTaken", func(s *scene) {
		s.need("a", 50, vec("cpu", 4, "gpu", 8))
		s.holder(1)
		s.machine("i", idle, cpu(4))
		s.machine("m1", bound, cpu(4), of("v"))
		s.machine("m2", bound, vec("cpu", 4, "gpu", 8), of("v"), worth(9, 9))
		s.run().does("Bootstrap i 0", "Preempt m2 0")
	}},
	{"APlainNeedPreemptsForAPart", func(s *scene) {
		n := s.need("a", 50, cpu(8))
		s.holder(1)
		s.machine("m1", bound, cpu(4), of("v"))
		s.run().does("Preempt m1 0").lacks(n, cpu(8)).unmet(n, reference.UnmetPreemptionExhausted)
	}},
	{"VictimsStayClaimedByTheirNeed", func(s *scene) {
		s.need("a", 50, cpu(4))
		v := s.need("v", 1, cpu(4))
		s.machine("m1", bound, cpu(4), of("v"))
		s.run().claims(v, "m1").satisfied(v)
	}},
	{"PreemptBeatsReclaim", func(s *scene) {
		s.need("a", 50, cpu(4))
		s.machines("m1 m2", bound, cpu(4), of("v"))
		s.run().does("Preempt m1 0", "Reclaim m2")
	}},
	{"GapUpTo100000HasTenMinutes", gapHasGrace(100_000, 600)},
	{"GapOver100000HasTwoMinutes", gapHasGrace(100_001, 120)},
	{"GapUpTo500000HasTwoMinutes", gapHasGrace(500_000, 120)},
	{"GapOver500000HasThirtySeconds", gapHasGrace(500_001, 30)},
	{"GapUpTo900000HasThirtySeconds", gapHasGrace(900_000, 30)},
	{"GapOver900000HasTenSeconds", gapHasGrace(900_001, 10)},
	{"GapIsIn64Bits", func(s *scene) {
		s.need("a", math.MaxInt32, cpu(4))
		s.holder(math.MinInt32)
		s.machine("m", bound, cpu(4), of("v"))
		s.run().grace("m", 10)
	}},
	{"SpreadPreemptsOnlyWhatPhase1CouldTake", func(s *scene) {
		s.need("a", 50, cpu(8), hard(model.KeyZone, 1))
		s.holder(1)
		s.machine("m1", bound, cpu(4), of("v"))
		s.machines("m2 m3", bound, cpu(4), of("v"), zone("za"))
		s.machine("m4", bound, cpu(4), of("v"), zone("zb"), worth(9, 9))
		s.run().does("Preempt m2 0", "Preempt m4 0")
	}},
	{"SpreadCountsTheZonesOfBoundMachines", func(s *scene) {
		// zb holds two of the Need's: za may take two before zb is next.
		n := s.need("a", 50, cpu(16), hard(model.KeyZone, 1))
		s.holder(1)
		s.machines("o1 o2", bound, cpu(4), of("a"), zone("zb"))
		s.machines("m1 m2", bound, cpu(4), of("v"), zone("za"))
		s.machine("m0", bound, cpu(4), of("v"), zone("zb"))
		s.run().does("Preempt m1 0", "Preempt m2 0").claims(n, "o1 o2")
	}},
	{"ZonesWithoutVictimsStillHoldOthersBack", func(s *scene) {
		n := s.need("a", 50, cpu(16), hard(model.KeyZone, 1))
		s.holder(1)
		s.machine("o", bound, cpu(4), of("a"), zone("zc"))
		s.machines("m1 m2 m3", bound, cpu(4), of("v"), zone("za"))
		s.run().does("Preempt m1 0", "Preempt m2 0").unmet(n, reference.UnmetPreemptionExhausted)
	}},
	{"SpreadCountsTheZonesOfWhatIsInFlight", func(s *scene) {
		n := s.need("a", 50, cpu(8), hard(model.KeyZone, 1))
		s.holder(1)
		s.machine("d", draining, cpu(4), of("v"), zone("za"), held(n))
		s.machine("m1", bound, cpu(4), of("v"), zone("za"))
		s.machine("m2", bound, cpu(4), of("v"), zone("zb"), worth(9, 9))
		s.run().does("Preempt m2 0")
	}},
	{"SpreadPutsFreeMachinesBetweenVictims", func(s *scene) {
		// The skew held i2 back; with a victim in zb it can follow.
		n := s.need("a", 50, cpu(16), hard(model.KeyZone, 1))
		s.holder(1)
		s.machines("i1 i2", idle, cpu(4), zone("za"))
		s.machine("j1", idle, cpu(4), zone("zb"), price(1))
		s.machine("m1", bound, cpu(4), of("v"), zone("zb"))
		s.run().does("Bootstrap i1 0", "Bootstrap j1 0", "Bootstrap i2 0", "Preempt m1 0").unmet(n, reference.UnmetAwaitingDrain)
	}},
}

func gapHasGrace(gap int32, seconds int) func(*scene) {
	return func(s *scene) {
		s.Helper()
		s.need("a", 5+gap, cpu(4))
		s.holder(5)
		s.machine("m", bound, cpu(4), of("v"))
		o := s.run().grace("m", seconds)
		if a := o.action("m"); a.Cluster != "v" || a.PreemptorPriority != int(5+gap) {
			s.Errorf("got %+v", a)
		}
	}
}

// prefers: of two machines that one row of low priority holds, the preemptor
// takes b though a has the smaller id.
func prefers(a, b []machineOpt, more ...func(*scene)) func(*scene) {
	return func(s *scene) {
		s.Helper()
		s.need("p", 50, cpu(4))
		s.holder(1)
		s.machine("a", bound, cpu(4), append(a, of("v"))...)
		s.machine("b", bound, cpu(4), append(b, of("v"))...)
		for _, change := range more {
			change(s)
		}
		s.run().does("Preempt b 0")
	}
}

func opts(o ...machineOpt) []machineOpt { return o }

func drains(seconds map[string]float64) func(*scene) {
	return func(s *scene) { s.in.DrainSeconds = seconds }
}

var victimRules = []rule{
	{"ExcessFirst", func(s *scene) {
		s.need("p", 50, cpu(4))
		s.need("v", 1, cpu(4))
		s.machine("a", bound, cpu(4), of("v"), worth(1, 1))
		s.machine("z", bound, cpu(4), of("w"), at(40), worth(9, 9))
		s.run().does("Preempt z 0")
	}},
	{"AmongExcessByScoreThenID", func(s *scene) {
		s.need("p", 50, cpu(12))
		s.machine("a", bound, cpu(4), of("w"), at(40))
		s.machine("c", bound, cpu(4), of("w"), at(30))
		s.machine("b", bound, cpu(4), of("w"), at(30))
		s.run().does("Preempt b 0", "Preempt c 0", "Preempt a 0")
	}},
	{"UnclaimedMachinesOfAnUnreportedClusterAreNoExcess", func(s *scene) {
		s.need("p", 50, cpu(4))
		s.in.Reported["u"] = false
		s.need("v", 10, cpu(4))
		s.machine("a", bound, cpu(4), of("u"), at(20))
		s.machine("b", bound, cpu(4), of("v"))
		s.run().does("Preempt b 0")
	}},
	{"TheLargerGapGoesFirst", func(s *scene) {
		s.need("p", 50, cpu(4))
		s.need("v", 20, cpu(4))
		s.need("w", 19, cpu(4))
		s.machine("a", bound, cpu(4), of("v"), worth(3, 3))
		s.machine("b", bound, cpu(4), of("w"), worth(9, 9))
		s.run().does("Preempt b 0")
	}},
	{"CheapWorkloadsOutweighASmallGap", func(s *scene) {
		// A cent's floor is worth 10 points, for each of the two penalties.
		s.need("p", 50, cpu(4))
		s.need("v", 39, cpu(4))
		s.need("w", 20, cpu(4))
		s.machine("a", bound, cpu(4), of("v"))
		s.machine("b", bound, cpu(4), of("w"), worth(26, 26))
		s.run().does("Preempt a 0")
	}},
	{"CheaperToInterruptGoesFirst", prefers(opts(worth(4, 9)), opts(worth(3, 9)))},
	{"CheaperToReclaimGoesFirst", prefers(opts(worth(9, 4)), opts(worth(9, 3)))},
	{"TheTwoPenaltiesWeighTheSame", prefers(opts(worth(3, 9)), opts(worth(9, 2)))},
	{"PenaltiesHaveAFloorOfOneCent", prefers(opts(worth(1, 4)), opts(worth(0, 3)))},
	{"PinnedAddsNothing", prefers(opts(worth(model.BucketPinned, 3)), opts(worth(26, 3)))},
	{"QuickToDrainGoesFirst", prefers(opts(kind("slow")), opts(kind("quick")), drains(map[string]float64{"slow": 20, "quick": 10}))},
	{"UnknownDrainTimeIsThirtySeconds", prefers(opts(kind("slow")), opts(kind("unknown")), drains(map[string]float64{"slow": 31}))},
	{"DrainTimeHasAFloorOfOneSecond", func(s *scene) {
		s.in.DrainSeconds = map[string]float64{"quick": 0.001, "second": 1}
		s.need("p", 50, cpu(4))
		s.holder(1)
		s.machine("a", bound, cpu(4), of("v"), kind("second"))
		s.machine("b", bound, cpu(4), of("v"), kind("quick"))
		s.run().does("Preempt a 0")
	}},
	{"WeightsAreOptions", prefers(opts(worth(3, 9)), opts(worth(9, 4)), func(s *scene) { s.in.Options.Weights.Interruption = 0 })},
	{"TiesGoByID", func(s *scene) {
		s.need("p", 50, cpu(4))
		s.holder(1)
		s.machine("b", bound, cpu(4), of("v"), price(1))
		s.machine("a", bound, cpu(4), of("v"), price(9))
		s.run().does("Preempt a 0")
	}},
	{"UnneededVictimsAreGivenBack", func(s *scene) {
		s.need("p", 50, cpu(8))
		s.need("v", 1, cpu(4))
		s.need("w", 2, cpu(8))
		s.machine("small", bound, cpu(4), of("v"))
		s.machine("large", bound, cpu(8), of("w"))
		s.run().does("Preempt large 0")
	}},
	{"TheHighestRankIsGivenBackFirst", func(s *scene) {
		// Any two of three are enough once the largest is in.
		s.need("p", 50, cpu(12))
		s.need("v", 1, cpu(4))
		s.need("w", 2, cpu(4))
		s.need("x", 3, cpu(8))
		s.machine("a", bound, cpu(4), of("v"))
		s.machine("b", bound, cpu(4), of("w"))
		s.machine("d", bound, cpu(8), of("x"))
		s.run().does("Preempt a 0", "Preempt d 0")
	}},
	{"ClaimedVictimsAreGivenBackBeforeExcess", func(s *scene) {
		s.need("p", 50, vec("cpu", 8, "gpu", 1))
		s.need("v", 1, cpu(4))
		s.need("x", 3, cpu(4))
		s.machine("excess", bound, cpu(4), of("w"), at(40))
		s.machine("held", bound, cpu(4), of("v"))
		s.machine("gpu", bound, vec("cpu", 4, "gpu", 1), of("x"))
		s.run().does("Preempt excess 0", "Preempt gpu 0")
	}},
	{"UnreportedVictimsAreGivenBackBeforeExcess", func(s *scene) {
		s.need("p", 50, vec("cpu", 8, "gpu", 1))
		s.need("x", 45, cpu(4))
		s.in.Reported["u"] = false
		s.machine("excess", bound, cpu(4), of("w"), at(40))
		s.machine("unknown", bound, cpu(4), of("u"), at(1))
		s.machine("gpu", bound, vec("cpu", 4, "gpu", 1), of("x"))
		s.run().does("Preempt excess 0", "Preempt gpu 0")
	}},
	{"AmongEqualsTheLastChosenIsGivenBack", func(s *scene) {
		s.need("p", 50, vec("cpu", 8, "gpu", 1))
		s.need("v", 1, vec("cpu", 12, "gpu", 1))
		s.machines("a b", bound, cpu(4), of("v"))
		s.machine("c", bound, vec("cpu", 4, "gpu", 1), of("v"))
		s.run().does("Preempt a 0", "Preempt c 0")
	}},
	{"APartThatBringsLessIsNotGivenBack", func(s *scene) {
		n := s.need("p", 50, vec("cpu", 100, "gpu", 1))
		s.need("v", 1, vec("cpu", 12))
		s.machines("a b", bound, cpu(4), of("v"))
		s.run().does("Preempt a 0", "Preempt b 0").unmet(n, reference.UnmetNoMatchingSupply)
	}},
}
