package document

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// show writes a tree as text that is easy to compare.
func show(n *Node) string {
	switch n.Kind {
	case Null:
		return "null"
	case Text:
		return fmt.Sprintf("%q", n.Text)
	case List, Object:
		parts := make([]string, len(n.Items))
		for i := range n.Items {
			parts[i] = show(&n.Items[i])
			if n.Kind == Object {
				parts[i] = n.Items[i].Key + "=" + parts[i]
			}
		}
		if n.Kind == List {
			return "[" + strings.Join(parts, " ") + "]"
		}
		return "{" + strings.Join(parts, " ") + "}"
	}
	return n.Text
}

func TestBothFormatsGiveOneTree(t *testing.T) {
	for _, c := range []struct{ json, yaml, want string }{
		{`{"a": 1, "b": ["x", true, null, 1.5e3]}`, "a: 1\nb: [x, true, null, 1.5e3]\n", `{a=1 b=["x" true null 1.5e3]}`},
		{`{"a": {"b": []}, "c": {}}`, "# note\na:\n  b: [] # more\nc: {}\n", `{a={b=[]} c={}}`},
		{`{"t": "2026-06-01T00:00:00Z"}`, "t: 2026-06-01T00:00:00Z\n", `{t="2026-06-01T00:00:00Z"}`},
		{`{"n": [NaN, Infinity, -Infinity, -0.5]}`, "n: [.nan, .inf, -.Inf, -0.5]\n", `{n=[NaN Infinity -Infinity -0.5]}`},
		{`{"q": "16Gi", "on": "on"}`, "q: 16Gi\non: on\n", `{q="16Gi" on="on"}`},
		{`{"n": [16, 1000, 8, 0.5]}`, "n: [0x10, 1_000, 0o10, .5]\n", `{n=[16 1000 8 0.5]}`},
		{`{"e": "a\"\\\/\b\f\n\r\té😀"}`, `e: "a\"\\/\b\f\n\r\té😀"`, `{e="a\"\\/\b\f\n\r\té😀"}`},
		{`{"~": {"a": 1, "b": 2}, "x": {"b": 3, "a": 1}}`, "~: &m {a: 1, b: 2}\nx: {<<: *m, b: 3}\n", ``},
		{`{"a": [1, 2], "b": [1, 2]}`, "a: &x [1, 2]\nb: *x\n", `{a=[1 2] b=[1 2]}`},
	} {
		j, fault := Parse([]byte(c.json))
		if fault != nil {
			t.Errorf("%s: %v", c.json, fault)
			continue
		}
		if c.want != "" && show(j) != c.want {
			t.Errorf("%s is read as %s, want %s", c.json, show(j), c.want)
		}
		if c.want == "" {
			continue
		}
		y, fault := Parse([]byte(c.yaml))
		if fault != nil {
			t.Errorf("%s: %v", c.yaml, fault)
			continue
		}
		if show(y) != c.want {
			t.Errorf("%s is read as %s, want %s", c.yaml, show(y), c.want)
		}
	}
}

