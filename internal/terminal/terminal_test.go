package terminal_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/terminal"
)

func TestEscape(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "",
		"gpu-1":                         "gpu-1",
		`back\slash "quoted"`:           `back\slash "quoted"`,
		"größe 大 🙂 e\u0301 \u200d":      "größe 大 🙂 e\u0301 \u200d",
		"\x1b[31mred\x1b[0m\a":          `\x1b[31mred\x1b[0m\x07`,
		"a\nb\tc\rd\x00e\x7f":           `a\nb\tc\rd\x00e\u007f`,
		"\u009b31m":                     `\u009b31m`,
		"\u202eexe.tpircs\u2066\u061c":  `\u202eexe.tpircs\u2066\u061c`,
		"\u2028\u2029":                  `\u2028\u2029`,
		"\xff\xc3(\xe2\x82":             `\xff\xc3(\xe2\x82`,
		"\x9b31m":                       `\x9b31m`, // CSI in an 8-bit terminal
		"\ufffd is a character":         "\ufffd is a character",
		strings.Repeat("x", 100) + "\a": strings.Repeat("x", 100) + `\x07`,
	} {
		if got := terminal.Escape(text); got != want {
			t.Errorf("Escape(%q) = %q, want %q", text, got, want)
		}
	}
}

// FuzzWriter: however a text is cut into writes, it comes out escaped as a whole, and
// nothing that a terminal acts on passes.
func FuzzWriter(f *testing.F) {
	for _, s := range []string{"", "plain\n\ttext", "\x1b]0;title\a", "é\u009b大🙂\u202e", "\xff\xe2\x82", "\xf0\x9f\x99", "\xe2\xe2\x82\xac"} {
		f.Add(s, uint8(1), uint8(2))
	}
	f.Fuzz(func(t *testing.T, s string, a, b uint8) {
		whole := written(t, s)
		i := min(int(a), len(s))
		j := min(i+int(b), len(s))
		if pieces := written(t, s[:i], s[i:j], s[j:]); pieces != whole {
			t.Errorf("%q in one piece: %q, in three: %q", s, whole, pieces)
		}
		if !utf8.ValidString(whole) {
			t.Errorf("%q becomes %q, which is not UTF-8", s, whole)
		}
		for _, r := range whole {
			if r != '\n' && r != '\t' && model.IsControl(r) {
				t.Errorf("%q becomes %q, which holds %U", s, whole, r)
			}
		}
		line := strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(whole)
		if got := terminal.Escape(s); got != line {
			t.Errorf("Escape(%q) = %q, and a Writer makes of it %q", s, got, whole)
		}
	})
}

func written(t *testing.T, pieces ...string) string {
	t.Helper()
	var b strings.Builder
	w := terminal.NewWriter(&b)
	for _, p := range pieces {
		if n, err := io.WriteString(w, p); n != len(p) || err != nil {
			t.Fatalf("wrote %d of %d bytes: %v", n, len(p), err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestJSONStaysWhatItIs: escaped JSON says the same.
func TestJSONStaysWhatItIs(t *testing.T) {
	var all strings.Builder
	for r := rune(0); r < 0x2100; r++ {
		all.WriteRune(r)
	}
	text, err := json.Marshal(map[string]string{all.String(): "\x1b\u009b🙂"})
	if err != nil {
		t.Fatal(err)
	}
	escaped := written(t, string(text))
	if strings.ContainsFunc(escaped, model.IsControl) {
		t.Errorf("a control character is left in %q", escaped)
	}
	var got map[string]string
	if err := json.Unmarshal([]byte(escaped), &got); err != nil || got[all.String()] != "\x1b\u009b🙂" {
		t.Errorf("escaped JSON is read as %q, %v", got, err)
	}
}

// TestControl: the process's own sequences pass, in their place.
func TestControl(t *testing.T) {
	var b strings.Builder
	w := terminal.NewWriter(&b)
	if terminal.NewWriter(w) != w {
		t.Error("a Writer before a Writer")
	}
	io.WriteString(w, "torn \xc3")
	if err := errors.Join(terminal.Control(w, "\x1b[K"), terminal.Control(&b, "\r")); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(w, "\x1b[K")
	if want := "torn \\xc3\x1b[K\r\\x1b[K"; b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}

func TestTable(t *testing.T) {
	table := terminal.NewTable("NAME", "COUNT", "NOTE").Indent(2)
	table.Row("大きい", 1, "wide")
	table.Row("e\u0301te\u0301", 22, "combining")
	table.Row("a\tb\nc\x1b[2J", 3.5, "")
	table.Row("x", true, "last\u009b")
	var b strings.Builder
	if err := table.Write(&b); err != nil {
		t.Fatal(err)
	}
	want := strings.Join([]string{
		"  NAME            COUNT  NOTE",
		"  大きい          1      wide",
		"  e\u0301te\u0301             22     combining",
		`  a\tb\nc\x1b[2J  3.5    `,
		`  x               true   last\u009b`,
		"",
	}, "\n")
	if got := b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
