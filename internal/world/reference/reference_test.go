package reference

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/internal/world"
	"github.com/tonnage/tonnage/internal/world/document"
)

var update = flag.Bool("update", false, "write the reference page")

// TestThePageIsTheParsers: docs/reference/world.md is what the parser's tables say.
func TestThePageIsTheParsers(t *testing.T) {
	path := filepath.FromSlash("../../../docs/reference/world.md")
	var page bytes.Buffer
	if err := WritePage(&page); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, page.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(have, page.Bytes()) {
		t.Errorf("%v: the page is not what the parser says; go test ./internal/world/reference -update", err)
	}
}

// parsed reads a file of a kind and returns its faults, "path: message" each.
func parsed(t *testing.T, kind string, doc any) (faults []string) {
	t.Helper()
	text, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	some, err := world.Read(strings.NewReader(`{"machines": [{"id": "name", "state": "Idle", "instanceType": "t"}], "needs": [{"name": "name", "cluster": "name"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	in := bytes.NewReader(text)
	switch kind {
	case "world":
		_, err = world.Read(in)
	case "run":
		_, err = world.ReadRun(in)
	case "edits":
		_, err = some.ReadEdits(in)
	case "batch":
		_, err = some.ReadBatch(in)
	}
	if all, ok := errors.AsType[*world.Faults](err); ok {
		for i := range all.List {
			faults = append(faults, all.List[i].Error())
		}
	} else if err != nil {
		t.Fatal(err)
	}
	return faults
}

// sample returns a value of a shape.
func sample(s *document.Shape) any {
	switch s.Type {
	case document.TypeText, document.TypeName:
		return "name"
	case document.TypeWord:
		return s.Words[0]
	case document.TypeInteger, document.TypeNumber:
		return max(s.Min, min(1, s.Max))
	case document.TypeBool:
		return true
	case document.TypeTime:
		return "2026-06-01T00:00:00Z"
	case document.TypeDuration:
		return "10s"
	case document.TypeHex:
		return "00000000000000ff"
	case document.TypeQuantities:
		return object{"cpu": "4"}
	case document.TypeTexts:
		return object{"key": "value"}
	case document.TypeNumbers:
		return object{"key": s.Min}
	case document.TypeList:
		return []any{sample(s.Items)}
	case document.TypeObject:
		out := object{}
		fields := s.Object()
		for i := range fields {
			if fields[i].Required {
				out[fields[i].Key] = sample(&fields[i].Is)
			}
		}
		return out
	case document.TypeChoice:
		return sample(&s.Choices[0])
	}
	return nil
}

// good returns values that a shape takes, the edges of its bounds and all its words among them.
func good(s *document.Shape) (out []any) {
	switch s.Type {
	case document.TypeWord:
		for _, w := range s.Words {
			out = append(out, w)
		}
	case document.TypeInteger, document.TypeNumber:
		out = append(out, s.Min)
		if !math.IsInf(s.Max, 1) && s.Max < 1<<53 {
			out = append(out, s.Max)
		}
		for _, w := range s.Words {
			out = append(out, w)
		}
	case document.TypeChoice:
		for i := range s.Choices {
			out = append(out, good(&s.Choices[i])...)
		}
	case document.TypeDuration:
		out = append(out, "1h30m", 90)
	default:
		out = append(out, sample(s))
	}
	return out
}

// bad returns values that a shape does not take.
func bad(s *document.Shape) (out []any) {
	switch s.Type {
	case document.TypeUnknown:
	case document.TypeText:
		out = append(out, 7, []any{})
	case document.TypeName:
		out = append(out, "", 7)
	case document.TypeWord, document.TypeHex, document.TypeTime:
		out = append(out, "no such word", 7)
	case document.TypeInteger, document.TypeNumber:
		out = append(out, "no number", []any{}, s.Min-1)
		if !math.IsInf(s.Max, 1) && s.Max < 1<<53 {
			out = append(out, s.Max+1)
		}
		if s.Type == document.TypeInteger {
			out = append(out, s.Min+0.5)
		}
	case document.TypeBool:
		out = append(out, "true", 1)
	case document.TypeDuration:
		out = append(out, "soon", -1)
	case document.TypeQuantities:
		out = append(out, 4, object{"cpu": "many"})
	case document.TypeTexts:
		out = append(out, "text", object{"key": 7})
	case document.TypeNumbers:
		out = append(out, 4, object{"key": "many"})
	case document.TypeList, document.TypeObject, document.TypeChoice:
		out = append(out, "text", true)
	}
	return out
}

// ofTwo are complaints of what concerns two places of a file, or more than a type says.
var ofTwo = regexp.MustCompile(`no (need|machine) |must be empty for|must be set for|is for (Idle|Failed) machines only|cannot be reserved|is missing|give |stands beside|already|at most the aggregate|nothing happens|min must be at most|must name|takes (no|exactly)|after the last|changes twice|holds the`)

// TestThePageAndTheParserAgree: of every key of every kind of file, what the tables say is taken is taken,
// and what they say is not is a fault at its place.
func TestThePageAndTheParserAgree(t *testing.T) {
	tried := 0
	var walk func(kind string, path []string, fields []document.Description, build func(inner object) any, seen []string)
	walk = func(kind string, path []string, fields []document.Description, build func(inner object) any, seen []string) {
		base := object{}
		for i := range fields {
			if fields[i].Required {
				base[fields[i].Key] = sample(&fields[i].Is)
			}
		}
		with := func(key string, v any) any {
			inner := object{}
			for k, x := range base {
				inner[k] = x
			}
			inner[key] = v
			return build(inner)
		}
		for i := range fields {
			f := &fields[i]
			at := strings.Join(append(slices.Clone(path), f.Key), ".")
			if f.Is.Type == document.TypeUnknown || f.About == "" {
				t.Errorf("%s: %s is not described", kind, at)
				continue
			}
			tried++
			for _, v := range good(&f.Is) {
				for _, fault := range parsed(t, kind, with(f.Key, v)) {
					if strings.Contains(fault, f.Key) && !ofTwo.MatchString(fault) {
						t.Errorf("%s: %s = %v should be good: %s", kind, at, v, fault)
					}
				}
			}
			for _, v := range bad(&f.Is) {
				faults := parsed(t, kind, with(f.Key, v))
				if !slices.ContainsFunc(faults, func(s string) bool { return strings.Contains(s, f.Key) }) {
					t.Errorf("%s: %s = %v should be a fault; got %q", kind, at, v, faults)
				}
			}
			object := &f.Is
			if object.Type == document.TypeList {
				object = object.Items
			}
			if object.Type != document.TypeObject || slices.Contains(seen, object.Title) {
				continue
			}
			wrap := func(inner any) any { return inner }
			if f.Is.Type == document.TypeList {
				wrap = func(inner any) any { return []any{inner} }
			}
			walk(kind, append(slices.Clone(path), f.Key), object.Object(), func(inner map[string]any) any { return with(f.Key, wrap(inner)) }, append(slices.Clone(seen), object.Title))
		}
	}
	for _, kind := range world.Kinds() {
		walk(kind, nil, world.Describe(kind), func(inner object) any { return inner }, nil)
	}
	if tried < 150 {
		t.Errorf("only %d keys", tried)
	}
}

// TestExamplesFitTheSchema, and what is no world does not.
func TestExamplesFitTheSchema(t *testing.T) {
	schemas := map[string]object{}
	for _, kind := range world.Kinds() {
		var out bytes.Buffer
		if err := WriteSchema(&out, kind); err != nil {
			t.Fatal(err)
		}
		var s object
		if err := json.Unmarshal(out.Bytes(), &s); err != nil {
			t.Fatal(err)
		}
		schemas[kind] = s
	}
	files, err := filepath.Glob(filepath.Join("..", "..", "..", "docs", "examples", "*.yaml"))
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	files = append(files, filepath.Join("..", "..", "..", "cmd", "tonnage", "init.yaml"))
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		kind := "world"
		if bytes.Contains(data, []byte("\ncycles:")) {
			kind = "run"
		}
		root, fault := document.Parse(data)
		if fault != nil {
			t.Fatal(path, fault)
		}
		if why := fits(schemas[kind], schemas[kind], value(root), "$"); why != "" {
			t.Errorf("%s: %s", path, why)
		}
	}
	for _, text := range []string{`{"machines": [{"id": 7, "state": "Idle"}]}`, `{"machines": [{"state": "Idle"}]}`, `{"needs": [{"name": "a", "colour": 1}]}`,
		`{"machines": [{"id": "a", "state": "Idel"}]}`, `{"options": {"workers": -1}}`, `{"needs": [{"name": "a", "parked": "yes"}]}`, `{"options": {"gang": {"band": "far"}}}`} {
		root, _ := document.Parse([]byte(text))
		if fits(schemas["world"], schemas["world"], value(root), "$") == "" {
			t.Errorf("%s fits", text)
		}
	}
}

// value turns a tree into what encoding/json makes of JSON.
func value(n *document.Node) any {
	switch n.Kind {
	case document.Bool:
		return n.Text == "true"
	case document.Number:
		v, _ := strconv.ParseFloat(n.Text, 64)
		return v
	case document.Text:
		return n.Text
	case document.List:
		out := []any{}
		for i := range n.Items {
			out = append(out, value(&n.Items[i]))
		}
		return out
	case document.Object:
		out := object{}
		for i := range n.Items {
			out[n.Items[i].Key] = value(&n.Items[i])
		}
		return out
	}
	return nil
}

// fits holds a value against the part of JSON Schema that we write; it says why not.
func fits(root, s object, v any, at string) string {
	if ref, ok := s["$ref"].(string); ok {
		return fits(root, root["$defs"].(object)[strings.TrimPrefix(ref, "#/$defs/")].(object), v, at)
	}
	if choices, ok := s["anyOf"].([]any); ok {
		var why string
		for _, one := range choices {
			if why = fits(root, one.(object), v, at); why == "" {
				return ""
			}
		}
		return why
	}
	if words, ok := s["enum"].([]any); ok && !slices.Contains(words, v) {
		return fmt.Sprintf("%s: %v is none of %v", at, v, words)
	}
	if why := fitsType(s, v, at); why != "" {
		return why
	}
	switch v := v.(type) {
	case float64:
		if low, ok := s["minimum"].(float64); ok && v < low {
			return at + ": too small"
		}
		if high, ok := s["maximum"].(float64); ok && v > high {
			return at + ": too large"
		}
	case string:
		if p, ok := s["pattern"].(string); ok && !regexp.MustCompile(p).MatchString(v) {
			return at + ": does not match " + p
		}
	case []any:
		for i, item := range v {
			if why := fits(root, s["items"].(object), item, fmt.Sprintf("%s[%d]", at, i)); why != "" {
				return why
			}
		}
	case object:
		return fitsObject(root, s, v, at)
	}
	return ""
}

func fitsType(s object, v any, at string) string {
	is := map[string]bool{}
	switch x := v.(type) {
	case bool:
		is["boolean"] = true
	case float64:
		is["number"], is["integer"] = true, x == math.Trunc(x)
	case string:
		is["string"] = true
	case []any:
		is["array"] = true
	case object:
		is["object"] = true
	}
	switch want := s["type"].(type) {
	case string:
		if !is[want] {
			return fmt.Sprintf("%s: %v is no %s", at, v, want)
		}
	case []any:
		if !slices.ContainsFunc(want, func(w any) bool { return is[w.(string)] }) {
			return fmt.Sprintf("%s: %v is none of %v", at, v, want)
		}
	}
	return ""
}

func fitsObject(root, s object, v object, at string) string {
	if required, ok := s["required"].([]any); ok {
		for _, key := range required {
			if _, there := v[key.(string)]; !there {
				return fmt.Sprintf("%s: %v is missing", at, key)
			}
		}
	}
	properties, _ := s["properties"].(object)
	for key, x := range v {
		of, ok := properties[key].(object)
		if !ok {
			if of, ok = s["additionalProperties"].(object); !ok {
				return at + ": no key " + key
			}
		}
		if why := fits(root, of, x, at+"."+key); why != "" {
			return why
		}
	}
	return ""
}
