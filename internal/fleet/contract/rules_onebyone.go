package contract

import (
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/reference"
)

// oneByOneRules hold where victims are taken one by one, and not by gangs.
var oneByOneRules = []rule{
	{"AmongExcessTheHighestStampIsGivenBack", func(s *scene) {
		s.need("p", 50, vec("cpu", 8, "gpu", 1))
		s.need("x", 45, cpu(4))
		s.machine("a", bound, cpu(4), of("w"), at(40))
		s.machine("b", bound, cpu(4), of("w"), at(30), worth(26, 26))
		s.machine("gpu", bound, vec("cpu", 4, "gpu", 1), of("x"))
		s.run().does("Preempt b 0", "Preempt gpu 0", "Reclaim a")
	}},
	{"AtMostTopDomainsAreTried", func(s *scene) {
		n := s.gang(100, 8)
		s.need("v", 1, cpu(8), requires(rackKey, model.In, "rb"))
		s.in.Options.TopDomains = 1
		s.machine("a1", idle, cpu(4), rack("ra"))
		s.machines("b1 b2", bound, cpu(4), of("v"), rack("rb"), at(1))
		s.run().does("Bootstrap a1 0").gathers(n, "ra").unmet(n, reference.UnmetPreemptionExhausted)
	}},
	{"WithheldMachinesAreClaimedByNobody", func(s *scene) {
		s.gang(100, 8)
		s.need("v", 1, cpu(40))
		s.machine("a1", idle, cpu(4), rack("ra"), capacity(model.Spot, time.Hour))
		s.machines("b1 b2", bound, cpu(4), of("v"), rack("rb"), at(1))
		s.run().does("Preempt b1 0", "Preempt b2 0")
	}},
	{"AGangThatLosesAMachineNowDoesNotCountIt", func(s *scene) {
		// top takes a0 from the gang; with it gone the rack cannot cover.
		top := s.need("t", 500, cpu(4), requires("k", model.Exists))
		n := s.gang(100, 12)
		s.need("v", 1, cpu(40))
		s.machine("a0", bound, cpu(4), of("c"), rack("ra"), label("k", "1"))
		s.machines("a1 a2", bound, cpu(4), of("v"), rack("ra"), at(1))
		s.run().does("Preempt a0 0").unmet(top, reference.UnmetAwaitingDrain).claims(n, "a0")
	}},
}
