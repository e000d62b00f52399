package contract

import (
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/reference"
)

// searchRules are about the budget of the search for plans.
var searchRules = []rule{
	{"TheSearchEndsWithWhatItIsOffered", func(s *scene) {
		s.gang(50, 8)
		s.gang(50, 8)
		s.threeRacks()
		s.in.Options.SearchUnits = 6 // three racks of two machines for the first gang
		s.run().does("Preempt r1a 0", "Preempt r1b 0").met(3, 6)
		s.in.Options.SearchUnits = 7
		s.run().does("Preempt r1a 0", "Preempt r1b 0", "Preempt r2a 1", "Preempt r2b 1").met(5, 10)
	}},
	{"WhoeverMeetsTheEndIsSearchedToTheEnd", func(s *scene) {
		s.gang(50, 8)
		s.threeRacks()
		s.in.Options.SearchPairs, s.in.Options.SearchUnits = 1, 1
		s.run().does("Preempt r1a 0", "Preempt r1b 0").met(3, 6)
	}},
	{"WhatTopDomainsLeavesOutIsMetToo", func(s *scene) {
		s.gang(50, 8)
		s.threeRacks()
		s.in.Options.TopDomains = 1
		s.run().does("Preempt r1a 0", "Preempt r1b 0").met(3, 6)
	}},
	{"ADomainThatCannotHoldTheNeedIsNotMet", func(s *scene) {
		s.machine("i", idle, cpu(4), rack("r2"))
		s.gang(50, 12)
		s.threeRacks()
		s.run().does("Bootstrap i 0", "Preempt r2a 0", "Preempt r2b 0").met(1, 2) // what is free is not offered
	}},
	{"APlainNeedIsSearchedForAfterTheEnd", func(s *scene) {
		s.gang(50, 8)
		s.need("p", 40, cpu(4))
		s.gang(30, 8)
		s.threeRacks()
		s.in.Options.SearchUnits = 1
		s.run().does("Preempt r1a 0", "Preempt r1b 0", "Preempt r2a 1").met(3, 6)
	}},
	{"APartOfADomainIsMetByItself", func(s *scene) {
		s.in.Options.Nested = []string{model.KeyZone, rackKey}
		s.need("t", 1000, cpu(8), unit(cpu(4)), same(model.KeyZone), group("top"))
		s.holder(1)
		for _, r := range []string{"r1", "r2"} {
			s.machine(r+"a", bound, cpu(4), of("v"), rack(r), zone("z"))
			s.machine(r+"b", bound, cpu(4), of("v"), rack(r), zone("z"))
		}
		s.run().does("Preempt r1a 0", "Preempt r1b 0").met(2, 4) // and the zone not at all
	}},
	{"TheSearchBetweenTenantsCountsInTheSameBudget", func(s *scene) {
		s.tenants("t", cpu(16), "v", cpu(8))
		n := s.need("t", 1, cpu(8), unit(cpu(4)), same(model.KeyZone), group("a"))
		s.need("t", 1, cpu(8), unit(cpu(4)), same(model.KeyZone), group("b"))
		s.need("v", 1, cpu(24), unit(cpu(4)))
		s.machines("a1 a2 a3 a4 a5 a6", bound, cpu(4), of("v"), zone("z"))
		s.run().does("Preempt a1 0", "Preempt a2 0", "Preempt a3 1", "Preempt a4 1").met(2, 10)
		s.in.Options.SearchUnits = 6
		s.run().does("Preempt a1 0", "Preempt a2 0").met(1, 6).unmet(n, reference.UnmetAwaitingDrain)
	}},
	{"BetweenTenantsWhatWouldExceedTheTakersShareIsNotOffered", func(s *scene) {
		s.tenants("t", cpu(2), "v", cpu(8))
		s.need("t", 1, cpu(8), unit(cpu(4)), same(model.KeyZone), group("a"))
		s.need("v", 1, cpu(24), unit(cpu(4)))
		s.machines("a1 a2 a3 a4 a5 a6", bound, cpu(4), of("v"), zone("z"))
		s.run().does().met(0, 0)
	}},
}

// threeRacks adds three racks of two machines that serve somebody of priority 1.
func (s *scene) threeRacks() {
	s.holder(1)
	for _, r := range []string{"r1", "r2", "r3"} {
		s.machine(r+"a", bound, cpu(4), of("v"), rack(r))
		s.machine(r+"b", bound, cpu(4), of("v"), rack(r))
	}
}

// met checks what the search has met.
func (o *outcome) met(pairs, units int) *outcome {
	o.Helper()
	if o.plan.SearchPairs != pairs || o.plan.SearchUnits != units {
		o.Errorf("the search has met %d pairs and %d machines, want %d and %d", o.plan.SearchPairs, o.plan.SearchUnits, pairs, units)
	}
	return o
}
