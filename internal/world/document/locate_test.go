package document_test

import (
	"encoding/json"
	"testing"

	"github.com/tonnage/tonnage/internal/world/document"
)

func TestLocate(t *testing.T) {
	yaml := "pools:\n- name: a\n  labels: {\"a/b\": x, c: [1, 2]}\n- &p\n  name: b\n- *p\n"
	for _, c := range []struct {
		path         string
		line, column int
	}{
		{"$", 1, 1},
		{"pools", 2, 1},
		{"pools[0].name", 2, 9},
		{`pools[0].labels["a/b"]`, 3, 19},
		{"pools[0].labels.c[1]", 3, 29},
		{"pools[2].name", 5, 9},
		{"pools[0].price", 2, 3}, // what is missing is in what lies around it
		{"pools[7].name", 2, 1},
		{`pools[0].labels["no"].x`, 3, 11},
	} {
		if line, column, ok := document.Locate([]byte(yaml), c.path); !ok || line != c.line || column != c.column {
			t.Errorf("%s is at %d:%d (%t), want %d:%d", c.path, line, column, ok, c.line, c.column)
		}
	}
	if line, column, ok := document.Locate([]byte("{\n \"a\": {\"b\": 1}}"), "a.b"); !ok || line != 2 || column != 13 {
		t.Errorf("in JSON a.b is at %d:%d, %t", line, column, ok)
	}
	for _, c := range [][2]string{{"a: [", "a"}, {"", "a"}, {"a: 1", "[x]"}, {"a: 1", `["a`}} {
		if line, column, ok := document.Locate([]byte(c[0]), c[1]); ok {
			t.Errorf("%q in %q is at %d:%d", c[1], c[0], line, column)
		}
	}
}

// What has no schema comes out as the JSON that it means, in either format.
func TestAny(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"a: [1, 2.5, x, null, true]\nb: {\"c d\": \"\\u0001\"}", `{"a":[1,2.5,"x",null,true],"b":{"c d":"\u0001"}}`},
		{`{"a": [1e3, {"b": "</x>"}]}`, `{"a":[1e3,{"b":"\u003c/x\u003e"}]}`},
	} {
		n, fault := document.Parse([]byte(c.text))
		if fault != nil {
			t.Fatal(fault)
		}
		var r document.Reader
		if r.Any(n); r.Failed() {
			t.Errorf("%s: %v", c.text, r.Count())
		}
		if got := string(document.AppendJSON(nil, n)); got != c.want || !json.Valid([]byte(got)) {
			t.Errorf("%s becomes %s, want %s", c.text, got, c.want)
		}
	}
	n, _ := document.Parse([]byte(`{"a": 1, "a": [NaN]}`))
	var r document.Reader
	r.Any(n)
	if faults, _ := r.Faults(); len(faults) != 2 || faults[0].Path != "a" || faults[1].Path != "a[0]" {
		t.Errorf("faults %v", faults)
	}
}
