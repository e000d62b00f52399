//go:build testclock

package faults

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tonnage/tonnage/internal/steady"
)

// clockTags are those that the binary is built with: its wall clock is what a test sets.
var clockTags = []string{"-tags", "testclock"}

// skewed returns the variable that has a process begin at a wall clock that is up to an hour off, in
// either direction, or right: another one each time that it starts.
func (n *node) skewed(t testing.TB) []string {
	t.Helper()
	off := []time.Duration{-time.Hour, -time.Minute, 0, time.Minute, time.Hour}[rand.IntN(5)]
	name := filepath.Join(t.TempDir(), "clock")
	if err := os.WriteFile(name, []byte(off.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s begins with a clock that is %v off", n.id, off)
	return []string{steady.OffsetVariable + "=" + name}
}
