//go:build race

package processtest

// Race reports whether tests and processes are built with the race detector: their
// times and memory say nothing then.
const Race = true