func TestYAMLMergeKeys(t *testing.T) {
	n, fault := Parse([]byte("base: &b {x: 1, y: 2}\nmore: &m {y: 3, z: 4}\none: {<<: *b, y: 9}\ntwo: {<<: [*b, *m]}\n"))
	if fault != nil {
		t.Fatal(fault)
	}
	if got, want := show(n), `{base={x=1 y=2} more={y=3 z=4} one={y=9 x=1} two={x=1 y=2 z=4}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestParseRefuses(t *testing.T) {
	deep := strings.Repeat("[", DepthMax+1) + strings.Repeat("]", DepthMax+1)
	for _, c := range []struct{ name, text, path, msg string }{
		{"empty", "", "$", "empty"},
		{"blank", " \n\t", "$", "empty"},
		{"only a comment", "# nothing\n", "$", "empty"},
		{"not UTF-8", "{\"a\": \"\xff\"}", "$", "UTF-8"},
		{"comma at the end", "{\"a\": 1,\n }", "line 2, column 2", "double quotes"},
		{"no quotes", "{a: 1}", "line 1, column 2", "double quotes"},
		{"two values", "{} {}", "line 1, column 4", "follows the end"},
		{"cut off", `{"a": [1, 2`, "line 1, column 12", "found the end of the file"},
		{"cut off in a text", `{"a": "b`, "line 1, column 9", "ends inside a text"},
		{"cut off after a key", `{"a":`, "line 1, column 6", "middle of a value"},
		{"bad escape", `{"a": "\x"}`, "line 1, column 8", "no such escape"},
		{"bad unicode escape", `{"a": "\u00g0"}`, "line 1, column 8", "no such escape"},
		{"control character", "{\"a\": \"b\nc\"}", "line 1, column 9", "control character"},
		{"leading zero", `[01]`, "line 1, column 2", "cannot begin with '0'"},
		{"plus", `[+1]`, "line 1, column 2", "cannot begin with '+'"},
		{"half a number", `[1.]`, "line 1, column 2", "cannot begin with '1'"},
		{"column counts letters", `["é", x]`, "line 1, column 7", "cannot begin with 'x'"},
		{"too deep", deep, "line 1, column 65", "more than 64 levels"},
		{"yaml: syntax", "a: [1\nb: 2\n", "line ", ""},
		{"yaml: two documents", "a: 1\n---\nb: 2\n", "line 2", "second YAML document"},
		{"yaml: unknown anchor", "a: 1\nc: *b\n", "line 2", "unknown anchor"},
		{"yaml: first line", "a: b: c\n", "line 1", "mapping values are not allowed"},
		{"yaml: an item without its end", "a: [1, 2}\n", "line 1", "did not find expected"},
		{"yaml: control character", "a: 1\nb: \x01\n", "line 2", "control characters"},
		{"yaml: tag", "a: !secret x\n", "line 1, column 4", "tag"},
		{"yaml: list as key", "? [a]\n: 1\n", "line 1, column 3", "plain text"},
		{"yaml: merge of a scalar", "a: {<<: 1}\n", "line 1", "merge key"},
		{"yaml: itself", "a: &a [*a]\n", "line 1", "levels deep"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n, fault := Parse([]byte(c.text))
			if fault == nil {
				t.Fatalf("read as %s, want a fault", show(n))
			}
			if !strings.HasPrefix(fault.Path, c.path) || !strings.Contains(fault.Msg, c.msg) {
				t.Errorf("fault %q, want path %q and %q", fault, c.path, c.msg)
			}
			if strings.Contains(fault.Error(), "\n") {
				t.Errorf("the fault takes more than a line: %q", fault)
			}
		})
	}
}

func TestAliasesAreBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 12; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	if _, fault := Parse([]byte(b.String())); fault == nil || !strings.Contains(fault.Msg, "aliases expand") {
		t.Errorf("fault %v, want one about aliases", fault)
	}
}

// plainJSON turns a tree into what encoding/json makes of the same text.
func plainJSON(n *Node) any {
	switch n.Kind {
	case Null:
		return nil
	case Bool:
		return n.Text == "true"
	case Number:
		return json.Number(n.Text)
	case Text:
		return n.Text
	case List:
		list := make([]any, len(n.Items))
		for i := range n.Items {
			list[i] = plainJSON(&n.Items[i])
		}
		return list
	}
	object := make(map[string]any)
	for i := range n.Items {
		object[n.Items[i].Key] = plainJSON(&n.Items[i])
	}
	return object
}

// FuzzJSON compares the parser with encoding/json: the same texts are refused,
// and the same values come out.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{`{"a": [1, -2.5e3, "x\n😀", null, true]}`, `[]`, `{"a": {"a": {}}}`, `[1,]`, `["\ud83d"]`, ` [ "a" , "b" ] `, `[1e5, 0, -0, 0.1]`, `[NaN]`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if text == "" || (text[0] != '{' && text[0] != '[') {
			return
		}
		n, fault := Parse([]byte(text))
		dec := json.NewDecoder(strings.NewReader(text))
		dec.UseNumber()
		var want any
		err := dec.Decode(&want)
		if err == nil && json.Valid([]byte(text)) == false {
			return // something follows; ours refuses, theirs reads on
		}
		if fault != nil {
			if err == nil && !strings.Contains(fault.Msg, "levels deep") && !strings.Contains(fault.Msg, "UTF-8") {
				t.Fatalf("refused: %v; encoding/json reads %v", fault, want)
			}
			return
		}
		if err != nil {
			if strings.Contains(text, "NaN") || strings.Contains(text, "Infinity") {
				return
			}
			t.Fatalf("read as %s; encoding/json says %v", show(n), err)
		}
		if got := plainJSON(n); !reflect.DeepEqual(got, want) {
			t.Fatalf("read as %v, want %v", got, want)
		}
	})
}
