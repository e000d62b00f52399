package web

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// The orders of the arrays in a Frame. They are sent to the page, which keys
// colours and labels by these names.
var (
	States        = [...]string{"Speculative", "Creating", "Idle", "Configuring", "Configured", "Draining", "Deleting", "Failed"}
	CapacityTypes = [...]string{"Unspecified", "BareMetal", "Reserved", "OnDemand", "Spot"}
	Kinds         = [...]string{"Bootstrap", "Provision", "Preempt", "Reclaim", "Delete"}
	Phases        = [...]string{"reconcile", "snapread", "phase1", "phase2", "phase3", "emit", "execute"}
)

// Limits of what one event carries. A producer may hand over more: the feed
// keeps the first entries of a list (of Did, the last).
const (
	MaxResources = 8
	MaxUnmet     = 20
	MaxDeficit   = 4
	MaxReasons   = 8
	MaxRecent    = 30
	MaxLowered   = 8

	NameBytesMax = 64  // ids, clusters, types, names of resources
	TextBytesMax = 100 // summaries of profiles and the progress line

	// EventBytesMax is the size that no event exceeds, with every list full
	// (double, if names were all quotes and backslashes).
	EventBytesMax = 26 << 10
)

// Info is what does not change while the process runs.
type Info struct {
	Version string
	// Source says in a few words where demand and supply come from.
	Source string
	// Provider says in a few words what executes the actions.
	Provider string
	Started  time.Time
	// CycleInterval is the time between two cycles when nothing wakes the loop.
	CycleInterval time.Duration
}

// Mode says whether what is decided is carried out.
type Mode string

// The modes.
const (
	ModeRunning Mode = ""
	ModePaused  Mode = "paused"
	ModeDryRun  Mode = "dry-run"
)

// Frame is what the page shows of one cycle. The arrays follow the orders
// above; amounts are in the engine's natural units (cpu in thousandths of a
// core, memory-like dimensions in bytes, everything else a count).
type Frame struct {
	Cycle uint64 `json:"cycle"` // its number, from 1, increasing
	At    int64  `json:"at"`    // Unix milliseconds at its end
	Mode  Mode   `json:"mode"`
	// Progress says how far a replayed source is, empty when there is nothing
	// to say.
	Progress string `json:"progress"`

	Machines  [len(States)]int `json:"machines"`
	Sessions  int              `json:"sessions"` // operators that are connected
	Clusters  int              `json:"clusters"` // with demand
	Rows      int              `json:"rows"`     // of their roll-ups
	Needs     int              `json:"needs"`    // what the rows are after folding
	Satisfied int              `json:"satisfied"`

	CycleMillis float64              `json:"cycleMs"`
	PhaseMillis [len(Phases)]float64 `json:"phaseMs"`

	// Actions are those that this cycle started, by kind; Total since the start.
	Actions      [len(Kinds)]int `json:"actions"`
	ActionsTotal int64           `json:"actionsTotal"`
	InFlight     int             `json:"inFlight"` // actions that the provider is working on
	Faults       int64           `json:"faults"`   // actions that failed since the start

	// Spend is USD per hour of everything that has a host or is getting one.
	Spend [len(CapacityTypes)]float64 `json:"spend"`
	// Effective is USD per hour of the machines that Needs have, with the risk of interruptions; Bound the least that
	// machines for what these Needs have would cost. Both are as of the last minute, 0 while they are not known.
	Effective float64 `json:"effective"`
	Bound     float64 `json:"bound"`

	// Mostly names what most of the unmet Needs have in common, empty = nothing.
	Mostly string `json:"mostly,omitempty"`

	Resources []Resource    `json:"resources"`
	Reasons   []ReasonCount `json:"reasons"`
	Unmet     []UnmetNeed   `json:"unmet"` // highest priority first, then oldest

	// Lowered are the clusters with rows that the policy lowers, most rows first.
	Lowered []Lowered `json:"lowered,omitempty"`

	// Region is there when several shards run in the process.
	Region *Region `json:"region,omitempty"`

	// Did is what this cycle started, in emission order, alike actions
	// counted together.
	Did []Action `json:"-"`
}

// Resource is one dimension of the demand against what is there for it.
type Resource struct {
	Name   string `json:"name"`
	Demand int64  `json:"demand"` // sum over all Needs
	// Deficit is the part of the demand that no machine is attributed to.
	Deficit int64 `json:"deficit"`
	Bound   int64 `json:"bound"` // offered by Configured and Configuring machines
	Idle    int64 `json:"idle"`  // offered by Idle machines
}

// Lowered is a cluster with rows above its limits.
type Lowered struct {
	Cluster string `json:"cluster"`
	Rows    int    `json:"rows"`
	Limits  string `json:"limits"` // in words
}

