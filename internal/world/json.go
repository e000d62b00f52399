package world

import (
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/tonnage/tonnage/engine/model"
)

// jsonWriter builds JSON text. Values in objects and lists are told apart by
// what was written last, so callers write keys and values and no commas.
type jsonWriter struct {
	b []byte
}

// comma writes what separates a value from the one before it.
func (j *jsonWriter) comma() {
	if len(j.b) == 0 {
		return
	}
	switch j.b[len(j.b)-1] {
	case '{', '[', ' ', '\n':
	default:
		j.b = append(j.b, ", "...)
	}
}

func (j *jsonWriter) open(c byte) {
	j.comma()
	j.b = append(j.b, c)
}

func (j *jsonWriter) close(c byte) { j.b = append(j.b, c) }

// line begins a new line for the next value.
func (j *jsonWriter) line(indent string) {
	if last := j.b[len(j.b)-1]; last != '{' && last != '[' {
		j.b = append(j.b, ',')
	}
	j.b = append(append(j.b, '\n'), indent...)
}

func (j *jsonWriter) key(key string) {
	j.text(key)
	j.b = append(j.b, ": "...)
}

func (j *jsonWriter) text(s string) {
	j.comma()
	j.b = appendText(j.b, s)
}

func (j *jsonWriter) int(v int64) {
	j.comma()
	j.b = strconv.AppendInt(j.b, v, 10)
}

func (j *jsonWriter) bool(v bool) {
	j.comma()
	j.b = strconv.AppendBool(j.b, v)
}

func (j *jsonWriter) texts(list []string) {
	j.open('[')
	for _, s := range list {
		j.text(s)
	}
	j.close(']')
}

func (j *jsonWriter) resources(r model.Resources) {
	j.open('{')
	for _, a := range r {
		j.key(a.Name)
		j.text(model.FormatQuantity(a.Name, a.Value))
	}
	j.close('}')
}

const hexDigits = "0123456789abcdef"

// appendText appends s as a JSON text. Control characters, those of text direction
// included, are escaped, so that the JSON can be shown on a terminal. Text that is
// not UTF-8 becomes the replacement character.
func appendText(b []byte, s string) []byte {
	b = append(b, '"')
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if model.IsControl(r) { // all of them have four digits
				b = append(b, '\\', 'u', hexDigits[r>>12], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
			} else {
				b = utf8.AppendRune(b, r)
			}
			i += n
			continue
		}
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c == '\n':
			b = append(b, `\n`...)
		case c == '\t':
			b = append(b, `\t`...)
		case c < ' ' || c == 0x7f:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		default:
			b = append(b, c)
		}
		i++
	}
	return append(b, '"')
}

// WriteJSON writes the answer, one line for each action and Need.
func (a *Answer) WriteJSON(out io.Writer) error {
	j := &jsonWriter{b: make([]byte, 0, 4096+160*(len(a.Actions)+len(a.Needs))+16*len(a.Claimed))}
	j.open('{')
	writeList(j, "actions", a.Actions, writeAction)
	j.line(" ")
	writeList(j, "needs", a.Needs, writeNeed)
	j.line(" ")
	j.key("claimed")
	j.texts(a.Claimed)
	j.line(" ")
	writeList(j, "shortfalls", a.Shortfalls, writeShortfall)
	j.line(" ")
	a.writeStats(j)
	j.line(" ")
	j.bill(&a.Bill)
	if a.Explain != nil {
		j.line(" ")
		a.Explain.write(j)
	}
	j.close('}')
	j.b = append(j.b, '\n')
	_, err := out.Write(j.b)
	return err
}

// writeList writes a key and a list with a line for each item.
func writeList[T any](j *jsonWriter, key string, list []T, item func(*jsonWriter, *T)) {
	j.key(key)
	j.open('[')
	for i := range list {
		j.line("  ")
		item(j, &list[i])
	}
	j.close(']')
}

func writeAction(j *jsonWriter, a *Action) {
	j.open('{')
	j.key("kind")
	j.text(a.Kind.String())
	j.key("machine")
	j.text(a.Machine)
	j.key("cluster")
	j.text(a.Cluster)
	j.key("need")
	j.text(a.Need)
	j.key("group")
	j.text(a.Group)
	j.key("graceSeconds")
	j.int(int64(a.GraceSeconds))
	j.key("preemptorPriority")
	j.int(int64(a.PreemptorPriority))
	j.key("reason")
	j.text(a.Reason.String())
	j.close('}')
}

func writeNeed(j *jsonWriter, n *NeedRow) {
	j.open('{')
	j.key("name")
	j.text(n.Name)
	j.key("cluster")
	j.text(n.Cluster)
	j.key("satisfied")
	j.bool(n.Satisfied)
	j.key("deficit")
	j.resources(n.Deficit)
	j.key("domain")
	j.text(n.Domain)
	j.key("claimed")
	j.texts(n.Claimed)
	j.key("bootstrap")
	j.int(int64(n.Bootstrap))
	j.key("provision")
	j.int(int64(n.Provision))
	j.key("reason")
	j.text(n.Reason.String())
	j.close('}')
}

func writeShortfall(j *jsonWriter, s *Shortfall) {
	j.open('{')
	j.key("need")
	j.text(s.Need)
	j.key("cluster")
	j.text(s.Cluster)
	j.key("deficit")
	j.resources(s.Deficit)
	j.key("age")
	j.int(int64(s.Age))
	j.close('}')
}

func (a *Answer) writeStats(j *jsonWriter) {
	s := &a.Stats
	j.key("stats")
	j.open('{')
	for _, f := range [...]struct {
		key   string
		value int64
	}{
		{"machines", int64(s.Machines)},
		{"needs", int64(s.Needs)},
		{"phase1Micros", s.Phase1Nanos / 1000},
		{"phase2Micros", s.Phase2Nanos / 1000},
		{"phase3Micros", s.Phase3Nanos / 1000},
		{"normalizeMicros", s.NormaliseNanos / 1000},
	} {
		j.key(f.key)
		j.int(f.value)
	}
	j.close('}')
}
