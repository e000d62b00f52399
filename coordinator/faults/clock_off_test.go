//go:build !testclock

package faults

import "testing"

// clockTags are those that the binary is built with.
var clockTags []string

// skewed returns no variable: processes read the clock of the system.
func (*node) skewed(testing.TB) []string { return nil }
