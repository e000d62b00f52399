package contract

import (
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/reference"
)

// pinRules: what chooses the domain of a Need, and for how long.
var pinRules = []rule{
	{"LiveReservationsPinTheDomain", func(s *scene) {
		n := s.gang(10, 16)
		s.machines("a1 a2 a3", idle, cpu(4), rack("ra"))
		s.machine("b1", idle, cpu(4), rack("rb"), held(n))
		s.machine("b2", draining, cpu(4), of("v"), rack("rb"), held(n))
		s.run().gathers(n, "rb").claims(n, "b1").lacks(n, cpu(12)).couldCover(n, true)
	}},
	{"ADrainingReservationPinsByItself", func(s *scene) {
		n := s.gang(10, 12)
		s.machines("a1 a2", idle, cpu(4), rack("ra"))
		s.machine("b1", draining, cpu(4), of("v"), rack("rb"), held(n))
		s.run().gathers(n, "rb").claims(n, "").does()
	}},
	{"OneWhoseDrainHasNotBegunPins", func(s *scene) {
		n := s.gang(10, 12)
		s.need("v", 5, cpu(4))
		s.machines("a1 a2", idle, cpu(4), rack("ra"))
		s.machine("b1", bound, cpu(4), of("v"), rack("rb"), held(n))
		s.run().gathers(n, "rb").claims(n, "").does()
	}},
	{"OneThatIsBeingCreatedPins", func(s *scene) {
		n := s.gang(10, 12)
		s.machines("a1 a2", idle, cpu(4), rack("ra"))
		s.machine("b1", creating, cpu(4), rack("rb"), held(n))
		s.run().gathers(n, "rb").claims(n, "b1").does()
	}},
	{"ThatOfAnotherStampDoesNot", func(s *scene) {
		n := s.gang(10, 12)
		other := s.need("c", 5, cpu(4), group("other"))
		s.machines("a1 a2", idle, cpu(4), rack("ra"))
		s.machine("b1", creating, cpu(4), rack("rb"), held(other))
		s.run().gathers(n, "ra").claims(n, "a1 a2")
	}},
	{"TheDomainOfMostPinningMachinesPins", func(s *scene) {
		n := s.gang(10, 16)
		s.machine("a1", idle, cpu(4), rack("ra"), held(n))
		s.machine("b1", idle, cpu(4), rack("rb"), held(n))
		s.machine("b2", creating, cpu(4), rack("rb"), held(n))
		s.run().gathers(n, "rb").claims(n, "b2 b1")
	}},
	{"AmongEqualsTheSmallerValuePins", func(s *scene) {
		n := s.gang(10, 12)
		s.machine("b1", idle, cpu(4), rack("rb"), held(n))
		s.machine("a1", idle, cpu(4), rack("ra"), held(n))
		s.run().gathers(n, "ra")
	}},
	{"ReservationsWithoutTheAttributeDoNotPin", func(s *scene) {
		n := s.gang(10, 8)
		s.machine("x", idle, cpu(4), held(n))
		s.machines("a1 a2", idle, cpu(4), rack("ra"))
		s.run().gathers(n, "ra").satisfied(n)
	}},
	{"ExpiredReservationsDoNotPin", func(s *scene) {
		n := s.gang(10, 12)
		s.machines("a1 a2", idle, cpu(4), rack("ra"))
		s.machine("b1", idle, cpu(4), rack("rb"), held(n), until(-1))
		s.run().gathers(n, "ra").ends("b1")
	}},
	{"WhatIsTooSmallDoesNotPin", func(s *scene) {
		n := s.gang(10, 12)
		s.machines("a1 a2", idle, cpu(4), rack("ra"))
		s.machine("b1", idle, cpu(2), rack("rb"), held(n))
		s.machine("b2", draining, cpu(2), of("v"), rack("rb"), held(n))
		s.run().gathers(n, "ra").claims(n, "a1 a2")
	}},
	{"WhatDoesNotMatchDoesNotPin", func(s *scene) {
		n := s.gang(10, 12, requires("k", model.DoesNotExist))
		s.machines("a1 a2", idle, cpu(4), rack("ra"))
		s.machine("b1", draining, cpu(4), of("v"), rack("rb"), label("k", "v"), held(n))
		s.run().gathers(n, "ra").claims(n, "a1 a2")
	}},
	{"WhatHasNothingThatIsWantedDoesNotPin", func(s *scene) {
		n := s.need("c", 10, cpu(12), same(rackKey), group("g"))
		s.machines("a1 a2", idle, cpu(4), rack("ra"))
		s.machine("b1", draining, vec("gpu", 4), of("v"), rack("rb"), held(n))
		s.run().gathers(n, "ra").claims(n, "a1 a2")
	}},
	{"WhatAnotherRowOfTheStampHasClaimedDoesNotPin", func(s *scene) {
		a := s.gang(10, 8)
		b := s.gang(10, 12)
		s.machines("a1 a2", idle, cpu(4), rack("ra"))
		s.machines("b1 b2", idle, cpu(4), rack("rb"), held(a))
		s.run().claims(a, "b1 b2").gathers(b, "ra").claims(b, "a1 a2")
	}},
	{"WhatItLeavesPinsTheOther", func(s *scene) {
		a := s.gang(10, 8)
		b := s.gang(10, 12)
		s.machines("a1 a2", idle, cpu(4), rack("ra"))
		s.machines("b1 b2 b3", idle, cpu(4), rack("rb"), held(a))
		s.run().claims(a, "b1 b2").gathers(b, "rb").claims(b, "b3")
	}},
	{"APinEndsWhereAnotherDomainCoversAndThisOneDoesNot", func(s *scene) {
		n := s.gang(10, 12)
		s.machines("a1 a2 a3", idle, cpu(4), rack("ra"))
		s.machine("b1", idle, cpu(4), rack("rb"), held(n))
		s.machine("b2", draining, cpu(4), of("v"), rack("rb"), held(n))
		s.run().gathers(n, "ra").claims(n, "a1 a2 a3").satisfied(n).ends("b1 b2")
	}},
	{"SoDoesThatOfWhatIsBeingCreated", func(s *scene) {
		n := s.gang(10, 12)
		s.machines("a1 a2 a3", idle, cpu(4), rack("ra"))
		s.machine("b1", creating, cpu(4), rack("rb"), held(n))
		s.run().gathers(n, "ra").claims(n, "a1 a2 a3").satisfied(n)
	}},
	{"APinHoldsWhereTheOthersCoverOnlyTheMinimum", func(s *scene) {
		n := s.gang(10, 12, least(cpu(8)))
		s.machines("a1 a2", idle, cpu(4), rack("ra"))
		s.machine("b1", idle, cpu(4), rack("rb"), held(n))
		s.run().gathers(n, "rb").claims(n, "b1")
	}},
	{"APinHoldsWhileWhatDrainsCompletesIt", func(s *scene) {
		n := s.gang(10, 12)
		s.machines("a1 a2 a3", idle, cpu(4), rack("ra"))
		s.machine("b1", idle, cpu(4), rack("rb"), held(n))
		s.machine("b2", draining, cpu(4), of("v"), rack("rb"), held(n))
		s.machine("b3", spec, cpu(4), rack("rb"), price(9))
		s.run().gathers(n, "rb").claims(n, "b1 b3").lacks(n, cpu(4))
	}},
	{"APinHoldsWhileWhatIsBoundCompletesIt", func(s *scene) {
		n := s.gang(10, 12)
		s.machines("a1 a2 a3", idle, cpu(4), rack("ra"))
		s.machine("b1", draining, cpu(4), of("v"), rack("rb"), held(n))
		s.machines("b2 b3", bound, cpu(4), of("c"), rack("rb"))
		s.run().gathers(n, "rb").claims(n, "b2 b3").lacks(n, cpu(4))
	}},
	{"WhatIsHeldForAHigherRankCompletesNothing", func(s *scene) {
		high := s.need("k", 900, cpu(4), requires("k", model.Exists))
		n := s.gang(10, 12)
		s.machines("a1 a2 a3", idle, cpu(4), rack("ra"))
		s.machine("b1", idle, cpu(4), rack("rb"), held(n))
		s.machine("b2", draining, cpu(4), of("v"), rack("rb"), held(n))
		s.machine("b3", idle, cpu(4), rack("rb"), held(high))
		s.run().gathers(n, "ra").claims(n, "a1 a2 a3")
	}},
	{"APinEndsWhereItsOwnElsewhereCover", func(s *scene) {
		n := s.gang(10, 8)
		s.machines("b1 b2", idle, cpu(4), rack("rb"), held(n))
		s.machines("a1 a2", bound, cpu(4), of("c"), rack("ra"), serving(n))
		s.run().gathers(n, "ra").claims(n, "a1 a2").does().satisfied(n)
	}},
	{"WhatIsNotItsOwnDoesNotEndIt", func(s *scene) {
		n := s.gang(10, 8)
		s.machines("b1 b2", idle, cpu(4), rack("rb"), held(n))
		s.machines("a1 a2", bound, cpu(4), of("c"), rack("ra"))
		s.run().gathers(n, "rb").claims(n, "b1 b2")
	}},
	{"AParkedNeedStaysWhereNothingItIsCreditedCovers", func(s *scene) {
		n := s.gang(10, 12, parked)
		s.machines("a1 a2 a3", idle, cpu(4), rack("ra"))
		s.machine("b1", idle, cpu(4), rack("rb"), held(n))
		s.run().gathers(n, "rb").claims(n, "").does()
	}},
	{"OneOfWhoseMachinesAHigherRankHasTakenEnds", func(s *scene) {
		n := s.gang(10, 12)
		high := s.need("h", 99, cpu(4), requires("k", model.Exists))
		next := s.need("x", 20, cpu(4), requires("l", model.Exists))
		s.machine("a1", idle, cpu(4), rack("ra"), label("k", ""), held(n))
		s.machine("a2", idle, cpu(4), rack("ra"), label("l", ""), held(n))
		s.machines("b1 b2", idle, cpu(4), rack("rb"), price(9))
		s.run().claims(high, "a1").claims(next, "a2").gathers(n, "rb").claims(n, "b1 b2").ends("a1 a2")
	}},
	{"ItsSiblingsAreFreeForThoseBelowItsRank", func(s *scene) {
		n := s.need("c", 10, cpu(8), requires("none", model.Exists))
		high := s.need("h", 99, cpu(4), requires("k", model.Exists))
		low := s.need("x", 5, cpu(4))
		s.machine("a1", idle, cpu(4), label("k", ""), held(n))
		s.machine("a2", idle, cpu(4), held(n))
		s.run().claims(high, "a1").claims(low, "a2").ends("a1 a2")
	}},
	{"WhatIsBeingCreatedGoesOn", func(s *scene) {
		n := s.need("c", 10, cpu(8), group("g"))
		s.need("h", 99, cpu(4), requires("k", model.Exists))
		s.machine("a1", idle, cpu(4), label("k", ""), held(n))
		s.machine("a2", creating, cpu(4), held(n))
		s.machine("a3", idle, cpu(4), held(n))
		s.run().claims(n, "a2 a3").satisfied(n).ends("a1 a3")
	}},
	{"WhatIsHeldForASatisfiedOwnerHoldsInThePass", func(s *scene) {
		n := s.need("c", 10, cpu(4))
		low := s.need("x", 5, cpu(4))
		s.machine("own", bound, cpu(4), of("c"), serving(n))
		s.machine("a1", idle, cpu(4), held(n))
		s.run().satisfied(n).claims(low, "").unmet(low, reference.UnmetPriorityStarved).ends("a1")
	}},
}
