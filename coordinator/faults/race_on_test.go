//go:build race

package faults

// raceEnabled: the tests themselves are slow then, and times say nothing.
const raceEnabled = true
