package contract

import (
	"math"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/reference"
)

// gang adds a Same-Need of cluster c for machines of one size: so much in all, by units of 4.
func (s *scene) gang(priority int32, total int64, opts ...needOpt) *row {
	s.Helper()
	return s.need("c", priority, cpu(total), append([]needOpt{unit(cpu(4)), same(rackKey), group("g")}, opts...)...)
}

// sameRules: the choice among domains, strictly in the order of the contract.
var sameRules = []rule{
	{"ADomainThatCoversBeatsOneThatDoesNot", func(s *scene) {
		n := s.gang(10, 12)
		s.machines("a1 a2", bound, cpu(4), of("c"), rack("ra"), serving(n))
		s.machines("b1 b2 b3", idle, cpu(4), rack("rb"), price(9))
		s.run().gathers(n, "rb").claims(n, "b1 b2 b3").does("Bootstrap b1 0", "Bootstrap b2 0", "Bootstrap b3 0", "Reclaim a1", "Reclaim a2")
	}},
	{"ThenADomainThatCoversTheMinimum", func(s *scene) {
		n := s.gang(10, 20, least(cpu(12)))
		s.machines("a1 a2", bound, cpu(4), of("c"), rack("ra"), serving(n))
		s.machines("b1 b2 b3", idle, cpu(4), rack("rb"), price(9))
		s.run().gathers(n, "rb").claims(n, "b1 b2 b3").lacks(n, cpu(8))
	}},
	{"WithoutAMinimumAPartIsAPart", func(s *scene) {
		n := s.gang(10, 20)
		s.machines("a1 a2", bound, cpu(4), of("c"), rack("ra"), serving(n))
		s.machines("b1 b2 b3", idle, cpu(4), rack("rb"))
		s.run().gathers(n, "ra").claims(n, "a1 a2").does().lacks(n, cpu(12))
	}},
	{"OfThoseThatCoverTheMinimumTheOneWithMoreOwnWins", func(s *scene) {
		n := s.gang(10, 20, least(cpu(8)))
		s.machine("a1", bound, cpu(4), of("c"), rack("ra"), serving(n))
		s.machine("a2", idle, cpu(4), rack("ra"), price(9))
		s.machines("b1 b2 b3", idle, cpu(4), rack("rb"))
		s.run().gathers(n, "ra").claims(n, "a1 a2")
	}},
	{"ThenMoreOwnWins", func(s *scene) {
		n := s.gang(10, 8)
		s.machines("a1 a2", bound, cpu(4), of("c"), rack("ra"))
		s.machine("b1", bound, cpu(4), of("c"), rack("rb"), price(9), serving(n))
		s.machine("b2", bound, cpu(4), of("c"), rack("rb"), price(9))
		s.run().gathers(n, "rb").claims(n, "b1 b2")
	}},
	{"OwnGoesBeforeCredit", func(s *scene) {
		n := s.gang(10, 8)
		s.machines("a1 a2", bound, cpu(4), of("c"), rack("ra"))
		s.machine("b1", bound, cpu(4), of("c"), rack("rb"), price(9), serving(n))
		s.machine("b2", idle, cpu(4), rack("rb"), price(9))
		s.run().gathers(n, "rb").claims(n, "b1 b2").does("Bootstrap b2 0", "Reclaim a1", "Reclaim a2")
	}},
	{"MoreOwnThatNothingCompletesDoesNot", func(s *scene) {
		n := s.gang(10, 12)
		s.machines("a1 a2 a3", bound, cpu(4), of("c"), rack("ra"))
		s.machines("b1 b2", bound, cpu(4), of("c"), rack("rb"), price(9), serving(n))
		s.run().gathers(n, "ra").claims(n, "a1 a2 a3").satisfied(n)
	}},
	{"ThenMoreCreditWins", func(s *scene) {
		n := s.gang(10, 12)
		s.machines("a1 a2 a3", idle, cpu(4), rack("ra"))
		s.machines("b1 b2", idle, cpu(4), rack("rb"), price(9))
		s.machine("b3", bound, cpu(4), of("c"), rack("rb"), price(9))
		s.run().gathers(n, "rb").claims(n, "b3 b1 b2")
	}},
	{"ThenLeastOverCommitmentWins", func(s *scene) {
		n := s.gang(10, 8)
		s.machines("a1 a2 a3", idle, cpu(4), rack("ra"))
		s.machines("b1 b2", idle, cpu(4), rack("rb"), price(9))
		s.run().gathers(n, "rb")
	}},
	{"OverCommitmentSumsEveryDimension", func(s *scene) {
		n := s.need("c", 10, vec("cpu", 8, "memory", 8), same(rackKey))
		s.machines("a1 a2", idle, vec("cpu", 4, "memory", 40), rack("ra"))
		s.machines("b1 b2 b3", idle, vec("cpu", 4, "memory", 4), rack("rb"))
		s.run().gathers(n, "rb")
	}},
	{"NeitherCoversMoreOwnWins", func(s *scene) {
		n := s.gang(10, 16)
		s.machine("a1", bound, cpu(4), of("c"), rack("ra"), serving(n))
		s.machines("b1 b2", idle, cpu(4), rack("rb"))
		s.run().gathers(n, "ra").claims(n, "a1").does().lacks(n, cpu(12))
	}},
	{"NeitherCoversThenMoreTotalWins", func(s *scene) {
		n := s.gang(10, 16)
		s.machine("a1", bound, cpu(4), of("c"), rack("ra"))
		s.machines("b1 b2", idle, cpu(4), rack("rb"))
		s.run().gathers(n, "rb").claims(n, "b1 b2").lacks(n, cpu(8))
	}},
	{"NeitherCoversThenMoreCreditWins", func(s *scene) {
		n := s.gang(10, 16)
		s.machines("a1 a2", idle, cpu(4), rack("ra"))
		s.machine("b1", idle, cpu(4), rack("rb"))
		s.machine("b2", bound, cpu(4), of("c"), rack("rb"))
		s.run().gathers(n, "rb")
	}},
	{"ThenTheLargerCountWins", func(s *scene) {
		n := s.need("c", 10, cpu(32), same(rackKey))
		s.machine("a1", idle, cpu(8), rack("ra"))
		s.machines("b1 b2", idle, cpu(4), rack("rb"))
		s.run().gathers(n, "rb")
	}},
	{"ThenTheSmallerValueWins", func(s *scene) {
		n := s.gang(10, 8)
		s.machines("b1 b2", idle, cpu(4), rack("rb"))
		s.machines("a1 a2", idle, cpu(4), rack("ra"), price(1))
		s.run().gathers(n, "ra")
	}},
	{"CoverageIsCappedPerDimension", func(s *scene) {
		// ra has cpu in plenty and no gpu; rb has some of both.
		n := s.need("c", 10, vec("cpu", 8, "gpu", 8), same(rackKey))
		s.machines("a1 a2 a3 a4", idle, cpu(8), rack("ra"))
		s.machines("b1 b2", idle, vec("cpu", 3, "gpu", 3), rack("rb"))
		s.run().gathers(n, "rb")
	}},
	{"ScoresCompareExactly", func(s *scene) {
		// Thirds: in floats 1/3 + 2/3 of one order may differ from 2/3 + 1/3.
		n := s.need("c", 10, vec("cpu", 3, "gpu", 3, "memory", 3), same(rackKey))
		s.machine("b1", idle, vec("cpu", 1, "memory", 2), rack("rb"))
		s.machine("a1", idle, vec("gpu", 1, "memory", 2), rack("ra"))
		s.run().gathers(n, "ra")
	}},
	{"NearlyEqualScoresAreNotTies", func(s *scene) {
		big := int64(math.MaxInt64)
		n := s.need("c", 10, cpu(big), same(rackKey))
		s.machine("a1", idle, cpu(big-2), rack("ra"))
		s.machine("b1", idle, cpu(big-1), rack("rb"))
		s.run().gathers(n, "rb")
	}},
	{"TotalsDoNotOverflow", func(s *scene) {
		half := int64(math.MaxInt64/2 + 1)
		n := s.need("c", 10, cpu(math.MaxInt64), same(rackKey))
		s.machines("a1 a2 a3", idle, cpu(half), rack("ra"))
		s.machine("b1", idle, cpu(half), rack("rb"))
		s.run().gathers(n, "ra").claims(n, "a1 a2").satisfied(n)
	}},
	{"ConfiguringAndStampedCreatingAreCreditable", func(s *scene) {
		n := s.gang(10, 8)
		s.machines("a1 a2", idle, cpu(4), rack("ra"))
		s.machine("b1", binding, cpu(4), of("c"), rack("rb"))
		s.machine("b2", idle, cpu(4), rack("rb"), price(3))
		s.run().gathers(n, "rb")
	}},
	{"SpeculativeSupplyCountsInTheTotal", func(s *scene) {
		n := s.gang(10, 8)
		s.machine("a1", idle, cpu(4), rack("ra"))
		s.machines("b1 b2", spec, cpu(4), rack("rb"), price(9))
		s.run().gathers(n, "rb").does("Provision b1 0", "Provision b2 0")
	}},
	{"MachinesClaimedByHigherRanksDoNotCount", func(s *scene) {
		s.need("b", 20, cpu(8), requires(rackKey, model.In, "ra"))
		n := s.gang(10, 8)
		s.machines("a1 a2 a3", idle, cpu(4), rack("ra"))
		s.machines("b1 b2", idle, cpu(4), rack("rb"), price(3))
		s.run().gathers(n, "rb")
	}},
	{"MachinesReservedForHigherRanksDoNotCount", func(s *scene) {
		high := s.need("b", 20, cpu(4), requires("k", model.Exists))
		n := s.gang(10, 8)
		s.machine("a1", idle, cpu(4), rack("ra"), held(high))
		s.machine("a2", idle, cpu(4), rack("ra"))
		s.machines("b1 b2", idle, cpu(4), rack("rb"), price(3))
		s.run().gathers(n, "rb")
	}},
	{"AParkedNeedChoosesOverCreditOnly", func(s *scene) {
		n := s.gang(10, 12, parked)
		s.machine("a1", bound, cpu(4), of("c"), rack("ra"))
		s.machines("b1 b2 b3", idle, cpu(4), rack("rb"))
		s.run().gathers(n, "ra").claims(n, "a1").couldCover(n, true)
	}},
}

