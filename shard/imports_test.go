package shard_test

import (
	"os/exec"
	"strings"
	"testing"
)

// TestShardDoesNotReachTheCoordinator: nor the edges above it, not even through
// another package, tests included. Cycles go on whatever the coordinator does
// because there is no way from here to it.
func TestShardDoesNotReachTheCoordinator(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-test", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	const module = "github.com/tonnage/tonnage/"
	for _, line := range strings.Fields(string(out)) {
		path, ours := strings.CutPrefix(line, module)
		if !ours {
			continue
		}
		for _, banned := range []string{"coordinator", "operator", "cmd", "web", "internal/sim"} {
			if path == banned || strings.HasPrefix(path, banned+"/") {
				t.Errorf("shard reaches %s", line)
			}
		}
	}
}
