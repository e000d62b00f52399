package rollup

import (
	"cmp"
	"maps"
	"math"

	"github.com/tonnage/tonnage/engine/model"
)

// Limits of a roll-up; a shard refuses it as a whole above its own.
const (
	// RowsMax is how many rows there may be.
	RowsMax = 1 << 14
	// GangsMax, SetsMax and KeysMax are how many rows may be of a group, how many
	// different sets of requirements there may be, and how many attribute keys they may
	// name together with spread, where the shard does not say: what version 0.1.0 takes.
	GangsMax = RowsMax
	SetsMax  = 1 << 13
	KeysMax  = 128
	// BytesMax is how long the message may be, in estimated bytes; a shard reads a
	// third more.
	BytesMax = 24 << 20
	// ProfileBytesMax is how long the canonical form of one request may be.
	ProfileBytesMax = 32 << 10
	// DimensionsMax is how many different resources may be named, and UnofferedMax how
	// many of them that no machine offers.
	DimensionsMax = 48
	UnofferedMax  = model.UnofferedNamesMax
)

// The largest amounts that one request may ask for, far above what any machine has.
const (
	coresMax = 1_000_000
	unitsMax = 1 << 50 // bytes or pieces
)

// What no machine has as far as is known without a shard that says it.
const (
	coresApart  = 4096
	memoryApart = 64 << 40
)

// Limits are what a shard says that it takes of this cluster. A number that is 0 stands
// for the constant of that name.
type Limits struct {
	Rows, Gangs, Sets, Keys int
	// Offered is, of every resource that some machine offers, the largest amount that
	// one has, in the engine's units. nil = not known.
	Offered map[string]int64
}

func (l *Limits) orDefaults() Limits {
	rows := min(cmp.Or(l.Rows, RowsMax), RowsMax)
	return Limits{Rows: rows, Gangs: cmp.Or(l.Gangs, GangsMax), Sets: cmp.Or(l.Sets, SetsMax), Keys: cmp.Or(l.Keys, KeysMax), Offered: l.Offered}
}

// most returns the largest amount that a machine has of a resource.
func (l *Limits) most(name string) int64 {
	switch {
	case l.Offered != nil:
		return l.Offered[name]
	case name == model.DimensionCPU:
		return coresApart * 1000
	case name == "memory":
		return memoryApart
	}
	return math.MaxInt64
}

// offers tells whether a resource counts as one that some machine has.
func (l *Limits) offers(name string) bool {
	if l.Offered == nil || model.AlwaysOffered(name) {
		return true
	}
	_, some := l.Offered[name]
	return some
}

// askable is the largest amount that is taken for what somebody wants.
func askable(name string) int64 {
	if name == model.DimensionCPU {
		return coresMax * 1000
	}
	return unitsMax
}

// Limit has the next roll-ups keep to what a shard takes.
func (g *Aggregator) Limit(l Limits) {
	g.wait()
	if !maps.Equal(g.limits.Offered, l.Offered) || (g.limits.Offered == nil) != (l.Offered == nil) {
		*g = Aggregator{} // what stands apart is part of the rows
	}
	g.limits = l
}

// Offered returns what is known of what machines offer.
func (g *Aggregator) Offered() map[string]int64 { return g.limits.Offered }

// Amounts reads what a shard says that machines offer, in the engine's units. What is no
// quantity is left out.
func Amounts(texts map[string]string) map[string]int64 {
	out := make(map[string]int64, len(texts))
	for name, text := range texts {
		if n, err := model.ParseQuantity(name, text); err == nil {
			out[name] = n
		}
	}
	return out
}
