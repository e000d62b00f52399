package archtest

import (
	"slices"
	"strings"
	"testing"
)

// TestImportsPointOneWay holds the module to both tables.
func TestImportsPointOneWay(t *testing.T) {
	g := loadGraph(t, moduleRoot(t))
	if g["./engine"] == nil || g["fmt"] == nil {
		t.Fatal("the graph lacks packages that are certainly there")
	}
	for _, b := range g.breaches(layers, walls) {
		t.Error(b)
	}
}

// TestTablesHaveNoDeadLines: a line for a package that is gone says nothing.
func TestTablesHaveNoDeadLines(t *testing.T) {
	g := loadGraph(t, moduleRoot(t))
	for _, l := range layers {
		if !slices.ContainsFunc(g.paths(), func(path string) bool { return fits(l.pkg, path) }) {
			t.Errorf("layers has a line for %s, and there is no such package", l.pkg)
		}
		if l.because == "" {
			t.Errorf("layers: %s has no reason", l.pkg)
		}
	}
	for _, w := range walls {
		if w.because == "" {
			t.Errorf("walls: %v ↛ %v has no reason", w.from, w.never)
		}
	}
}

// fabricated is a small house with one fault of each sort.
func fabricated() graph {
	std := &node{standard: true, imports: []string{"os"}}
	return graph{
		"os": std, "fmt": std, "log/slog": std,
		"./alloc":       {imports: []string{"fmt"}},
		"./engine":      {imports: []string{"./alloc", "./columnar"}},
		"./columnar":    {imports: []string{"./alloc", "lib/sets", "log/slog"}},
		"./coordinator": {},
		"./shard":       {imports: []string{"./engine"}, testImports: []string{"./shard/rig"}},
		"./shard/rig":   {imports: []string{"./middle"}},
		"./middle":      {imports: []string{"./coordinator"}},
		"lib/sets":      {imports: []string{"os", "lib/deep"}},
		"lib/deep":      {},
	}
}

// TestRulesFindWhatIsWrong tries the rules on a house that is known to be
// wrong: a rule that finds nothing there would find nothing anywhere.
func TestRulesFindWhatIsWrong(t *testing.T) {
	everything := []layer{{pkg: "./...", packages: []string{"./..."}, libraries: []string{"lib/..."}}}
	core := []string{"./engine/..."}
	for name, c := range map[string]struct {
		layers []layer
		wall   wall
		want   string // a line, spaces for breaks; "" = no breach
	}{
		"through a package": {wall: wall{from: core, never: []string{"log/..."}, because: "quiet"},
			want: "./engine must not reach log/slog: quiet ./engine → ./columnar → log/slog"},
		"through a library": {wall: wall{from: core, never: []string{"lib/deep"}, because: "shallow"},
			want: "./engine must not reach lib/deep: shallow ./engine → ./columnar → lib/sets → lib/deep"},
		"not from a library into the standard library": {wall: wall{from: core, never: []string{"os"}}},
		"not through the standard library":             {wall: wall{from: []string{"./alloc"}, never: []string{"os"}}},
		"past a package":                               {wall: wall{from: core, never: []string{"log/..."}, past: []string{"./columnar"}}},
		"what lies before it counts": {wall: wall{from: []string{"./columnar"}, never: []string{"log/..."}, past: []string{"./columnar"}, because: "quiet"},
			want: "./columnar must not reach log/slog: quiet ./columnar → log/slog"},
		"direct is not through a package": {wall: wall{from: core, never: []string{"log/..."}, direct: true}},
		"direct":                          {wall: wall{from: []string{"./columnar"}, never: []string{"log/..."}, direct: true, because: "quiet"}, want: "./columnar must not reach log/slog: quiet ./columnar → log/slog"},
		"through a test": {wall: wall{from: []string{"./shard"}, never: []string{"./coordinator/..."}, tests: true, because: "alone"},
			want: "./shard must not reach ./coordinator: alone ./shard → ./shard/rig → ./middle → ./coordinator"},
		"tests left out": {wall: wall{from: []string{"./shard"}, never: []string{"./coordinator/..."}}},
		"an exception":   {wall: wall{from: []string{"./..."}, except: []string{"./engine", "./columnar", "./shard"}, never: []string{"log/..."}}},
		"a package without a line": {layers: []layer{{pkg: "./shard/...", packages: []string{"./..."}}, {pkg: "./alloc"}, {pkg: "./engine", packages: []string{"./..."}}, {pkg: "./columnar", packages: []string{"./alloc"}, libraries: []string{"lib/..."}}, {pkg: "./coordinator"}},
			want: "./middle has no line in layers; say there what it may import, and why"},
		"an import out of its layer": {layers: []layer{{pkg: "./engine", packages: []string{"./alloc"}, because: "low"}, everything[0]},
			want: "./engine → ./columnar is not in its line of layers: low"},
		"a library out of its layer": {layers: []layer{{pkg: "./columnar", packages: []string{"./alloc"}, because: "light"}, everything[0]},
			want: "./columnar → lib/sets is not in its line of layers: light"},
	} {
		t.Run(name, func(t *testing.T) {
			lines := c.layers
			if lines == nil {
				lines = everything
			}
			got := strings.Join(strings.Fields(strings.Join(fabricated().breaches(lines, []wall{c.wall}), " ")), " ")
			if got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

func TestFits(t *testing.T) {
	for _, c := range []struct {
		pattern, path string
		want          bool
	}{
		{"./engine", "./engine", true},
		{"./engine", "./engine/model", false},
		{"./engine/...", "./engine", true},
		{"./engine/...", "./engine/model", true},
		{"./engine/...", "./engineering", false},
		{"./...", "./web", true},
		{"./...", "net/http", false},
		{"net/...", "net", true},
		{"net/...", "network", false},
	} {
		if got := fits(c.pattern, c.path); got != c.want {
			t.Errorf("fits(%q, %q) = %v", c.pattern, c.path, got)
		}
	}
}
