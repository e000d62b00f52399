package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// node is one package.
type node struct {
	standard    bool
	dir         string
	imports     []string
	testImports []string
}

// graph is all packages that this module reaches, by path; its own begin with
// "./".
type graph map[string]*node

func own(path string) bool { return strings.HasPrefix(path, "./") }

// fits reports whether a path is one that a pattern stands for.
func fits(pattern, path string) bool {
	root, tree := strings.CutSuffix(pattern, "/...")
	if root == "." {
		return own(path)
	}
	return path == root || tree && strings.HasPrefix(path, root+"/")
}

func fitsAny(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return fits(p, path) })
}

// paths returns the module's own packages in order.
func (g graph) paths() []string {
	var out []string
	for path := range g {
		if own(path) {
			out = append(out, path)
		}
	}
	slices.Sort(out)
	return out
}

// chain returns the shortest way of imports from a package to anything that
// the patterns stand for, nil when there is none. The way does not lead on
// through the standard library, nor from a library into it, nor past what is
// named so.
func (g graph) chain(from string, never, past []string, direct, tests bool) []string {
	came := map[string]string{from: ""}
	queue := []string{from}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		if at != from && fitsAny(never, at) {
			var way []string
			for p := at; p != ""; p = came[p] {
				way = append(way, p)
			}
			slices.Reverse(way)
			return way
		}
		n := g[at]
		if n == nil || n.standard || at != from && (direct || fitsAny(past, at)) {
			continue
		}
		next := n.imports
		if at == from && tests {
			next = slices.Concat(n.imports, n.testImports)
		}
		for _, to := range next {
			if _, seen := came[to]; seen || !own(at) && g[to] != nil && g[to].standard {
				continue
			}
			came[to] = at
			queue = append(queue, to)
		}
	}
	return nil
}

// breaches returns what is wrong with the graph, a line each.
func (g graph) breaches(layers []layer, walls []wall) []string {
	var out []string
	for _, path := range g.paths() {
		out = append(out, g.outOfLayer(path, layers)...)
		for _, w := range walls {
			if !fitsAny(w.from, path) || fitsAny(w.except, path) {
				continue
			}
			if way := g.chain(path, w.never, w.past, w.direct, w.tests); way != nil {
				out = append(out, fmt.Sprintf("%s must not reach %s: %s\n\t%s", path, way[len(way)-1], w.because, strings.Join(way, "\n\t→ ")))
			}
		}
	}
	return out
}

func (g graph) outOfLayer(path string, layers []layer) []string {
	i := slices.IndexFunc(layers, func(l layer) bool { return fits(l.pkg, path) })
	if i < 0 {
		return []string{path + " has no line in layers; say there what it may import, and why"}
	}
	var out []string
	for _, to := range g[path].imports {
		allowed := layers[i].libraries
		if own(to) {
			allowed = layers[i].packages
		}
		if n := g[to]; n != nil && n.standard || fitsAny(allowed, to) {
			continue
		}
		out = append(out, fmt.Sprintf("%s → %s is not in its line of layers: %s", path, to, layers[i].because))
	}
	return out
}

// loadGraph asks the go command for the packages of the module in a folder.
func loadGraph(t *testing.T, root string) graph {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-test", "-json=ImportPath,Standard,Dir,ForTest,Imports,TestImports,XTestImports,Module", "./...")
	cmd.Dir = root
	cmd.Stderr = os.Stderr
	raw, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	g := graph{}
	for dec := json.NewDecoder(bytes.NewReader(raw)); ; {
		var p struct {
			ImportPath, Dir, ForTest           string
			Standard                           bool
			Imports, TestImports, XTestImports []string
			Module                             *struct {
				Path string
				Main bool
			}
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return g
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		if p.ForTest != "" || strings.HasSuffix(p.ImportPath, ".test") {
			continue // a package built anew for a test; it stands there as itself, too
		}
		local := func(path string) string {
			rest, ok := strings.CutPrefix(path, modulePath)
			if ok && (rest == "" || rest[0] == '/') {
				return "." + rest
			}
			return path
		}
		n := &node{standard: p.Standard, dir: p.Dir}
		for _, to := range p.Imports {
			n.imports = append(n.imports, local(to))
		}
		for _, to := range slices.Concat(p.TestImports, p.XTestImports) {
			n.testImports = append(n.testImports, local(to))
		}
		g[local(p.ImportPath)] = n
	}
}

const modulePath = "github.com/tonnage/tonnage"

// moduleRoot is the folder of go.mod.
func moduleRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no go.mod above the test")
		}
		dir = up
	}
}
