package document

import (
	"math"
	"strings"
	"testing"
	"time"
)

// faultsOf reads a document with f and returns its faults, one a line.
func faultsOf(t *testing.T, text string, f func(r *Reader, n *Node)) string {
	t.Helper()
	n, fault := Parse([]byte(text))
	if fault != nil {
		t.Fatalf("%s: %v", text, fault)
	}
	var r Reader
	f(&r, n)
	if r.Path() != "$" {
		t.Errorf("the reader did not come back up: %s", r.Path())
	}
	var lines []string
	faults, more := r.Faults()
	for _, f := range faults {
		lines = append(lines, f.Error())
	}
	if r.Failed() != (len(lines) > 0) || more != 0 {
		t.Errorf("Failed() = %v, more = %d with %d faults", r.Failed(), more, len(lines))
	}
	return strings.Join(lines, "\n")
}

type pet struct {
	Name string
	Age  int64
	Tags []string
}

var petSchema = NewSchema(
	Field[pet]{Key: "name", Required: true, Read: func(r *Reader, n *Node, p *pet) { r.Name(n, &p.Name) }},
	Field[pet]{Key: "age", Read: func(r *Reader, n *Node, p *pet) { r.Int(n, 0, 200, &p.Age) }},
	Field[pet]{Key: "tags", Read: func(r *Reader, n *Node, p *pet) { r.Names(n, &p.Tags) }},
).Refuse("count", "pets are not counted")

