package driver_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/provider/driver"
)

var objectName = regexp.MustCompile(`^[a-z][a-z0-9-]*[a-z0-9]$`)

// Names are valid for every id and generation, and differ where these do.
func TestObjectNames(t *testing.T) {
	ids := []string{"", "a", "A", "7", "pool.zone/1", "ä", "-", "a-", "a_", strings.Repeat("x", 512), strings.Repeat("x", 511) + "y", strings.Repeat("-", 80), "\x00"}
	seen := map[string]string{}
	for _, id := range ids {
		for _, generation := range []uint64{1, 2, 11, 1<<64 - 1} {
			name, of := driver.ObjectName(id, generation), fmt.Sprintf("%q generation %d", id, generation)
			if len(name) > 63 || !objectName.MatchString(name) {
				t.Errorf("%s: %q is no name of an object", of, name)
			}
			if other, taken := seen[name]; taken {
				t.Errorf("%s and %s are both %q", of, other, name)
			}
			seen[name] = of
			if again := driver.ObjectName(id, generation); again != name {
				t.Errorf("%s: %q, then %q", of, name, again)
			}
		}
	}
}

func TestPhases(t *testing.T) {
	for p := driver.Creating; p <= driver.Failed; p++ {
		if got, ok := driver.ParsePhase(p.String()); !ok || got != p {
			t.Errorf("%v is read as %v, %t", p, got, ok)
		}
	}
	for _, name := range []string{"", "idle", "Phase(9)"} {
		if got, ok := driver.ParsePhase(name); ok {
			t.Errorf("%q is read as %v", name, got)
		}
	}
	if got := driver.Phase(9).String(); got != "Phase(9)" {
		t.Errorf("phase 9 is %q", got)
	}
}
