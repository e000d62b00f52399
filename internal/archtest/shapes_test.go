package archtest

import (
	"bytes"
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

// shape bounds the types of some packages: a type with more fields or methods is
// several subjects that share their state. So is a package with more lines.
type shape struct {
	pkg             string
	fields, methods int // methods: 0 = any number
	lines           int // of a package, without tests and generated files; 0 = any number
}

var shapes = []shape{
	{pkg: "./shard/...", fields: 20, methods: 40, lines: 4500},
	{pkg: "./engine/internal/...", fields: 20, methods: 40, lines: 4500},
	{pkg: "./engine", fields: 20, methods: 40, lines: 4500},
}

// wholes are types that hold a program together: of fields they may have fewer.
var wholes = map[string]int{"./shard.Shard": 12}

// spacious are the types that may have more fields, each with a reason.
var spacious = map[string]string{
	"./engine/internal/plan.Stats":              "a record of one cycle: each field is a figure, and callers read them by name",
	"./engine/internal/records.UnitExplanation": "a record of one unit: each field is shown to a person",
	"./shard.Config":                            "a record of settings: one field for each, and most are flags",
	"./shard.Cycle":                             "a record of one cycle: each field is a figure, and nothing changes them",
	"./shard.CycleReport":                       "a record for pages and logs: each field is a figure, and nothing changes them",
	"./shard.metrics":                           "a record of series: one field for each metric",
	"./shard/session.Server":                    "two of its fields say what calls of the protocol it does not serve",
}

// crowded are the types that have more methods than they may: exactly so many, so that a number in this table only falls.
// In time they are cut as packages were: what follows one subject moves to a type of its own.
var crowded = map[string]int{
	"./engine.pass":                      48,
	"./engine/internal/assign.Worker":    107,
	"./engine/internal/search.selection": 101,
	"./engine/internal/victims.Pass":     66,
	"./engine/internal/victims.Worker":   66,
}

// views are the types that another type of their package may embed by pointer, each with a reason.
var views = map[string]string{
	"*Alike": "a victim group is the view that one scope has of machines that are alike: it reads them and changes none",
}

// typeShape is what a type of a package has.
type typeShape struct {
	name            string // with its package
	fields, methods int
}

// shapesOf counts the fields and methods of the struct types of some sources.
func shapesOf(files []*source) []typeShape {
	by := map[string]*typeShape{}
	at := func(s *source, name string) *typeShape {
		name = s.pkg + "." + name
		if by[name] == nil {
			by[name] = &typeShape{name: name}
		}
		return by[name]
	}
	for _, s := range files {
		for _, d := range s.ast.Decls {
			switch d := d.(type) {
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if t, ok := spec.(*ast.TypeSpec); ok {
						at(s, t.Name.Name).fields += fieldsOf(t)
					}
				}
			case *ast.FuncDecl:
				if name := receiverOf(d); name != "" {
					at(s, name).methods++
				}
			}
		}
	}
	var out []typeShape
	for _, x := range by {
		out = append(out, *x)
	}
	return out
}

func fieldsOf(t *ast.TypeSpec) (n int) {
	record, ok := t.Type.(*ast.StructType)
	if !ok {
		return 0
	}
	for _, f := range record.Fields.List {
		n += max(len(f.Names), 1)
	}
	return n
}

func receiverOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	x := f.Recv.List[0].Type
	if pointer, ok := x.(*ast.StarExpr); ok {
		x = pointer.X
	}
	if of, ok := x.(*ast.IndexExpr); ok {
		x = of.X
	}
	if name, ok := x.(*ast.Ident); ok {
		return name.Name
	}
	return ""
}

// misshapen finds the types that are larger than they may be, and exceptions that
// nobody needs.
func misshapen(files []*source, shapes []shape, wholes, crowded map[string]int, spacious map[string]string) []string {
	var out []string
	needed := map[string]bool{}
	for _, x := range shapesOf(files) {
		i := slices.IndexFunc(shapes, func(s shape) bool { return fits(s.pkg, x.name[:len(x.name)-len(path.Ext(x.name))]) })
		if i < 0 {
			continue
		}
		limit := shapes[i].fields
		if whole, ok := wholes[x.name]; ok {
			needed[x.name] = true
			limit = whole
		}
		if _, ok := spacious[x.name]; ok && x.fields > limit {
			needed[x.name] = true
		} else if x.fields > limit {
			out = append(out, fmt.Sprintf("%s has %d fields, at most %d", x.name, x.fields, limit))
		}
		most := shapes[i].methods
		if n, ok := crowded[x.name]; ok && n > most {
			needed[x.name] = true
			if most = n; x.methods < n {
				out = append(out, fmt.Sprintf("%s has %d methods, and is down for %d", x.name, x.methods, n))
			}
		}
		if most > 0 && x.methods > most {
			out = append(out, fmt.Sprintf("%s has %d methods, at most %d", x.name, x.methods, most))
		}
	}
	for name, because := range spacious {
		if !needed[name] || because == "" {
			out = append(out, fmt.Sprintf("%s needs no exception, or has no reason", name))
		}
	}
	for _, table := range []map[string]int{wholes, crowded} {
		for name := range table {
			if !needed[name] {
				out = append(out, fmt.Sprintf("there is no type %s", name))
			}
		}
	}
	slices.Sort(out)
	return out
}

