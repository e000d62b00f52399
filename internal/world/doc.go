// Package world is the file side of `tonnage decide` and `tonnage simulate`:
// it reads worlds and runs, and writes what was decided about them.
//
// Reading goes from bytes to a tree (package document), from the tree through
// schemas to values of the engine's vocabulary, and on the way collects every
// fault with its path. A file with a fault yields no world at all: nothing is
// decided from a part of it. Schemas read the demand before the machines,
// whatever the order of the file, because machines name Needs in their stamps.
//
// Writing goes from the engine's plan, which speaks of rows, to an Answer,
// which speaks of names in the order of the file, and from there to JSON or to
// a table. The JSON is written by hand, field by field: its bytes depend on
// nothing but the Answer.
//
// WriteInput goes the other way: what an engine looked at becomes a world, to be
// decided about again. Clusters stand by id, rows in their order, machines by id. WriteShard
// adds what the rails of a running shard hold back, as the key heldBack. Explain tells of it;
// decisions and runs ignore it.
//
// The order of a cluster's Needs is their last tie-break: of those with the same priority,
// penalties and arrival, the first of the file goes first. So reading keeps that order.
package world

import (
	"time"

	"github.com/tonnage/tonnage/engine"
)

// Limits of what a file may ask for.
const (
	WorkersMax       = engine.WorkersMax
	TopDomainsMax    = 4096
	SearchMax        = 1 << 40 // pairs, and machines
	HoldMax          = 365 * 24 * time.Hour
	CyclesMax        = 1_000_000
	CycleIntervalMin = time.Millisecond
	CycleIntervalMax = 24 * time.Hour
	LatencyCyclesMax = 10_000
	FaultTimesMax    = 1_000_000
	QueueMax         = 1_000_000

	// hintNamesMax is how many names are searched for the one that was meant.
	hintNamesMax = 1000
)
