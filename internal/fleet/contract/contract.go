package contract

import (
	"testing"

	"github.com/tonnage/tonnage/engine/reference"
)

// Decide is an implementation of the contract.
type Decide func(reference.Input) reference.Plan

// rule is one sentence and the world that shows it.
type rule struct {
	name string
	show func(*scene)
}

// chapters are the rules in the order of the contract.
var chapters = []struct {
	name  string
	rules []rule
}{
	{"Matching", matchingRules},
	{"Rank", rankRules},
	{"Normalise", normaliseRules},
	{"Credit", creditRules},
	{"Acquire", acquireRules},
	{"Superfluous", superfluousRules},
	{"Together", togetherRules},
	{"Lower", lowerRules},
	{"LateBound", lateBoundRules},
	{"Spread", spreadRules},
	{"Same", sameRules},
	{"Domain", domainRules},
	{"Pins", pinRules},
	{"Preempt", preemptRules},
	{"Victims", victimRules},
	{"Whole", wholeRules},
	{"Reservations", reservationRules},
	{"Release", releaseRules},
	{"Unmet", unmetRules},
	{"OneByOne", oneByOneRules},
	{"Gangs", gangRules},
	{"Plans", planRules},
	{"Search", searchRules},
	{"Tenants", tenantRules},
}

// The chapters that hold for one way to choose victims alone.
var only = map[string]reference.VictimMode{
	"OneByOne": reference.VictimsMachine,
	"Gangs":    reference.VictimsGang,
	"Plans":    reference.VictimsGang,
	"Search":   reference.VictimsGang,
	"Tenants":  reference.VictimsGang,
}

// Run shows every rule of the contract on the implementation, with victims
// taken one by one.
func Run(t *testing.T, decide Decide) { run(t, decide, reference.VictimsMachine) }

// RunGangs does so with victims chosen by gangs.
func RunGangs(t *testing.T, decide Decide) { run(t, decide, reference.VictimsGang) }

// RunNested shows the rules about nested topology keys.
func RunNested(t *testing.T, decide Decide) {
	for _, r := range nestedRules {
		t.Run(r.name, func(t *testing.T) {
			s := newScene(t, decide)
			s.in.Options.Victims = reference.VictimsGang
			r.show(s)
		})
	}
}

func run(t *testing.T, decide Decide, mode reference.VictimMode) {
	for _, c := range chapters {
		if m, one := only[c.name]; one && m != mode {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			for _, r := range c.rules {
				t.Run(r.name, func(t *testing.T) {
					s := newScene(t, decide)
					s.in.Options.Victims = mode
					r.show(s)
				})
			}
		})
	}
}