// domainRules: what follows from the choice.
var domainRules = []rule{
	{"CreditIsConfinedToTheDomain", func(s *scene) {
		n := s.gang(10, 8)
		s.machines("a1 a2", bound, cpu(4), of("c"), rack("ra"))
		s.machine("b1", bound, cpu(4), of("c"), rack("rb"), serving(n))
		s.run().claims(n, "a1 a2").does("Reclaim b1")
	}},
	{"AnUncoverableGangKeepsWhatItHasInItsBestDomain", func(s *scene) {
		n := s.gang(10, 16)
		s.machine("a1", bound, cpu(4), of("c"), rack("ra"))
		s.machine("a2", idle, cpu(4), rack("ra"))
		s.machine("b1", idle, cpu(4), rack("rb"))
		s.run().claims(n, "a1 a2").lacks(n, cpu(8)).couldCover(n, false).unmet(n, reference.UnmetTopology)
	}},
	{"NoCandidateIsNoDomain", func(s *scene) {
		n := s.gang(10, 8)
		s.machine("a", idle, cpu(4))
		s.run().gathers(n, "").claims(n, "").unmet(n, reference.UnmetNoMatchingSupply).couldCover(n, false)
	}},
	{"ListedValuesAreTheOnlyDomains", func(s *scene) {
		n := s.need("c", 10, cpu(8), same(rackKey, "rb", "rc"))
		s.machines("a1 a2", idle, cpu(4), rack("ra"))
		s.machines("b1 b2", idle, cpu(4), rack("rb"), price(9))
		s.run().gathers(n, "rb")
	}},
	{"TwoGangsTakeTwoDomains", func(s *scene) {
		g := s.gang(10, 8)
		h := s.gang(10, 8, group("h"))
		s.machines("a1 a2", idle, cpu(4), rack("ra"))
		s.machines("b1 b2", idle, cpu(4), rack("rb"))
		s.run().gathers(g, "ra").gathers(h, "rb")
	}},
	{"PlainNeedsCouldAlwaysBeCovered", func(s *scene) {
		n := s.need("c", 10, cpu(4))
		s.run().couldCover(n, true)
	}},
}

