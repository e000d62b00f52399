package archtest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// fileLinesMax is how long a file may be before it is more than one subject.
const fileLinesMax = 600

// source is one parsed Go file.
type source struct {
	name string // from the module's root, with slashes
	pkg  string // its package as layers writes it
	text []byte
	set  *token.FileSet
	ast  *ast.File
}

func (s *source) test() bool { return strings.HasSuffix(s.name, "_test.go") }

func (s *source) at(pos token.Pos) string {
	return fmt.Sprintf("%s:%d", s.name, s.set.Position(pos).Line)
}

// fault is a habit that was not kept.
type fault struct{ where, what string }

// habit looks at one file; because says why it is asked for.
type habit struct {
	find    func(*source) []fault
	because string
}

var habits = []habit{
	{find: wallClock, because: "time is passed to the core as a value; a plan does not depend on when it was made"},
	{find: sleepInTests, because: "a sleep is too long on a fast machine and too short on a slow one; wait for the condition"},
	{find: longFile, because: "a file is one subject"},
	{find: drawer, because: "a package is named for what it provides; into a drawer anything goes"},
	{find: leftToDo, because: "what is to be done stands in the tracker, not in the code"},
	{find: historyTalk, because: "comments say what holds; what was is in git, and why is in docs/decisions"},
	{find: prometheusOutsideMetrics, because: "one file of a package turns facts into metrics"},
	{find: snakeTag, because: "names in JSON are in camelCase; docs/decisions/0115-names-in-json.md"},
	{find: machinePath, because: "a path of one machine is wrong on every other"},
}

// clockCalls are the functions of package time that look at the wall clock or
// wait for it.
var clockCalls = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer"}

func wallClock(s *source) []fault {
	if s.test() || !fitsAny(core, s.pkg) {
		return nil
	}
	return s.uses("time", clockCalls)
}

func sleepInTests(s *source) []fault {
	if !s.test() {
		return nil
	}
	return s.uses("time", []string{"Sleep"})
}

// uses finds the mentions of a package's functions, under whatever name the
// file imports it.
func (s *source) uses(pkg string, functions []string) []fault {
	local := ""
	for _, imp := range s.ast.Imports {
		if p, err := strconv.Unquote(imp.Path.Value); err != nil || p != pkg {
			continue
		}
		local = path.Base(pkg)
		if imp.Name != nil {
			local = imp.Name.Name
		}
		if local == "." {
			return []fault{{s.at(imp.Pos()), "imports " + pkg + " without a name"}}
		}
	}
	if local == "" {
		return nil
	}
	var out []fault
	ast.Inspect(s.ast, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok || !slices.Contains(functions, sel.Sel.Name) {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && x.Name == local {
			out = append(out, fault{s.at(sel.Pos()), pkg + "." + sel.Sel.Name})
		}
		return true
	})
	return out
}

func longFile(s *source) []fault {
	if n := bytes.Count(s.text, []byte("\n")); n > fileLinesMax && !ast.IsGenerated(s.ast) {
		return []fault{{s.name, fmt.Sprintf("%d lines, at most %d", n, fileLinesMax)}}
	}
	return nil
}

var drawers = []string{"util", "utils", "common", "helper", "helpers", "misc", "types", "shared", "base", "lib"}

func drawer(s *source) []fault {
	for _, name := range []string{path.Base(s.pkg), s.ast.Name.Name} {
		if slices.Contains(drawers, name) {
			return []fault{{s.name, "package " + name}}
		}
	}
	return nil
}

var (
	toDo    = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X|HACK)\b`)
	history = regexp.MustCompile(`(?i)\b(ADR-[0-9]|milestone|issue #?[0-9]+|as requested|previously we)`)
	machine = regexp.MustCompile(`(^|["\s=])/(root|home|Users|tmp|work)/[A-Za-z]`)
)

// comments finds the comments that an expression fits.
func (s *source) comments(expr *regexp.Regexp) []fault {
	var out []fault
	for _, group := range s.ast.Comments {
		for _, c := range group.List {
			if m := expr.FindString(c.Text); m != "" {
				out = append(out, fault{s.at(c.Pos()), m})
			}
		}
	}
	return out
}

func leftToDo(s *source) []fault    { return s.comments(toDo) }
func historyTalk(s *source) []fault { return s.comments(history) }

// prometheusFiles are the files of the shard that may know Prometheus: the one
// that publishes, and the configuration that is handed the registry.
var prometheusFiles = []string{"metrics.go", "config.go"}

// prometheusOutsideMetrics looks at the shard; the page and the command only
// hand the registry on.
func prometheusOutsideMetrics(s *source) []fault {
	if s.test() || !fits("./shard/...", s.pkg) || slices.Contains(prometheusFiles, path.Base(s.name)) {
		return nil
	}
	var out []fault
	for _, imp := range s.ast.Imports {
		if strings.HasPrefix(imp.Path.Value, `"github.com/prometheus/`) {
			out = append(out, fault{s.at(imp.Pos()), imp.Path.Value})
		}
	}
	return out
}

// snake is a name in a JSON tag that has an underscore.
var snake = regexp.MustCompile("`[^`]*json:\"[A-Za-z0-9]*_[^`]*`")

func snakeTag(s *source) []fault {
	if s.test() || ast.IsGenerated(s.ast) {
		return nil
	}
	var out []fault
	ast.Inspect(s.ast, func(n ast.Node) bool {
		if f, ok := n.(*ast.Field); ok && f.Tag != nil && snake.MatchString(f.Tag.Value) {
			out = append(out, fault{s.at(f.Pos()), f.Tag.Value})
		}
		return true
	})
	return out
}

