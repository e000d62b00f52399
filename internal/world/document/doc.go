// Package document reads JSON and YAML files into one tree and decodes the
// tree with every fault named by its path.
//
// Both formats become the same Nodes, so what is read from one is read from
// the other. Numbers stay text: a quantity such as 1e3 or 0.1 must not pass
// through a float. The tree is read with a Reader, which holds the path to the
// place that is being read; only when there is a fault is the path written
// out, so a good file pays nothing for good messages. A Schema lists the keys
// of one kind of object; what is not listed is a fault with a hint, and what
// occurs twice is one too. A Reader goes on after a fault, so that one run
// names them all, up to FaultsMax.
//
// Input is bounded in size, depth and what YAML aliases may expand to.
package document

import "github.com/tonnage/tonnage/engine/model"

// Limits of a document.
const (
	// JSONBytesMax is the largest JSON file. A machine and a Need take about 450 bytes each: the
	// largest calibrated fleet, 500,000 machines and 776,000 Needs, takes 559 MiB.
	JSONBytesMax = 1 << 30
	// YAMLBytesMax is the largest YAML file: its parser takes about fifty
	// times the file's size in memory, JSON's about five times.
	YAMLBytesMax = 64 << 20
	// DepthMax is how deep lists and objects may lie in each other.
	DepthMax = 64
	// AliasNodesMax is how many nodes all of a YAML file's aliases together may
	// expand to.
	AliasNodesMax = 1 << 20
	// FaultsMax is how many faults are kept; further ones are counted.
	FaultsMax = 100
	// NameBytesMax is how long a name may be.
	NameBytesMax = model.NameBytesMax
	// QuotedBytesMax is how much of a faulty text a message repeats.
	QuotedBytesMax = 64
)
