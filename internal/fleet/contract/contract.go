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
	{"Spread", spreadRules},
	{"Same", sameRules},
	{"Domain", domainRules},
	{"Preempt", preemptRules},
	{"Victims", victimRules},
	{"Whole", wholeRules},
	{"Reservations", reservationRules},
	{"Release", releaseRules},
	{"Unmet", unmetRules},
}

// Run shows every rule of the contract on the implementation.
func Run(t *testing.T, decide Decide) {
	for _, c := range chapters {
		t.Run(c.name, func(t *testing.T) {
			for _, r := range c.rules {
				t.Run(r.name, func(t *testing.T) { r.show(newScene(t, decide)) })
			}
		})
	}
}
