package model

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestIsControl holds the rule to its definition, character by character.
func TestIsControl(t *testing.T) {
	for r := rune(0); r <= utf8.MaxRune; r++ {
		want := r < 0x20 || r >= 0x7f && r <= 0x9f || r == 0x061c || r == 0x200e || r == 0x200f ||
			r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
		if IsControl(r) != want {
			t.Errorf("IsControl(%U) = %v", r, !want)
		}
	}
}

func TestCheckName(t *testing.T) {
	const long = "has 513 bytes; at most 512 are accepted"
	for _, c := range []struct{ name, plain, optional, text string }{
		{name: "gpu-1"},
		{name: "topology.kubernetes.io/zone"},
		{name: "größe 大きい 🙂 \u200d \ufeff\ufffd"},
		{"", "must not be empty", "", ""},
		{name: strings.Repeat("x", NameBytesMax)},
		{strings.Repeat("x", NameBytesMax+1), long, long, ""},
		{"a\x1b[2J", esc, esc, esc},
		{"\n", "holds the control character U+000A at byte 0: \"\\n\"; leave it out", "=", "="},
		{"ab\x7f", "holds the control character U+007F at byte 2: \"ab\\x7f\"; leave it out", "=", "="},
		{"é\u009b31m", "holds the control character U+009B at byte 2: \"é\\u009b31m\"; leave it out", "=", "="},
		{"\u202eexe", "holds the control character U+202E at byte 0: \"\\u202eexe\"; leave it out", "=", "="},
		{"ab\xc3", "is not valid UTF-8 at byte 2: \"ab\\xc3\"", "=", "="},
		{"\xed\xa0\x80", "is not valid UTF-8 at byte 0: \"\\xed\\xa0\\x80\"", "=", "="}, // half of a surrogate pair
	} {
		if c.optional == "=" {
			c.optional, c.text = c.plain, c.plain
		}
		for what, x := range map[string]struct{ got, want string }{
			"CheckName":         {said(CheckName(c.name)), c.plain},
			"of bytes":          {said(CheckName([]byte(c.name))), c.plain},
			"CheckOptionalName": {said(CheckOptionalName(c.name)), c.optional},
			"CheckText":         {said(CheckText(c.name)), c.text},
		} {
			if x.got != x.want {
				t.Errorf("%s of %.20q: %q, want %q", what, c.name, x.got, x.want)
			}
		}
	}
}

const esc = "holds the control character U+001B at byte 1: \"a\\x1b[2J\"; leave it out"

func said(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// FuzzCheckText: a text passes if and only if it is UTF-8 without controls, and the
// error can be shown on a terminal as it is.
func FuzzCheckText(f *testing.F) {
	for _, s := range []string{"", "a", "\x1b", "é\u009b", "\xff", "a\u2066", strings.Repeat("é", 40) + "\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		err := CheckText(s)
		if want := utf8.ValidString(s) && !strings.ContainsFunc(s, IsControl); (err == nil) != want {
			t.Errorf("CheckText(%q) = %v", s, err)
		}
		if err != nil && strings.ContainsFunc(err.Error(), IsControl) {
			t.Errorf("the error about %q holds a control character: %q", s, err)
		}
	})
}

// TestNamesOfMachines: each field is held to the rule, and the error names it.
func TestNamesOfMachines(t *testing.T) {
	const bad, said = "x\u009b", "U+009B"
	for field, spoil := range map[string]func(*Machine){
		"id holds":                 func(m *Machine) { m.ID = bad },
		"host holds":               func(m *Machine) { m.Host = bad },
		"cluster holds":            func(m *Machine) { m.Cluster = bad },
		"instanceType holds":       func(m *Machine) { m.InstanceType = bad },
		"zone holds":               func(m *Machine) { m.Zone = bad },
		"the key of a label holds": func(m *Machine) { m.Labels = map[string]string{bad: "v"} },
		`the value of label "rack`: func(m *Machine) { m.Labels = map[string]string{"rack": bad} },
		`the key of a label must not be empty`: func(m *Machine) {
			m.Labels = map[string]string{"": bad}
		},
	} {
		m := Machine{ID: "m", State: Configured, Cluster: "c", Host: "h"}
		if err := m.Validate(true); err != nil {
			t.Fatal(err)
		}
		spoil(&m)
		if err := m.Validate(true); err == nil || !strings.Contains(err.Error(), field) || !strings.Contains(err.Error(), said) && m.Labels[""] == "" {
			t.Errorf("%s: %v", field, err)
		}
	}
}
