package benches

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/tonnage/tonnage/internal/measure"
)

// plansCycles is how many cycles of a regime the checksums are over.
const plansCycles = 12

var plansFile = filepath.Join("testdata", "plans.json")

// TestGatesPlansOfRegimes holds what `tonnage bench` decides on the smallest
// rung, by regime: a figure counts only for these plans.
func TestGatesPlansOfRegimes(t *testing.T) {
	expected, measured := map[string]string{}, map[string]string{}
	if raw, err := os.ReadFile(plansFile); err == nil {
		err = json.Unmarshal(raw, &expected)
		if err != nil {
			t.Fatal(err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) || !*update {
		t.Fatal(err)
	}
	for _, regime := range measure.Regimes() {
		r, err := measure.Run(t.Context(), measure.Config{Rung: mustRung(t, "tiny"), Regime: regime, Cycles: plansCycles, Seed: seed, Verify: true})
		if err != nil {
			t.Errorf("%s: %v", regime, err)
			continue
		}
		measured[r.Regime] = r.PlanChecksum
		if want := expected[r.Regime]; !*update && r.PlanChecksum != want {
			t.Errorf("%s: the plans have the checksum %s, want %q; write it down with -update if the change is meant", regime, r.PlanChecksum, want)
		}
	}
	if *update && !maps.Equal(expected, measured) {
		writePlans(t, measured)
	}
}

func writePlans(t *testing.T, plans map[string]string) {
	t.Helper()
	raw, err := json.MarshalIndent(plans, "", "  ")
	if err == nil {
		err = os.WriteFile(plansFile, append(raw, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