func machinePath(s *source) []fault {
	var out []fault
	for i, line := range strings.Split(string(s.text), "\n") {
		if m := machine.FindString(line); m != "" && s.name != selfName {
			out = append(out, fault{fmt.Sprintf("%s:%d", s.name, i+1), strings.TrimSpace(m) + "…"})
		}
	}
	return out
}

// selfName is the file whose tests quote a path of one machine.
const selfName = "internal/archtest/source_test.go"

// TestHabits looks at every Go file of the module.
func TestHabits(t *testing.T) {
	files := loadSources(t, moduleRoot(t))
	if len(files) < 50 {
		t.Fatalf("found %d files only", len(files))
	}
	for _, s := range files {
		for _, h := range habits {
			for _, f := range h.find(s) {
				t.Errorf("%s: %s: %s", f.where, f.what, h.because)
			}
		}
	}
}

// loadSources parses the module's Go files; other modules below it are not
// looked into.
func loadSources(t *testing.T, root string) []*source {
	t.Helper()
	var out []*source
	err := filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			if name == root {
				return nil
			}
			_, err := os.Stat(filepath.Join(name, "go.mod"))
			if base := e.Name(); err == nil || base == "testdata" || base == "build" || base == "bin" || base[0] == '.' || base[0] == '_' {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(name) != ".go" {
			return nil
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		s, err := parse(filepath.ToSlash(rel), text)
		if err != nil {
			return err
		}
		out = append(out, s)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func parse(name string, text []byte) (*source, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	pkg := "./" + path.Dir(name)
	if pkg == "./." {
		pkg = "."
	}
	return &source{name: name, pkg: pkg, text: text, set: set, ast: file}, nil
}

// TestHabitsFindWhatIsWrong tries every habit on a file that breaks it and on
// one that nearly does.
func TestHabitsFindWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		says, name, text string
		find             func(*source) []fault
		want             string
	}{
		{"the clock in the core", "engine/a.go", "package engine\nimport \"time\"\nvar t = time.Now()", wallClock, "engine/a.go:3 time.Now"},
		{"the clock under another name", "alloc/a.go", "package alloc\nimport clock \"time\"\nvar t = clock.Since", wallClock, "alloc/a.go:3 time.Since"},
		{"the clock without a name", "alloc/a.go", "package alloc\nimport . \"time\"\nvar t = Now()", wallClock, "alloc/a.go:2 imports time without a name"},
		{"a span of time", "engine/a.go", "package engine\nimport \"time\"\nvar t time.Duration", wallClock, ""},
		{"a Now of its own", "engine/a.go", "package engine\nimport \"time\"\nvar x time.Time\nvar t = x.Now", wallClock, ""},
		{"the clock in a test of the core", "engine/a_test.go", "package engine\nimport \"time\"\nvar t = time.Now()", wallClock, ""},
		{"the clock in the shard", "shard/a.go", "package shard\nimport \"time\"\nvar t = time.Now()", wallClock, ""},
		{"a sleep in a test", "web/a_test.go", "package web\nimport \"time\"\nfunc f() { time.Sleep(1) }", sleepInTests, "web/a_test.go:3 time.Sleep"},
		{"a sleep elsewhere", "web/a.go", "package web\nimport \"time\"\nfunc f() { time.Sleep(1) }", sleepInTests, ""},
		{"a long file", "web/a.go", "package web\n" + strings.Repeat("\n", fileLinesMax), longFile, "web/a.go 601 lines, at most 600"},
		{"a long file that a tool wrote", "web/a.go", "// Code generated by a tool. DO NOT EDIT.\n\npackage web\n" + strings.Repeat("\n", fileLinesMax), longFile, ""},
		{"a drawer", "internal/util/a.go", "package util", drawer, "internal/util/a.go package util"},
		{"a drawer by its folder", "shard/helpers/a.go", "package tools", drawer, "shard/helpers/a.go package helpers"},
		{"no drawer", "engine/model/a.go", "package model", drawer, ""},
		{"left to do", "web/a.go", "package web\n// TO" + "DO: more", leftToDo, "web/a.go:2 TO" + "DO"},
		{"an escape", "web/a.go", "package web\n// reads \\u" + "XXXX", leftToDo, ""},
		{"history", "web/a.go", "package web\n// as of issue " + "#3", historyTalk, "web/a.go:2 issue " + "#3"},
		{"Prometheus in the loop", "shard/loop.go", "package shard\nimport _ \"github.com/prometheus/client_golang/prometheus\"", prometheusOutsideMetrics, `shard/loop.go:2 "github.com/prometheus/client_golang/prometheus"`},
		{"Prometheus in its file", "shard/metrics.go", "package shard\nimport _ \"github.com/prometheus/client_golang/prometheus\"", prometheusOutsideMetrics, ""},
		{"a path of one machine", "web/a.go", "package web\nvar dir = \"/home/me\"", machinePath, `web/a.go:2 "/home/m…`},
		{"a path of the page", "web/a.go", "package web\nvar dir = \"/metrics\"", machinePath, ""},
	} {
		t.Run(c.says, func(t *testing.T) {
			s, err := parse(c.name, []byte(c.text))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range c.find(s) {
				got = append(got, f.where+" "+f.what)
			}
			if text := strings.Join(got, "; "); text != c.want {
				t.Errorf("got %q, want %q", text, c.want)
			}
		})
	}
}
