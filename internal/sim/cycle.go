package sim

import (
	"encoding/json"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/bill"
	"github.com/tonnage/tonnage/engine/history"
	"github.com/tonnage/tonnage/engine/model"
)

// Action is one action that was carried out. In JSON it is the array
// [kind, machine, need].
type Action struct {
	Kind    engine.Kind
	Machine string
	Need    string // name of the acquirer or preemptor, else empty
	cluster string // of the acquirer, or the one that the machine leaves
}

// MarshalJSON writes the action as an array.
func (a Action) MarshalJSON() ([]byte, error) {
	return json.Marshal([3]string{a.Kind.String(), a.Machine, a.Need})
}

// Cycle is what a run says of one cycle.
type Cycle struct {
	Cycle int `json:"cycle"`
	// Actions are those carried out, after the rails, in that order.
	Actions []Action `json:"actions"`
	// States counts machines by state after execution; states without
	// machines are left out.
	States map[string]int `json:"states"`
	// InFlight is how many machines are in a transitional state.
	InFlight int `json:"inFlight"`
	// Unsatisfied are names of Needs: clusters by id, rows in their order.
	Unsatisfied []string `json:"unsatisfied"`
	// Shortfalls is the number of profiles with unresolved demand.
	Shortfalls int `json:"shortfalls"`
	// Held are the clusters whose roll-up is in quarantine.
	Held []string `json:"held"`
	// Suppressed is the number of actions decided but not carried out under
	// pause or dry run.
	Suppressed int `json:"suppressed"`
	// Digest is the xxh64 of machines and claims, in hex.
	Digest string `json:"digest"`

	stats  engine.Stats // of the decision
	wasted history.Counts
	lacks  map[string]model.Resources // of each of Unsatisfied, what it lacks
}

// Summary is what a run says at its end.
type Summary struct {
	Cycles int `json:"cycles"`
	// Actions counts what was carried out by kind; kinds without are left out.
	Actions map[string]int `json:"actions"`
	// LastAction is the last cycle that carried anything out, 0 = none did.
	LastAction int `json:"lastAction"`
	// States, Unsatisfied, Shortfalls and Digest are those of the last cycle.
	States      map[string]int `json:"states"`
	Unsatisfied []string       `json:"unsatisfied"`
	Shortfalls  int            `json:"shortfalls"`
	Digest      string         `json:"digest"`
	// Compared is in how many cycles the plan was held against the sequential
	// reference; see ReferencePairsMax.
	Compared int `json:"compared"`
	// Rest is what the engine decided anew, and what of its actions came to nothing.
	Rest history.Totals `json:"rest"`
	// Bill is what the fleet costs after the plan of the last cycle.
	Bill bill.Bill `json:"bill"`
}

func (s *Summary) take(c *Cycle) {
	s.Cycles = c.Cycle
	for _, a := range c.Actions {
		s.Actions[a.Kind.String()]++
		s.LastAction = c.Cycle
	}
	s.Rest.Take(&c.stats, &c.wasted)
	s.States, s.Unsatisfied, s.Shortfalls, s.Digest = c.States, c.Unsatisfied, c.Shortfalls, c.Digest
}
