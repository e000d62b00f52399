package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func TestReaching(t *testing.T) {
	const list = `m/a m/lib fmt
m/b fmt
m/b.test m/b fmt m/lib/deep testing
m/b m/b fmt
m/c m/library
m/lib fmt
`
	if got, want := reaching(list, "m/lib"), []string{"m/a", "m/b", "m/lib"}; !slices.Equal(got, want) {
		t.Errorf("%v reach it, want %v", got, want)
	}
}

func TestDivisionOf(t *testing.T) {
	for _, c := range []struct {
		args string
		want division
		rest string
	}{
		{"-vet=off ./...", division{}, "-vet=off ./..."},
		{"-with=k8s.io/x -vet=off ./...", division{"k8s.io/x", true}, "-vet=off ./..."},
		{"-vet=off -without=k8s.io/x ./...", division{library: "k8s.io/x"}, "-vet=off ./..."},
	} {
		if d, rest := divisionOf(strings.Fields(c.args)); d != c.want || strings.Join(rest, " ") != c.rest {
			t.Errorf("%s: %+v and %v", c.args, d, rest)
		}
	}
}

// TestDivisionLeavesNothingOut: each package is in one of the two runs, also one that
// only its tests take to the library.
func TestDivisionLeavesNothingOut(t *testing.T) {
	dir := module(t, map[string]string{
		"lib/lib.go":          "package lib\n",
		"uses/uses.go":        "package uses\nimport _ \"example.com/m/lib\"\n",
		"uses/uses_test.go":   "package uses\nimport \"testing\"\nfunc TestU(*testing.T) {}\n",
		"tries/tries.go":      "package tries\n",
		"tries/tried_test.go": "package tries_test\nimport (\"testing\"; _ \"example.com/m/uses\")\nfunc TestT(*testing.T) {}\n",
		"other/other_test.go": "package other\nimport \"testing\"\nfunc TestO(*testing.T) {}\n",
	})
	for flag, want := range map[string][]string{
		withFlag:    {"2 packages passed, 0 failed, 1 have no tests", "1 more packages do not reach example.com/m/lib and are left out"},
		withoutFlag: {"1 packages passed, 0 failed, 0 have no tests", "3 more packages reach example.com/m/lib and are left out"},
	} {
		var out bytes.Buffer
		if err := goTest(t.Context(), dir, newPrinter(&out), []string{flag + "example.com/m/lib", "-vet=off", "./..."}); err != nil {
			t.Error(err)
		}
		for _, line := range want {
			if !strings.Contains(out.String(), line) {
				t.Errorf("%s: the output has no %q:\n%s", flag, line, &out)
			}
		}
	}
	if err := goTest(t.Context(), dir, newPrinter(&bytes.Buffer{}), []string{withFlag + "no/such", "-vet=off", "./..."}); err == nil {
		t.Error("a run of no package succeeds")
	}
}
