package reference

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/tonnage/tonnage/internal/world/document"
)

// Section is a heading, what stands below it, and the table of a kind of object.
type Section struct {
	Heading, Text string
	Fields        []document.Description
}

// WriteMarkdown writes the tables of all sections, each followed by those of the objects that its
// fields refer to and that no section before has.
func WriteMarkdown(out io.Writer, sections []Section) error {
	w := bufio.NewWriter(out)
	m := markdown{w: w, done: map[string]bool{}}
	for i := range sections {
		s := &sections[i]
		m.done[strings.ToLower(s.Heading)] = true
		fmt.Fprintf(w, "\n## %s\n\n%s\n", s.Heading, s.Text)
		m.table(s.Fields)
		for len(m.next) > 0 {
			kind := m.next[0]
			m.next = m.next[1:]
			fmt.Fprintf(w, "\n### %s\n", kind.Title)
			m.table(kind.Object())
		}
	}
	return w.Flush()
}

type markdown struct {
	w    io.Writer
	done map[string]bool // kinds that have a table, or will
	next []document.Shape
}

func (m *markdown) table(fields []document.Description) {
	fmt.Fprint(m.w, "\n| key | value | default | what |\n|---|---|---|---|\n")
	for i := range fields {
		f := &fields[i]
		fallback := f.Default
		if f.Required {
			fallback = "**required**"
		}
		fmt.Fprintf(m.w, "| `%s` | %s | %s | %s |\n", f.Key, m.says(&f.Is), fallback, f.About)
	}
}

// says puts a shape into words.
func (m *markdown) says(s *document.Shape) string {
	switch s.Type {
	case document.TypeText:
		return "text"
	case document.TypeName:
		return "a name"
	case document.TypeWord:
		return strings.Join(s.Words, ", ")
	case document.TypeInteger:
		return "a whole number" + bounds(s)
	case document.TypeNumber:
		words := ""
		for _, w := range s.Words {
			words += ", or `" + strconv.Quote(w) + "`"
		}
		return "a number" + bounds(s) + words
	case document.TypeBool:
		return "true or false"
	case document.TypeTime:
		return "a time, RFC 3339"
	case document.TypeDuration:
		return "a time span: `90s`, `10m`, or seconds"
	case document.TypeHex:
		return "16 hexadecimal digits"
	case document.TypeQuantities:
		return "quantities by dimension"
	case document.TypeTexts:
		return "texts by key"
	case document.TypeNumbers:
		return "numbers by key" + bounds(s)
	case document.TypeList:
		return "a list: " + m.says(s.Items)
	case document.TypeObject:
		if !m.done[s.Title] {
			m.done[s.Title] = true
			m.next = append(m.next, *s)
		}
		return fmt.Sprintf("[%s](#%s)", s.Title, strings.ToLower(s.Title))
	case document.TypeChoice:
		var all []string
		for i := range s.Choices {
			all = append(all, m.says(&s.Choices[i]))
		}
		return strings.Join(all, ", or ")
	}
	return ""
}

func bounds(s *document.Shape) string {
	low := strconv.FormatFloat(s.Min, 'f', -1, 64)
	switch {
	case s.Min <= math.MinInt32 && s.Max >= math.MaxInt32:
		return ", 32 bits, signed"
	case math.IsInf(s.Max, 1) || s.Max >= math.MaxInt32:
		return ", at least " + low
	}
	return ", from " + low + " to " + strconv.FormatFloat(s.Max, 'f', -1, 64)
}
