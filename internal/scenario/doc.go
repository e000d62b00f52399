// Package scenario runs acceptance scenarios: one JSON file each, with a world
// or a run as input and what `tonnage decide` or `tonnage simulate` must answer.
//
// Only what a scenario names is checked. Every key of its expectations has a
// check of its own here; a key without one is an error, so that none is
// ignored silently. The package knows the commands by their text output
// alone, and takes a Runner that produces it.
package scenario