var wholeRules = []rule{
	{"NothingIsPreemptedForAPart", func(s *scene) {
		n := s.gang(100, 16)
		s.machines("a1 a2 a3", bound, cpu(4), of("v"), rack("ra"), at(1))
		s.machines("b1 b2 b3", bound, cpu(4), of("v"), rack("rb"), at(1))
		v := s.need("v", 1, cpu(24))
		s.run().does().unmet(n, reference.UnmetPreemptionExhausted).satisfied(v)
	}},
	{"AGangWithNothingFreeFindsADomainToPreemptIn", func(s *scene) {
		n := s.gang(100, 12)
		s.need("v", 1, cpu(20))
		s.machines("a1 a2", bound, cpu(4), of("v"), rack("ra"), at(1))
		s.machines("b1 b2 b3", bound, cpu(4), of("v"), rack("rb"), at(1))
		s.run().does("Preempt b1 0", "Preempt b2 0", "Preempt b3 0").gathers(n, "rb").unmet(n, reference.UnmetAwaitingDrain)
	}},
	{"Phase1sDomainIsTriedFirst", func(s *scene) {
		n := s.gang(100, 12)
		s.need("v", 1, cpu(40))
		s.machine("a1", idle, cpu(4), rack("ra"))
		s.machines("a2 a3", bound, cpu(4), of("v"), rack("ra"), at(1))
		s.machines("b1 b2 b3 b4", bound, cpu(4), of("v"), rack("rb"), at(1))
		s.run().does("Bootstrap a1 0", "Preempt a2 0", "Preempt a3 0").gathers(n, "ra")
	}},
	{"OtherDomainsGoByWhatCouldBeThereThenValue", func(s *scene) {
		n := s.gang(100, 12)
		s.need("v", 1, cpu(40))
		s.machines("a1 a2 a3", bound, cpu(4), of("v"), rack("ra"), at(1))
		s.machines("b1 b2 b3 b4", bound, cpu(4), of("v"), rack("rb"), at(1))
		s.run().does("Preempt a1 0", "Preempt a2 0", "Preempt a3 0").gathers(n, "ra")
	}},
	{"FreeAndFreedTogetherCover", func(s *scene) {
		n := s.gang(100, 12)
		s.need("v", 1, cpu(40))
		s.machines("a1 a2", bound, cpu(4), of("v"), rack("ra"), at(1))
		s.machine("a3", spec, cpu(4), rack("ra"))
		s.run().does("Provision a3 0", "Preempt a1 0", "Preempt a2 0").gathers(n, "ra")
	}},
	{"WhatPhase1AcquiredElsewhereIsWithheld", func(s *scene) {
		n := s.gang(100, 12)
		s.need("v", 1, cpu(40))
		s.machine("a0", bound, cpu(4), of("c"), rack("ra"))
		s.machine("a1", idle, cpu(4), rack("ra"))
		s.machines("b1 b2 b3", bound, cpu(4), of("v"), rack("rb"), at(1))
		s.run().does("Preempt b1 0", "Preempt b2 0", "Preempt b3 0").gathers(n, "rb").claims(n, "a0").lacks(n, cpu(8))
	}},
	{"TheDomainThatCouldHoldMostIsTriedFirst", func(s *scene) {
		n := s.gang(100, 12)
		s.need("v", 1, cpu(40))
		s.in.Options.TopDomains = 1
		s.machines("a1 a2", bound, cpu(4), of("v"), rack("ra"), at(1))
		s.machines("b1 b2 b3", bound, cpu(4), of("v"), rack("rb"), at(1))
		s.run().does("Preempt b1 0", "Preempt b2 0", "Preempt b3 0").gathers(n, "rb")
	}},
	{"UnneededVictimsOfAGangAreGivenBack", func(s *scene) {
		s.gang(100, 12)
		s.need("v", 1, cpu(4))
		s.need("w", 2, cpu(8))
		s.machine("o", bound, cpu(4), of("c"), rack("ra"))
		s.machine("small", bound, cpu(4), of("v"), rack("ra"))
		s.machine("large", bound, cpu(8), of("w"), rack("ra"))
		s.run().does("Preempt large 0")
	}},
	{"OwnMachinesThatALowerRankHoldsCount", func(s *scene) {
		// ra is where phase 1 began; rb holds a machine of the cluster that
		// its lower row keeps, and covers with it.
		n := s.gang(100, 12)
		low := s.need("c", 5, cpu(4), requires(rackKey, model.In, "rb"))
		s.need("v", 1, cpu(40))
		s.machines("a1 a2", idle, cpu(4), rack("ra"))
		s.machine("b0", bound, cpu(4), of("c"), rack("rb"))
		s.machines("b1 b2", bound, cpu(4), of("v"), rack("rb"), at(1))
		s.run().does("Preempt b1 0", "Preempt b2 0").gathers(n, "rb").claims(low, "b0")
	}},
	{"OwnMachinesThatAHigherRankHoldsDoNot", func(s *scene) {
		n := s.gang(100, 12)
		s.need("c", 200, cpu(4), requires(rackKey, model.In, "rb"))
		s.need("v", 1, cpu(40))
		s.machine("b0", bound, cpu(4), of("c"), rack("rb"))
		s.machines("b1 b2", bound, cpu(4), of("v"), rack("rb"), at(1))
		s.run().does().unmet(n, reference.UnmetPreemptionExhausted)
	}},
	{"APinnedGangPreemptsOnlyInItsDomain", func(s *scene) {
		n := s.gang(100, 12)
		s.need("v", 1, cpu(40))
		s.machine("b0", draining, cpu(4), of("v"), rack("rb"), held(n))
		s.machine("b1", bound, cpu(4), of("v"), rack("rb"), at(1))
		s.machines("a1 a2 a3", bound, cpu(4), of("v"), rack("ra"), at(1))
		s.run().does().gathers(n, "rb").awaits(n, cpu(4)).unmet(n, reference.UnmetPreemptionExhausted)
	}},
	{"AGangWhoseVictimsDrainPreemptsNoMore", func(s *scene) {
		n := s.gang(100, 12)
		s.need("v", 1, cpu(40))
		s.machine("b0", idle, cpu(4), rack("rb"), held(n))
		s.machines("b1 b2", draining, cpu(4), of("v"), rack("rb"), held(n))
		s.machines("a1 a2 a3 b3", bound, cpu(4), of("v"), rack("ra"), at(1))
		s.run().does("Bootstrap b0 0").awaits(n, cpu(8)).unmet(n, reference.UnmetAwaitingDrain)
	}},
	{"AParkedGangDoesNotPreempt", func(s *scene) {
		n := s.gang(100, 8, parked)
		s.need("v", 1, cpu(40))
		s.machines("a1 a2", bound, cpu(4), of("v"), rack("ra"), at(1))
		s.run().does().unmet(n, reference.UnmetParked)
	}},
	{"AFoldPreemptsLikeAPlainNeed", func(s *scene) {
		n := s.need("c", 100, cpu(4), same(rackKey), group("a"))
		s.need("c", 100, cpu(4), same(rackKey), group("b"))
		s.need("v", 1, cpu(4))
		s.machine("i", idle, cpu(4), rack("ra"))
		s.machine("v1", bound, cpu(4), of("v"), rack("rb"), at(1))
		s.run().does("Bootstrap i 0", "Preempt v1 0").unmet(n, reference.UnmetAwaitingDrain)
	}},
}
