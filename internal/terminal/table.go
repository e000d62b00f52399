package terminal

import (
	"fmt"
	"io"
	"strings"
	"unicode"

	"golang.org/x/text/width"
)

// gap is how many columns lie between two cells.
const gap = 2

// Table collects rows and writes them in columns. Every cell is escaped.
type Table struct {
	indent string
	rows   [][]string
	widths []int
}

// NewTable returns a table with a first row, its head.
func NewTable(head ...string) *Table {
	t := &Table{}
	cells := make([]any, len(head))
	for i, h := range head {
		cells[i] = h
	}
	t.Row(cells...)
	return t
}

// Indent has every line begin with so many spaces, and returns the table.
func (t *Table) Indent(columns int) *Table {
	t.indent = strings.Repeat(" ", columns)
	return t
}

// Row adds a row. A cell is written as fmt.Sprint has it, and escaped.
func (t *Table) Row(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		text, ok := c.(string)
		if !ok {
			text = fmt.Sprint(c)
		}
		row[i] = Escape(text)
		if i == len(t.widths) {
			t.widths = append(t.widths, 0)
		}
		t.widths[i] = max(t.widths[i], Width(row[i]))
	}
	t.rows = append(t.rows, row)
}

// Write writes the table: columns as wide as their widest cell, and no spaces behind
// the last.
func (t *Table) Write(w io.Writer) error {
	var b strings.Builder
	for _, row := range t.rows {
		b.WriteString(t.indent)
		for i, cell := range row {
			b.WriteString(cell)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", t.widths[i]-Width(cell)+gap))
			}
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Width returns how many columns of a terminal an escaped text takes.
func Width(s string) int {
	n := 0
	for i, r := range s {
		if r >= 0x80 {
			return n + widthOfAny(s[i:])
		}
		n++
	}
	return n
}

// widthOfAny is Width for text that is not ASCII.
func widthOfAny(s string) int {
	n := 0
	for _, r := range s {
		switch {
		case r < 0x80:
			n++
		case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf): // drawn with the one before, or not at all
		case wide(r):
			n += 2
		default:
			n++
		}
	}
	return n
}

func wide(r rune) bool {
	k := width.LookupRune(r).Kind()
	return k == width.EastAsianWide || k == width.EastAsianFullwidth
}