// embeddings finds structs that embed a pointer to another type of their package: the state of
// both is one then, whatever their methods are called.
func embeddings(files []*source, shapes []shape) []string {
	var out []string
	for _, s := range files {
		if !slices.ContainsFunc(shapes, func(x shape) bool { return fits(x.pkg, s.pkg) }) {
			continue
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			record, ok := n.(*ast.StructType)
			if !ok {
				return true
			}
			for _, f := range record.Fields.List {
				if pointer, ok := f.Type.(*ast.StarExpr); ok && len(f.Names) == 0 {
					if name, ok := pointer.X.(*ast.Ident); ok {
						out = append(out, s.at(f.Pos())+" embeds *"+name.Name)
					}
				}
			}
			return true
		})
	}
	slices.Sort(out)
	return out
}

// overgrown finds the packages with more lines than they may have.
func overgrown(files []*source, shapes []shape) []string {
	lines := map[string]int{}
	for _, s := range files {
		if !ast.IsGenerated(s.ast) {
			lines[s.pkg] += bytes.Count(s.text, []byte("\n"))
		}
	}
	var out []string
	for pkg, n := range lines {
		i := slices.IndexFunc(shapes, func(s shape) bool { return fits(s.pkg, pkg) })
		if i >= 0 && shapes[i].lines > 0 && n > shapes[i].lines {
			out = append(out, fmt.Sprintf("%s has %d lines, at most %d", pkg, n, shapes[i].lines))
		}
	}
	slices.Sort(out)
	return out
}

// production returns the sources that are not tests.
func production(files []*source) []*source {
	return slices.DeleteFunc(slices.Clone(files), func(s *source) bool { return s.test() })
}

// TestTypesAreOneSubject holds the types of the module to their shapes.
func TestTypesAreOneSubject(t *testing.T) {
	for _, fault := range misshapen(production(loadSources(t, moduleRoot(t))), shapes, wholes, crowded, spacious) {
		t.Errorf("%s: a type is one subject", fault)
	}
}

// TestNoTypeEmbedsAnothersState holds the types of the module to fields with names.
func TestNoTypeEmbedsAnothersState(t *testing.T) {
	for _, fault := range embeddings(production(loadSources(t, moduleRoot(t))), shapes) {
		if views[fault[strings.LastIndexByte(fault, ' ')+1:]] != "" {
			continue
		}
		t.Errorf("%s: the other type is a field with a name, or a parameter", fault)
	}
}

// TestPackagesAreOneSubject holds the packages of the module to their size.
func TestPackagesAreOneSubject(t *testing.T) {
	for _, fault := range overgrown(production(loadSources(t, moduleRoot(t))), shapes) {
		t.Errorf("%s: a package is one subject", fault)
	}
}

// TestShapesFindWhatIsWrong tries the rule on types that are known to be too large.
func TestShapesFindWhatIsWrong(t *testing.T) {
	text := `package x
type Large struct{ a, b int; c string }
type Whole struct{ a, b int }
type Record struct{ a, b, c int }
type Busy struct{}
func (Busy) A() {}
func (*Busy) B() {}
type Crowd struct{}
func (Crowd) A() {}
func (Crowd) B() {}
type Fine struct{ a int; Busy }
type Lane struct{ *Busy; *fmt.Stringer }
func (f *Fine) A() {}
`
	s, err := parse("x/x.go", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	got := misshapen([]*source{s}, []shape{{pkg: "./x", fields: 2, methods: 1}},
		map[string]int{"./x.Whole": 1, "./x.Gone": 1}, map[string]int{"./x.Crowd": 3, "./x.Away": 2}, map[string]string{"./x.Record": "it is one", "./x.Fine": "it needs none"})
	want := []string{
		"./x.Busy has 2 methods, at most 1",
		"./x.Crowd has 2 methods, and is down for 3",
		"./x.Fine needs no exception, or has no reason",
		"./x.Large has 3 fields, at most 2",
		"./x.Whole has 2 fields, at most 1",
		"there is no type ./x.Away",
		"there is no type ./x.Gone",
	}
	if !slices.Equal(got, want) {
		t.Errorf("found:\n%q\nwant:\n%q", got, want)
	}
	large := overgrown([]*source{s}, []shape{{pkg: "./x", lines: 12}, {pkg: "./...", lines: 1}})
	if !slices.Equal(large, []string{"./x has 13 lines, at most 12"}) || overgrown([]*source{s}, []shape{{pkg: "./x", lines: 13}}) != nil {
		t.Errorf("found %q", large)
	}
	if got := embeddings([]*source{s}, []shape{{pkg: "./x"}}); !slices.Equal(got, []string{"x/x.go:12 embeds *Busy"}) {
		t.Errorf("found %q", got)
	}
}
