package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestLongPackagesAreNamedFirst: whatever else is tested, in an order that is kept otherwise.
func TestLongPackagesAreNamedFirst(t *testing.T) {
	const module = "github.com/tonnage/tonnage/"
	packages := []string{module + "alloc", module + "shard", module + "web", module + "web/e2e", module + "web/e2e/other"}
	want := []string{packages[3], packages[0], packages[1], packages[2], packages[4]}
	if got := ordered(packages); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := ordered(packages[:3]); !slices.Equal(got, packages[:3]) {
		t.Errorf("%v, want %v", got, packages[:3])
	}
	for _, path := range early {
		if files, err := filepath.Glob(filepath.Join("..", "..", path, "*_test.go")); err != nil || len(files) == 0 {
			t.Errorf("%s, which is to be tested early, has no tests: %v", path, err)
		}
	}
}

// TestPackagesStartInTheirOrder: go test starts packages in the order in which they are named. One at a time, they end in it too.
func TestPackagesStartInTheirOrder(t *testing.T) {
	defer func(was []string) { early = was }(early)
	early = []string{"example.com/m/z"}
	const passes = "import \"testing\"\nfunc TestPasses(*testing.T) {}\n"
	dir := module(t, map[string]string{"a/a_test.go": "package a\n" + passes, "z/z_test.go": "package z\n" + passes})
	var out strings.Builder
	if err := goTest(t.Context(), dir, newPrinter(&out), []string{"-vet=off", "-p=1", "./..."}); err != nil {
		t.Errorf("%v\n%s", err, out.String())
	}
	if z, a := strings.Index(out.String(), "ok  \texample.com/m/z"), strings.Index(out.String(), "ok  \texample.com/m/a"); z < 0 || a < z {
		t.Errorf("want z before a:\n%s", out.String())
	}
}
