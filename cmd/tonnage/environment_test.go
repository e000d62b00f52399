package main

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/internal/world/document"
)

// TestFlagsFromTheEnvironment: the command line wins, and what is bad is named by its variable.
func TestFlagsFromTheEnvironment(t *testing.T) {
	t.Setenv("TONNAGE_FILE", firstHour)
	t.Setenv("TONNAGE_OUTPUT", "json")
	if got := call("", true, "decide"); got.code != exitOK || !json.Valid([]byte(got.out)) {
		t.Errorf("exit %d: %s%s", got.code, got.out, got.err)
	}
	if got := call(goodWorld, true, "decide", "-f", "-", "-o", "table"); got.code != exitOK || !strings.HasPrefix(got.out, "NEED") || strings.Contains(got.out, "render") {
		t.Errorf("exit %d: %s%s", got.code, got.out, got.err)
	}
	t.Setenv("TONNAGE_WORKERS", "many")
	if got := call("", true, "decide"); got.code != exitBadInput || !strings.HasPrefix(got.err, "TONNAGE_WORKERS: ") {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
	if got := call("", true, "decide", "--workers", "1"); got.code != exitOK {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
	// Commands below ctl check their flags first; they see those of the environment.
	t.Setenv("TONNAGE_TIMEOUT", "-1s")
	if got := call("", true, "ctl", "needs"); got.code != exitBadInput || !strings.Contains(got.err, "--timeout must be positive") {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
	t.Setenv("TONNAGE_OUTPUT", "")
	if got := call("", true, "decide", "--workers", "1"); !strings.HasPrefix(got.out, "NEED") {
		t.Errorf("an empty variable gives something: %s", got.out)
	}
}

// TestYAMLSaysWhatJSONSays of every command that writes JSON by -o.
func TestYAMLSaysWhatJSONSays(t *testing.T) {
	for _, args := range []string{
		"decide -f " + firstHour, "explain need -f " + firstHour + " render", "explain machine -f " + firstHour + " od-1",
		"what-if -f " + firstHour + " --add gpu=1", "simulate -f ../../docs/examples/first-hour-run.yaml", "explain need --help-me -f " + firstHour + " render",
	} {
		fields := strings.Fields(args)
		asJSON, asYAML := call("", true, append(fields, "-o", "json")...), call("", true, append(fields, "-o", "yaml")...)
		if asYAML.code != exitOK || asJSON.code != exitOK {
			t.Errorf("%s: exit %d and %d: %s", args, asJSON.code, asYAML.code, asYAML.err)
			continue
		}
		var values []any
		d := json.NewDecoder(strings.NewReader(asJSON.out))
		for d.More() {
			var v any
			if err := d.Decode(&v); err != nil {
				t.Fatal(err)
			}
			values = append(values, v)
		}
		documents := strings.Split(asYAML.out, "\n---\n")
		if len(documents) != len(values) {
			t.Errorf("%s: %d documents of YAML, %d values of JSON", args, len(documents), len(values))
			continue
		}
		for i, text := range documents {
			root, fault := document.Parse([]byte(text))
			if fault != nil {
				t.Errorf("%s: %v\n%s", args, fault, text)
				continue
			}
			if got := plainOf(root); !reflect.DeepEqual(timeless(got), timeless(values[i])) {
				t.Errorf("%s: the YAML says\n%v\nthe JSON says\n%v", args, got, values[i])
			}
		}
	}
}

// plainOf turns a tree into what encoding/json makes of JSON.
func plainOf(n *document.Node) any {
	switch n.Kind {
	case document.Bool:
		return n.Text == "true"
	case document.Number:
		var v float64
		_ = json.Unmarshal([]byte(n.Text), &v)
		return v
	case document.Text:
		return n.Text
	case document.List:
		out := []any{}
		for i := range n.Items {
			out = append(out, plainOf(&n.Items[i]))
		}
		return out
	case document.Object:
		out := map[string]any{}
		for i := range n.Items {
			out[n.Items[i].Key] = plainOf(&n.Items[i])
		}
		return out
	}
	return nil
}

// timeless leaves out how long things took.
func timeless(v any) any {
	if object, ok := v.(map[string]any); ok {
		for key := range object {
			if strings.HasSuffix(key, "Micros") {
				delete(object, key)
				continue
			}
			object[key] = timeless(object[key])
		}
	}
	return v
}