func TestSchemaNamesEveryFault(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{"name": "a", "age": 3, "tags": ["x"]}`, ``},
		{`{"name": "a", "age": null}`, ``},
		{`{}`, `name: is missing`},
		{`{"name": null}`, `name: is missing`},
		{`{"name": "a", "agee": 3}`, `agee: unknown key; did you mean age?`},
		{`{"name": "a", "NAME": "b"}`, `NAME: unknown key; did you mean name?`},
		{`{"name": "a", "colour": 3}`, `colour: unknown key; known are name, age, tags`},
		{`{"name": "a", "count": 3}`, `count: pets are not counted`},
		{`{"name": "a", "a b.c": 3}`, `["a b.c"]: unknown key; known are name, age, tags`},
		{`{"name": "a", "name": "b"}`, `name: the key occurs twice`},
		{`{"name": 3}`, `name: must be text, got 3; put it in quotes`},
		{`{"name": ""}`, `name: must not be empty`},
		{`{"name": "a\u0007"}`, `name: holds the control character U+0007 at byte 1: "a\a"; leave it out`},
		{`{"name": "` + strings.Repeat("x", NameBytesMax+1) + `"}`, `name: has 513 bytes; at most 512 are accepted`},
		{`{"name": "a", "tags": ["x", 1, "x"]}`, "tags[1]: must be text, got 1; put it in quotes\ntags[2]: \"x\" is listed twice, first as [0]"},
		{`{"name": "a", "tags": {}}`, `tags: must be a list, got an object`},
		{`{"name": "a", "age": 1.5}`, `age: must be a whole number, got "1.5"`},
		{`{"name": "a", "age": 1e9}`, `age: must be between 0 and 200, got 1000000000`},
		{`{"name": "a", "age": 1e99}`, `age: must be between 0 and 200, got 1e99`},
		{`{"name": "a", "age": NaN}`, `age: must be a whole number, got "NaN"`},
		{`{"name": "a", "age": 99999999999999999999}`, `age: must be between 0 and 200, got 99999999999999999999`},
		{`{"name": "a", "age": "3"}`, `age: must be a number, got the text "3"; leave the quotes out`},
		{`[]`, `$: must be an object with the keys name, age, tags; got a list`},
	} {
		if got := faultsOf(t, c.text, func(r *Reader, n *Node) {
			var p pet
			petSchema.Read(r, n, &p)
		}); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.text, got, c.want)
		}
	}
}

func TestSchemaReadsInItsOwnOrder(t *testing.T) {
	var order []string
	note := func(key string) func(*Reader, *Node, *pet) {
		return func(*Reader, *Node, *pet) { order = append(order, key) }
	}
	s := NewSchema(Field[pet]{Key: "first", Read: note("first")}, Field[pet]{Key: "second", Read: note("second")})
	faultsOf(t, `{"second": 1, "first": 2}`, func(r *Reader, n *Node) { s.Read(r, n, new(pet)) })
	if got := strings.Join(order, " "); got != "first second" {
		t.Errorf("read %s", got)
	}
}

func TestFloat(t *testing.T) {
	for text, want := range map[string]string{
		`[1]`:        ``,
		`[0]`:        ``,
		`[1e-9]`:     ``,
		`[1.5]`:      `[0]: must be between 0 and 1, got 1.5`,
		`[-1]`:       `[0]: must be between 0 and 1, got -1`,
		`[NaN]`:      `[0]: must be a finite number, got NaN`,
		`[Infinity]`: `[0]: must be a finite number, got Infinity`,
		`[1e999]`:    `[0]: must be a finite number, got 1e999`,
		`["x"]`:      `[0]: must be a number, got the text "x"`,
	} {
		if got := faultsOf(t, text, func(r *Reader, n *Node) {
			r.List(n, func(_ int, n *Node) { r.Float(n, 0, 1, new(float64)) })
		}); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
	if got := faultsOf(t, `-3`, func(r *Reader, n *Node) { r.Float(n, 0, math.Inf(1), new(float64)) }); got != `$: must be at least 0, got -3` {
		t.Errorf("got %s", got)
	}
}

func TestTime(t *testing.T) {
	for text, want := range map[string]int64{
		`["1970-01-01T00:00:00Z"]`:           0,
		`["1970-01-01T00:00:40Z"]`:           40e9,
		`["1970-01-01T01:00:00.5+01:00"]`:    5e8,
		`["2026-06-01T00:00:00.000000001Z"]`: time.Date(2026, 6, 1, 0, 0, 0, 1, time.UTC).UnixNano(),
	} {
		if got := faultsOf(t, text, func(r *Reader, n *Node) {
			r.List(n, func(_ int, n *Node) {
				var at int64
				if r.Time(n, &at); at != want {
					t.Errorf("%s is read as %d, want %d", text, at, want)
				}
			})
		}); got != "" {
			t.Errorf("%s: %s", text, got)
		}
	}
	for text, want := range map[string]string{
		`"yesterday"`:            `$: is not a time, got "yesterday"; write it as 2026-06-01T00:00:00Z`,
		`"2026-06-01"`:           `$: is not a time, got "2026-06-01"; write it as 2026-06-01T00:00:00Z`,
		`"1969-12-31T23:59:59Z"`: `$: must be between 1970 and 2262, got "1969-12-31T23:59:59Z"`,
		`"2300-01-01T00:00:00Z"`: `$: must be between 1970 and 2262, got "2300-01-01T00:00:00Z"`,
		`1780272000`:             `$: must be text, got 1780272000; put it in quotes`,
	} {
		if got := faultsOf(t, text, func(r *Reader, n *Node) { r.Time(n, new(int64)) }); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

func TestDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{`"10m"`: 10 * time.Minute, `90`: 90 * time.Second, `0.5`: time.Second / 2, `"1h30m"`: 90 * time.Minute, `0`: 0} {
		var got time.Duration
		if faults := faultsOf(t, text, func(r *Reader, n *Node) { r.Duration(n, 24*time.Hour, &got) }); faults != "" || got != want {
			t.Errorf("%s: got %v %s, want %v", text, got, faults, want)
		}
	}
	for text, want := range map[string]string{
		`"soon"`: `$: is not a time span, got "soon"; write it as 90s, 10m or 1h30m`,
		`"-1s"`:  `$: must be between 0 and 24h0m0s, got "-1s"`,
		`-1`:     `$: must be between 0 and 86400, got -1`,
		`"25h"`:  `$: must be between 0 and 24h0m0s, got "25h"`,
		`true`:   `$: must be a time span such as 10m, got true`,
	} {
		if got := faultsOf(t, text, func(r *Reader, n *Node) { r.Duration(n, 24*time.Hour, new(time.Duration)) }); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

func TestMapRefusesKeysThatOccurTwice(t *testing.T) {
	long := `{"k0": 1`
	for range 20 {
		long += `, "k` + strings.Repeat("x", len(long)%7) + long[len(long)-1:] + `": 1`
	}
	long += `, "k0": 2}`
	for text, want := range map[string]string{
		`{"a": 1, "b": 2}`:         ``,
		`{"a/b": 1, "a/b": 2}`:     `["a/b"]: the key occurs twice`,
		`{"": 1}`:                  `[""]: the key must not be empty`,
		`{"a": 1, "a": 2, "a": 3}`: `a: the key occurs twice`,
	} {
		if got := faultsOf(t, text, func(r *Reader, n *Node) { r.Map(n, func(string, *Node) {}) }); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
	if got := faultsOf(t, long, func(r *Reader, n *Node) { r.Map(n, func(string, *Node) {}) }); !strings.Contains(got, "k0: the key occurs twice") {
		t.Errorf("long map: got %s", got)
	}
}

func TestFaultsAreBounded(t *testing.T) {
	var r Reader
	for i := range FaultsMax + 7 {
		r.EnterItem(i)
		r.Fault("bad")
		r.Leave()
	}
	faults, more := r.Faults()
	if len(faults) != FaultsMax || more != 7 {
		t.Errorf("%d faults and %d more", len(faults), more)
	}
}

func TestOneFaultAPath(t *testing.T) {
	var r Reader
	r.FaultKey("a", "first")
	r.FaultKey("a", "second")
	if faults, more := r.Faults(); len(faults) != 1 || more != 0 || faults[0].Msg != "first" {
		t.Errorf("got %v and %d more", faults, more)
	}
}

func TestFaultAtJoinsPaths(t *testing.T) {
	var r Reader
	r.FaultAt("a.b", "x")
	r.Enter("needs")
	r.EnterItem(3)
	r.FaultAt("requirements[0].operator", "y")
	r.FaultAt("[2]", "z")
	faults, _ := r.Faults()
	for i, want := range []string{"a.b: x", "needs[3].requirements[0].operator: y", "needs[3][2]: z"} {
		if faults[i].Error() != want {
			t.Errorf("got %s, want %s", faults[i].Error(), want)
		}
	}
}

func TestNearest(t *testing.T) {
	names := []string{"machines", "needs", "reported", "options", "now"}
	for name, want := range map[string]string{"machine": "machines", "neds": "needs", "nodes": "", "Options": "options", "wno": "", "nwo": "now", "": "", strings.Repeat("x", 9999): ""} {
		if got := Nearest(name, names); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", name, got, want)
		}
	}
}
