package callgrind

import "testing"

// TestToggleOutsideOfValgrind: a processor by itself takes no notice.
func TestToggleOutsideOfValgrind(*testing.T) {
	Toggle()
	Toggle()
}
