package contract

import (
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/reference"
)

// unmetRules: the first reason that holds, in order.
var unmetRules = []rule{
	{"ParkedBeforeAll", func(s *scene) {
		n := s.need("c", 10, cpu(4), parked)
		s.run().unmet(n, reference.UnmetParked)
	}},
	{"ParkedBeforeAResourceThatNobodyOffers", func(s *scene) {
		n := s.need("c", 10, vec("cpu", 4, "example.com/none", 1), same(rackKey), parked)
		s.machine("a", idle, cpu(4), rack("r"))
		s.run().unmet(n, reference.UnmetParked)
	}},
	{"NoMatchingSupplyWhenNothingUsableExists", func(s *scene) {
		n := s.need("c", 10, cpu(4), unit(cpu(4)))
		s.machines("a b", idle, cpu(3))
		s.machine("f", model.Failed, cpu(4))
		s.machine("x", model.Deleting, cpu(4))
		s.run().unmet(n, reference.UnmetNoMatchingSupply)
	}},
	{"NoMatchingSupplyWhenNobodyOffersAResource", func(s *scene) {
		n := s.need("c", 50, vec("cpu", 8, "example.com/none", 1), unit(cpu(4)))
		s.holder(10)
		s.machines("a b", bound, cpu(4), of("v"))
		s.run().does("Preempt a 0", "Preempt b 0").unmet(n, reference.UnmetNoMatchingSupply)
	}},
	{"NoMatchingSupplyWhenNoMatchHoldsAResource", func(s *scene) {
		n := s.need("c", 10, vec("cpu", 4, "gpu", 1), unit(cpu(4)), requires("k", model.Exists))
		s.machine("a", idle, cpu(4), label("k", "v"))
		s.machine("g", idle, vec("cpu", 4, "gpu", 8))
		s.machine("s", idle, vec("cpu", 2, "gpu", 8), label("k", "v"))
		s.run().claims(n, "a").unmet(n, reference.UnmetNoMatchingSupply)
	}},
	{"NoMatchingSupplyWhenNoPermittedDomainHoldsAResource", func(s *scene) {
		n := s.need("c", 10, vec("cpu", 8, "gpu", 1), unit(cpu(4)), same(rackKey, "r"))
		s.machines("a b", idle, cpu(4), rack("r"))
		s.machine("g", idle, vec("cpu", 4, "gpu", 8), rack("s"))
		s.run().unmet(n, reference.UnmetNoMatchingSupply)
	}},
	{"AMachineInUseElsewhereIsSupply", func(s *scene) {
		n := s.need("c", 10, cpu(4))
		s.holder(10)
		s.machine("a", binding, cpu(4), of("v"))
		s.run().unmet(n, reference.UnmetPriorityStarved)
	}},
	{"AwaitingDrainWhenVictimsCoverTheRest", func(s *scene) {
		n := s.need("c", 50, cpu(8), same(rackKey))
		s.holder(10)
		s.machines("a b", bound, cpu(4), of("v"), rack("r"))
		s.run().unmet(n, reference.UnmetAwaitingDrain)
	}},
	{"AwaitingDrainWhenWhatDrainsCoversTheRest", func(s *scene) {
		n := s.need("c", 50, cpu(4))
		s.machine("d", draining, cpu(4), of("v"), held(n))
		s.run().unmet(n, reference.UnmetAwaitingDrain)
	}},
	{"PreemptionExhaustedBeforeTopology", func(s *scene) {
		n := s.need("c", 50, cpu(8), same(rackKey))
		s.holder(10)
		s.machine("a", bound, cpu(4), of("v"), rack("r"))
		s.run().unmet(n, reference.UnmetPreemptionExhausted)
	}},
	{"PreemptionExhaustedBeforeInsufficientSupply", func(s *scene) {
		n := s.need("c", 50, cpu(8))
		s.holder(10)
		s.machine("a", bound, cpu(4), of("v"))
		s.run().does("Preempt a 0").unmet(n, reference.UnmetPreemptionExhausted)
	}},
	{"TopologyWhenNoDomainCanHoldIt", func(s *scene) {
		n := s.need("c", 50, cpu(8), same(rackKey))
		s.machine("a", idle, cpu(4), rack("r"))
		s.machine("b", idle, cpu(4), rack("s"))
		s.run().unmet(n, reference.UnmetTopology)
	}},
	{"NotTopologyWhenOthersHoldADomain", func(s *scene) {
		s.need("h", 99, cpu(8), unit(cpu(4)))
		n := s.need("c", 50, cpu(8), same(rackKey))
		s.machines("a1 a2", bound, cpu(4), of("h"), rack("r"))
		s.machine("b", idle, cpu(4), rack("s"))
		s.run().unmet(n, reference.UnmetPriorityStarved)
	}},
	{"NotTopologyWhenADomainHoldsItInAllStates", func(s *scene) {
		n := s.need("c", 50, cpu(20), unit(cpu(4)), same(rackKey))
		s.machine("a1", spec, cpu(4), rack("r"))
		s.machine("a2", creating, cpu(4), rack("r"), heldBy("x", 5))
		s.machine("a3", idle, cpu(4), rack("r"))
		s.machine("a4", binding, cpu(4), of("v"), rack("r"))
		s.machine("a5", draining, cpu(4), of("v"), rack("r"))
		s.run().unmet(n, reference.UnmetPriorityStarved)
	}},
	{"TopologyCountsOnlyPermittedDomains", func(s *scene) {
		n := s.need("c", 50, cpu(8), same(rackKey, "r"))
		s.machine("a", idle, cpu(4), rack("r"))
		s.machines("b1 b2", idle, cpu(4), rack("s"))
		s.run().unmet(n, reference.UnmetTopology)
	}},
	{"TopologyOfAPinnedNeedOverAllDomains", func(s *scene) {
		n := s.need("c", 50, cpu(8), same(rackKey))
		s.machine("a", idle, cpu(4), rack("r"), held(n))
		s.machine("b", idle, cpu(4), rack("s"))
		s.run().unmet(n, reference.UnmetTopology)
	}},
	{"NotTopologyOfAPinnedNeedThatAnotherDomainCouldHold", func(s *scene) {
		s.need("h", 99, cpu(8), unit(cpu(4)))
		n := s.need("c", 50, cpu(8), same(rackKey))
		s.machine("a", idle, cpu(4), rack("r"), held(n))
		s.machines("b1 b2", bound, cpu(4), of("h"), rack("s"))
		s.run().unmet(n, reference.UnmetPriorityStarved)
	}},
	{"SpreadWhenTheSkewLeftAFreeMachine", func(s *scene) {
		n := s.need("c", 50, cpu(40), hard(model.KeyZone, 1))
		s.machines("a1 a2 a3", idle, cpu(4), zone("za"))
		s.machine("b1", idle, cpu(4), zone("zb"))
		s.run().unmet(n, reference.UnmetSpread)
	}},
	{"SpreadWhenTheSkewRefusedInOneStageWhatTheNextOneReplaced", func(s *scene) {
		// After the Idle stage cpu and gpu are missing, and the skew has refused a3.
		n := s.need("c", 50, vec("cpu", 16, "gpu", 2), unit(cpu(4)), hard(model.KeyZone, 1))
		s.machines("a1 a2 a3", idle, cpu(4), zone("za"))
		s.machine("b1", idle, cpu(4), zone("zb"))
		s.machine("s1", spec, vec("cpu", 8, "gpu", 1), zone("zb"))
		s.run().claims(n, "a1 b1 s1").lacks(n, vec("gpu", 1)).unmet(n, reference.UnmetSpread)
	}},
	{"NotSpreadWhenWhatIsLeftLacksTheKey", func(s *scene) {
		n := s.need("c", 50, cpu(8), hard(model.KeyZone, 1))
		s.machines("a b", idle, cpu(4))
		s.run().claims(n, "").unmet(n, reference.UnmetPriorityStarved)
	}},
	{"InsufficientSupplyWhenAllTogetherIsNotEnough", func(s *scene) {
		n := s.need("c", 10, cpu(8), unit(cpu(4)))
		s.machine("a", idle, cpu(4))
		s.machine("b", idle, cpu(3))
		s.machine("f", model.Failed, cpu(4))
		s.machine("x", model.Deleting, cpu(4))
		s.run().lacks(n, cpu(4)).unmet(n, reference.UnmetInsufficientSupply)
	}},
	{"InsufficientSupplyWhoeverHasTheRest", func(s *scene) {
		n := s.need("c", 10, cpu(12))
		s.need("h", 50, cpu(4))
		s.machine("a", idle, cpu(4))
		s.machine("b", bound, cpu(4), of("h"))
		s.run().unmet(n, reference.UnmetInsufficientSupply)
	}},
	{"NotInsufficientSupplyWhenAllStatesTogetherAreEnough", func(s *scene) {
		n := s.need("c", 10, cpu(24), unit(cpu(4)))
		s.need("h", 50, cpu(4))
		s.machine("a", spec, cpu(4))
		s.machine("b", creating, cpu(4), heldBy("x", 5))
		s.machine("d", idle, cpu(4))
		s.machine("e", binding, cpu(4), of("v"))
		s.machine("f", bound, cpu(4), of("h"))
		s.machine("g", draining, cpu(4), of("v"))
		s.run().unmet(n, reference.UnmetPriorityStarved)
	}},
	{"InsufficientSupplyOfAFoldCountsItsSum", func(s *scene) {
		first := s.need("c", 10, cpu(4), same(rackKey), group("g"))
		second := s.need("c", 10, cpu(4), same(rackKey), group("h"))
		s.machine("a", idle, cpu(4), rack("r"))
		s.run().unmet(first, reference.UnmetInsufficientSupply).unmet(second, reference.UnmetInsufficientSupply)
	}},
	{"PriorityStarvedWhenOthersHoldWhatMatches", func(s *scene) {
		n := s.need("c", 5, cpu(4))
		s.need("d", 50, cpu(4))
		s.machine("a", idle, cpu(4))
		s.run().unmet(n, reference.UnmetPriorityStarved)
	}},
	{"PriorityStarvedWhenWhatIsMissingIsHeldForAnother", func(s *scene) {
		n := s.need("c", 5, cpu(4))
		s.machine("a", idle, cpu(4), heldBy("silent", 50), until(time.Minute))
		s.run().unmet(n, reference.UnmetPriorityStarved)
	}},
	{"ASatisfiedNeedHasNone", func(s *scene) {
		n := s.need("c", 5, cpu(4))
		s.machine("a", idle, cpu(4))
		s.run().unmet(n, "")
	}},
}
