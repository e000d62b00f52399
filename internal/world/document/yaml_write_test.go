package document

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

// TestYAMLIsTheSameTree: what JSON says is said by the YAML that is written of it.
func TestYAMLIsTheSameTree(t *testing.T) {
	for _, text := range []string{
		`{"a": 1, "b": [true, null, "x"], "c": {"d": 1.5e3, "e": "12", "f": "true", "g": "null", "h": "", "i": "~"}}`,
		`{"z": "a: b", "y": "- c", "x": "line\nline", "w": "#", "v": "'\"", "u": " lead", "t": "2026-06-01T00:00:00Z", "s": "0x10", "r": "ü", "q": "\u0007"}`,
		`[]`, `{}`, `{"a": {}, "b": []}`, `{"<<": {"a": 1}, "=": 2, "yes": 3, "1": 4}`, `{"a": -7, "b": 9223372036854775807, "c": 0.1, "d": 1e400}`,
		`{"a": "` + strings.Repeat("long ", 200) + `"}`,
	} {
		d, fault := ParseDocument([]byte(text))
		if fault != nil {
			t.Fatal(text, fault)
		}
		var out bytes.Buffer
		if err := WriteYAML(&out, &d.Root); err != nil {
			t.Fatal(text, err)
		}
		if text == "[]" || text == "{}" {
			if strings.TrimSpace(out.String()) != text {
				t.Errorf("%s is written %q", text, out.String())
			}
			continue
		}
		again, fault := ParseDocument(out.Bytes())
		if fault != nil {
			t.Errorf("%s is written\n%s\n%v", text, out.String(), fault)
			continue
		}
		if !reflect.DeepEqual(stripped(d.Root), stripped(again.Root)) {
			t.Errorf("%s is written\n%s\n%+v\n%+v", text, out.String(), stripped(d.Root), stripped(again.Root))
		}
	}
}

// stripped is a tree without places, and without empty lists of items.
func stripped(n Node) Node {
	n.at, n.keyAt = 0, 0
	var items []Node
	for _, item := range n.Items {
		items = append(items, stripped(item))
	}
	n.Items = items
	return n
}