// ReasonCount is how many Needs are unmet for one reason.
type ReasonCount struct {
	Reason string `json:"reason"`
	Count  int    `json:"count"`
}

// UnmetNeed is one Need that is short of something.
type UnmetNeed struct {
	Cluster string `json:"cluster"`
	// Name is cluster and row of the demand, as explain takes it; Key tells the Need from others
	// of its cluster from one cycle to the next.
	Name     string   `json:"name"`
	Key      string   `json:"key"`
	Profile  string   `json:"profile"` // a summary for people
	Priority int32    `json:"priority"`
	Deficit  []Amount `json:"deficit"`
	// Missing is the largest missing share over the dimensions, 0 to 1.
	Missing    float64 `json:"missing"`
	Reason     string  `json:"reason"`
	AgeSeconds float64 `json:"age"`
}

// Amount is one dimension of a vector.
type Amount struct {
	Name  string `json:"name"`
	Value int64  `json:"value"`
}

// Action is what one cycle did to one machine, or to several alike.
type Action struct {
	At      int64  `json:"at"` // Unix milliseconds
	Cycle   uint64 `json:"cycle"`
	Kind    string `json:"kind"`
	Count   int    `json:"count"`
	Machine string `json:"machine"` // the first of them; empty for those that are only counted
	Type    string `json:"type"`    // instance type
	// Cluster is the one that gains or loses the machine; From, for Preempt,
	// the one that it is taken from.
	Cluster string `json:"cluster"`
	From    string `json:"from,omitempty"`
	Need    string `json:"need,omitempty"` // summary of the Need's profile
	For     string `json:"for,omitempty"`  // what that Need is called, where it is one and known
	Reason  string `json:"reason"`         // the rule, as the engine spells it
	// Plan is the number of the picture of the plan that it is part of, 0 = none.
	Plan uint64 `json:"plan,omitempty"`
}

// bound cuts lists and strings to the limits. It copies what it changes, so
// that the producer's own slices stay as they were.
func (f *Frame) bound() {
	f.Progress, f.Mostly = cut(f.Progress, TextBytesMax), cut(f.Mostly, NameBytesMax)
	f.Resources = head(f.Resources, MaxResources)
	for i := range f.Resources {
		f.Resources[i].Name = cut(f.Resources[i].Name, NameBytesMax)
	}
	f.Reasons = head(f.Reasons, MaxReasons)
	for i := range f.Reasons {
		f.Reasons[i].Reason = cut(f.Reasons[i].Reason, NameBytesMax)
	}
	f.Unmet = head(f.Unmet, MaxUnmet)
	for i := range f.Unmet {
		u := &f.Unmet[i]
		u.Name, u.Key = cut(u.Name, 2*NameBytesMax), cut(u.Key, 2*NameBytesMax)
		u.Cluster, u.Profile = cut(u.Cluster, NameBytesMax), cut(u.Profile, TextBytesMax)
		u.Reason = cut(u.Reason, NameBytesMax)
		u.Deficit = head(u.Deficit, MaxDeficit)
		for j := range u.Deficit {
			u.Deficit[j].Name = cut(u.Deficit[j].Name, NameBytesMax/2)
		}
	}
	if len(f.Lowered) > 0 {
		f.Lowered = head(f.Lowered, MaxLowered)
	}
	for i := range f.Lowered {
		x := &f.Lowered[i]
		x.Cluster, x.Limits = cut(x.Cluster, NameBytesMax), cut(x.Limits, 2*TextBytesMax)
	}
	f.Region = f.Region.bound()
	f.Did = head(f.Did[max(0, len(f.Did)-MaxRecent):], MaxRecent)
	for i := range f.Did {
		f.Did[i].bound()
	}
}

func (a *Action) bound() {
	a.Machine, a.Type = cut(a.Machine, NameBytesMax), cut(a.Type, NameBytesMax/2)
	a.Cluster, a.From = cut(a.Cluster, NameBytesMax/2), cut(a.From, NameBytesMax/2)
	a.For = cut(a.For, 2*NameBytesMax)
	a.Need, a.Reason = cut(a.Need, NameBytesMax), cut(a.Reason, NameBytesMax/2)
	a.Kind = cut(a.Kind, NameBytesMax/2)
}

// head returns a copy of the first n entries, never nil: the page reads lists.
func head[T any](s []T, n int) []T {
	return append(make([]T, 0, min(len(s), n)), s[:min(len(s), n)]...)
}

// cut shortens a string to at most n bytes, on a rune's border, and marks the
// cut. Control characters, those of text direction included, and broken encodings
// become spaces: JSON has them as they are, or in six bytes each.
func cut(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == utf8.RuneError || r == 0x2028 || r == 0x2029 {
			return ' '
		}
		return r
	}, s)
	if len(s) <= n {
		return s
	}
	const mark = "…"
	end := n - len(mark)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + mark
}
