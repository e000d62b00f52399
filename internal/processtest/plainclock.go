//go:build !testclock

package processtest

// tags are those that the binary is built with.
var tags []string
