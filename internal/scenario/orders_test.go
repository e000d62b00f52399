package scenario

import (
	"path/filepath"
	"strings"
	"testing"
)

// ordersOfGangs is in how many orders machines and needs of each scenario of gangs
// are listed.
const ordersOfGangs = 20

// TestGangsInAnyOrder: every scenario of gangs that is one decision has one
// outcome, in whatever order the file lists machines and needs.
func TestGangsInAnyOrder(t *testing.T) {
	for _, path := range files(t, "gangs-*") {
		s, err := Load(path)
		if err != nil {
			t.Fatal(err)
		}
		if s.Command != "decide" || s.InputText != "" {
			continue
		}
		t.Run(strings.TrimSuffix(filepath.Base(path), ".json"), func(t *testing.T) {
			c := checker{scenario: s, run: inProcess, out: inProcess(s.Command, s.Input)}
			c.shuffle(ordersOfGangs)
			for _, f := range c.faults {
				t.Errorf("%s\n%s", s.Says, f)
			}
		})
	}
}
