package contract

import (
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/reference"
)

// lateBound labels a machine as one that is made when it is bound.
var lateBound = label(model.LabelLateBound, "true")

var lateBoundRules = []rule{
	{"AnIdleLateBoundMachineIsChosenAmongTheSpeculative", func(s *scene) {
		n := s.need("c", 10, cpu(1))
		s.machine("large", idle, cpu(96), price(4.608), lateBound)
		s.machine("small", spec, cpu(2), price(0.096))
		s.run().claims(n, "small").does("Provision small 0", "Delete large")
	}},
	{"TheCheaperOneIsBoundAtOnce", func(s *scene) {
		n := s.need("c", 10, cpu(1))
		s.machine("late", idle, cpu(2), price(0.096), lateBound)
		s.machine("slot", spec, cpu(96), price(4.608))
		o := s.run().claims(n, "late").does("Bootstrap late 0")
		if r := o.action("late").Reason; r != reference.ReasonIdle {
			s.Errorf("the reason is %s", r)
		}
	}},
	{"EqualCostsGoByPriceThenID", func(s *scene) {
		n := s.need("c", 10, cpu(12), interruption(model.BucketOneDollar))
		s.machine("a", spec, cpu(4), price(2))
		s.machine("b", idle, cpu(4), price(2), lateBound)
		s.machine("c", idle, cpu(4), price(1.75), risk(0.25), lateBound)
		s.run().claims(n, "c a b").does("Bootstrap c 0", "Bootstrap b 0", "Provision a 0")
	}},
	{"ItsCostIsTheEffectiveOne", func(s *scene) {
		n := s.need("c", 10, cpu(4), interruption(5))
		s.machine("late", idle, cpu(4), price(1), risk(0.5), lateBound)
		s.machine("slot", spec, cpu(4), price(2))
		s.run().claims(n, "slot").does("Provision slot 0", "Delete late")
	}},
	{"OwnedMachinesComeBefore", func(s *scene) {
		n := s.need("c", 10, cpu(4))
		s.machine("late", idle, cpu(4), price(1), lateBound)
		s.machine("owned", idle, cpu(4), price(9))
		s.run().claims(n, "owned").does("Bootstrap owned 0", "Delete late")
	}},
	{"OneThatIsReservedForTheNeedComesFirst", func(s *scene) {
		n := s.need("c", 10, cpu(4))
		s.machine("late", idle, cpu(4), price(9), lateBound, held(n))
		s.machine("owned", idle, cpu(4), price(1))
		s.machine("slot", spec, cpu(4), price(1))
		s.run().claims(n, "late").does("Bootstrap late 0")
	}},
	{"OneThatIsReservedComesBeforeWhatLowerNeedsHave", func(s *scene) {
		low := s.need("c", 10, cpu(4))
		high := s.need("c", 20, cpu(4))
		s.machine("a", bound, cpu(4), of("c"), serving(low))
		s.machine("late", idle, cpu(4), price(9), lateBound, held(high))
		s.run().claims(high, "late").claims(low, "a").does("Bootstrap late 1")
	}},
	{"ReservedOnesGoInKeepOrderWithOwnedOnes", func(s *scene) {
		n := s.need("c", 10, cpu(12))
		s.machine("a", idle, cpu(4), price(2), held(n))
		s.machine("b", idle, cpu(4), price(1), lateBound, held(n))
		s.machine("d", idle, cpu(4), price(3), lateBound, held(n))
		s.run().claims(n, "b a d").does("Bootstrap b 0", "Bootstrap a 0", "Bootstrap d 0")
	}},
	{"WhatIsReservedForALowerRankComesAfterAllSpeculative", func(s *scene) {
		low := s.need("a", 10, cpu(4))
		high := s.need("b", 20, cpu(8))
		s.machine("late", idle, cpu(4), price(1), lateBound, held(low))
		s.machine("slot", spec, cpu(4), price(9))
		s.machine("free", idle, cpu(4), price(8), lateBound)
		s.run().claims(high, "free slot").claims(low, "late").does("Bootstrap free 1", "Bootstrap late 0", "Provision slot 1")
	}},
	{"WhatIsReservedForALowerRankIsTakenWhenNothingElseIsLeft", func(s *scene) {
		low := s.need("a", 10, cpu(4))
		high := s.need("b", 20, cpu(8))
		s.machine("late", idle, cpu(4), price(1), lateBound, held(low))
		s.machine("slot", spec, cpu(4), price(9))
		s.run().claims(high, "slot late").claims(low, "").does("Bootstrap late 1", "Provision slot 1").ends("late")
	}},
	{"OfThoseReservedTheLowestOwnersComesFirst", func(s *scene) {
		lowest := s.need("a", 1, cpu(4))
		low := s.need("b", 2, cpu(4))
		high := s.need("c", 20, cpu(4))
		s.machine("x", idle, cpu(4), price(1), lateBound, held(low))
		s.machine("y", idle, cpu(4), price(9), lateBound, held(lowest))
		s.run().claims(high, "y").claims(low, "x").claims(lowest, "")
	}},
	{"ItIsLeftToOwnersOfHigherRank", func(s *scene) {
		high := s.need("a", 20, cpu(4))
		low := s.need("b", 10, cpu(4))
		s.machine("late", idle, cpu(4), price(1), lateBound, held(high))
		s.run().claims(high, "late").claims(low, "").lacks(low, cpu(4))
	}},
	{"BindsComeInTheOrderOfRanks", func(s *scene) {
		low := s.need("a", 10, cpu(4))
		high := s.need("b", 20, cpu(4), requires("late", model.Exists))
		s.machine("owned", idle, cpu(4))
		s.machine("late", idle, cpu(4), lateBound, label("late", ""))
		s.run().claims(high, "late").claims(low, "owned").does("Bootstrap late 1", "Bootstrap owned 0")
	}},
	{"OneThatNobodyWantsIsDeletedAtOnce", func(s *scene) {
		s.in.Options.Release = reference.Options{}.Release
		for i, c := range []model.CapacityType{model.CapacityUnspecified, model.BareMetal, model.Reserved, model.OnDemand, model.Spot} {
			s.machine(string(rune('a'+i)), idle, cpu(4), lateBound, capacity(c, 0))
		}
		s.machine("owned", idle, cpu(4), capacity(model.OnDemand, time.Hour))
		s.run().does("Delete a", "Delete b", "Delete c", "Delete d", "Delete e")
	}},
	{"OneThatIsReservedIsNotDeleted", func(s *scene) {
		n := s.need("c", 10, cpu(4))
		s.machine("own", bound, cpu(4), of("c"), serving(n))
		s.machine("late", idle, cpu(4), lateBound, held(n))
		s.run().does().ends("late") // and in the next cycle it is deleted
	}},
	{"TheLabelSaysTrue", func(s *scene) {
		n := s.need("c", 10, cpu(4))
		s.machine("no", idle, cpu(4), price(9), label(model.LabelLateBound, "false"))
		s.machine("slot", spec, cpu(4), price(1))
		s.run().claims(n, "no").does("Bootstrap no 0")
	}},
	{"TheLabelOfABoundMachineMeansNothing", func(s *scene) {
		n := s.need("c", 10, cpu(4))
		s.machine("own", bound, cpu(4), of("c"), price(9), lateBound, serving(n))
		s.machine("slot", spec, cpu(4), price(1))
		s.run().claims(n, "own").does()
	}},
	{"ItCountsInADomain", func(s *scene) {
		n := s.need("c", 10, cpu(8), unit(cpu(4)), same(rackKey))
		s.machine("x1", idle, cpu(4), price(5), rack("x"), lateBound)
		s.machine("x2", spec, cpu(4), price(1), rack("x"))
		s.machine("y1", idle, cpu(4), price(1), rack("y"), lateBound)
		s.run().gathers(n, "x").claims(n, "x2 x1").does("Bootstrap x1 0", "Provision x2 0", "Delete y1")
	}},
	{"ItMakesANeedFoldable", func(s *scene) {
		a := s.need("c", 10, cpu(4), same(rackKey), group("a"))
		b := s.need("c", 10, cpu(4), same(rackKey), group("b"))
		s.machine("late", idle, cpu(8), rack("x"), lateBound)
		s.run().satisfied(a).satisfied(b).claims(a, "late")
	}},
	{"UnderHardSpreadItIsOneOfTheSpeculative", func(s *scene) {
		n := s.need("c", 10, cpu(12), unit(cpu(4)), hard(model.KeyZone, 1))
		s.machine("a1", idle, cpu(4), zone("a"), price(3), lateBound)
		s.machine("a2", spec, cpu(4), zone("a"), price(1))
		s.machine("b1", idle, cpu(4), zone("b"), price(2), lateBound)
		s.machine("b2", spec, cpu(4), zone("b"), price(4))
		s.run().claims(n, "a2 b1 a1").does("Bootstrap b1 0", "Bootstrap a1 0", "Provision a2 0")
	}},
	{"ASuperfluousOneIsGivenBack", func(s *scene) {
		first := s.need("c", 20, vec("cpu", 4, "gpu", 1))
		second := s.need("d", 10, cpu(2))
		s.machine("a", idle, cpu(2), price(1), lateBound)
		s.machine("b", spec, vec("cpu", 4, "gpu", 1), price(2))
		s.run().claims(first, "b").claims(second, "a").does("Bootstrap a 1", "Provision b 0")
	}},
}
