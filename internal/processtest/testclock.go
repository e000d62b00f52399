//go:build testclock

package processtest

// tags are those that the binary is built with: its wall clock is what a test sets.
var tags = []string{"-tags", "testclock"}
