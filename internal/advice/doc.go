// Package advice computes what would satisfy a Need that is short: more machines, a higher priority,
// a requirement less.
//
// No figure is an estimate: for each suggestion the engine has decided about the tables of the world
// with the change made, and effects on other Needs are read from that plan. The engine is one for all
// trials, so that each decides only about what its change touches, and a trial takes a change back
// before the next.
//
// A change helps when the Need is satisfied, or when what drains for it, this decision's victims
// included, covers the rest: machines take time to drain.
//
// Minimal means that one machine less, or one point of priority less, was tried and does not help. A
// cheaper mixture of types may exist.
package advice

import (
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/world"
)

// Limits of a search.
const (
	triesMax   = 64   // decisions in all
	kindsMax   = 4    // kinds of machines that are tried
	optionsMax = 3    // ways to add machines that are told
	domainsMax = 3    // domains of a Same requirement in which machines are added
	countMax   = 4096 // machines that are added at most
)

// Advice is what would help a Need.
type Advice struct {
	Need string `json:"need"`
	// Satisfied tells that it needs no help, Waiting that machines drain for it already.
	Satisfied bool `json:"satisfied,omitempty"`
	Waiting   bool `json:"waiting,omitempty"`
	// Capacity lists the least extra capacity by kind of machine, the cheapest first.
	Capacity []Capacity `json:"capacity,omitempty"`
	// Priority is the lowest priority at which it would be satisfied; nil = none is.
	Priority *Priority `json:"priority,omitempty"`
	// Relax lists the requirements of which each, left out alone, helps.
	Relax []Relaxation `json:"relax,omitempty"`
	// Tries is how many decisions were made, Exhausted that there might be more to find.
	Tries     int  `json:"decisions"`
	Exhausted bool `json:"exhausted,omitempty"`
}

// Effect is what a change leads to besides satisfying the Need.
type Effect struct {
	// DollarsPerHour is what the Need's machines cost then, as far as they are claimed at once.
	DollarsPerHour float64 `json:"dollarsPerHour"`
	// DrainingPerHour is what the machines cost besides that others lose to it: it has them when they have drained.
	DrainingPerHour float64 `json:"drainingDollarsPerHour,omitempty"`
	// Losers are the Needs that lose machines or are no longer satisfied, by name.
	Losers []Loser `json:"losers,omitempty"`
}

// Loser is a Need that pays for a change.
type Loser struct {
	Need     string `json:"need"`
	Cluster  string `json:"cluster"`
	Priority int32  `json:"priority"`
	// Machines are preempted, or go to another Need of its cluster, of Of that it has.
	Machines int `json:"machines"`
	Of       int `json:"of"`
}

// Capacity is machines that would help.
type Capacity struct {
	Count        int     `json:"count"`
	Like         string  `json:"like"` // a machine of the world that they are like, labels included
	InstanceType string  `json:"instanceType"`
	CapacityType string  `json:"capacityType"`
	Zone         string  `json:"zone,omitempty"`
	Domain       string  `json:"domain,omitempty"` // of a Same requirement
	AddedPerHour float64 `json:"addedDollarsPerHour"`
	Effect
	edits world.Edits
}

// Priority is a priority that would help.
type Priority struct {
	Priority int32 `json:"priority"`
	Effect
	edits world.Edits
}

// Relaxation is a requirement without which the Need would be satisfied.
type Relaxation struct {
	Leave string `json:"leaveOut"`      // the requirement, in words
	Key   string `json:"key,omitempty"` // of the requirement, where it is the only one on it: what-if leaves it out
	Effect
	edits world.Edits
}

// Edits returns the change, as what-if makes it.
func (c *Capacity) Edits() *world.Edits { return &c.edits }

// Edits returns the change, as what-if makes it.
func (p *Priority) Edits() *world.Edits { return &p.edits }

// Edits returns the change, as what-if makes it.
func (r *Relaxation) Edits() *world.Edits { return &r.edits }

// with returns a Need with another profile.
func with(n *world.Need, change func(*model.ProfileSpec)) (*world.Need, bool) {
	p := n.Profile
	spec := model.ProfileSpec{
		Priority: p.Priority(), Interruption: p.Interruption(), Reclamation: p.Reclamation(),
		Requirements: append([]model.Requirement(nil), p.Requirements()...), Spread: append([]model.Spread(nil), p.Spread()...),
	}
	change(&spec)
	profile, err := model.NewProfile(spec)
	if err != nil {
		return nil, false
	}
	out := *n
	out.Profile = profile
	return &out, true
}
