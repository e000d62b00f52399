package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// written makes a tree that holds these plans.
func written(t *testing.T, cycles, regimes string) string {
	t.Helper()
	root := t.TempDir()
	for file, text := range map[string]string{cyclePlansFile: cycles, regimePlansFile: regimes} {
		if text == "" {
			continue
		}
		path := filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// TestOtherPlans: work that comes to other plans is not compared, and nothing else is
// left out.
func TestOtherPlans(t *testing.T) {
	const cycles = `[{"rung":"tiny","regime":"cold","plan":"1"},{"rung":"tiny","regime":"steady","plan":"2"},{"rung":"5k","regime":"cold","plan":"3"}]`
	const regimes = `{"cold":"4","steady":"5"}`
	cold, steady, larger, put := "kernel=cycle/rung=tiny/regime=cold", "kernel=cycle/rung=tiny/regime=steady", "kernel=stage/of=rank/rung=5k/regime=cold", "kernel=put/rung=tiny"
	names := []string{cold, steady, larger, put}
	for _, c := range []struct {
		says            string
		cycles, regimes string // of head
		want            []string
	}{
		{"the same", cycles, regimes, nil},
		{"a cycle", `[{"rung":"tiny","regime":"cold","plan":"X"},{"rung":"tiny","regime":"steady","plan":"2"}]`, regimes, []string{cold}},
		{"a larger rung", `[{"rung":"tiny","regime":"cold","plan":"1"},{"rung":"5k","regime":"cold","plan":"X"}]`, regimes, []string{larger}},
		{"cycles that follow each other", cycles, `{"cold":"4","steady":"X"}`, []string{steady}},
		{"nothing is written down", "", "", nil},
	} {
		t.Run(c.says, func(t *testing.T) {
			got, err := otherPlans(written(t, cycles, regimes), written(t, c.cycles, c.regimes), names)
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("got %v, %v, want %v", got, err, c.want)
			}
		})
	}
	if _, err := otherPlans(written(t, "{", ""), t.TempDir(), names); err == nil {
		t.Error("a broken file says nothing")
	}
}
