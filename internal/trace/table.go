package trace

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/tonnage/tonnage/engine/model"
)

// table reads a CSV file row by row and knows its columns by name. The first
// fault ends it; err holds the fault with file, line and column.
type table struct {
	path   string
	file   *os.File
	reader *csv.Reader
	column map[string]int
	record []string
	err    error
}

// schema is one accepted header. Columns may stand in any order.
type schema []string

// openTable opens a file and checks its header against the schemas that it may
// have.
func openTable(path string, schemas ...schema) (*table, error) {
	file, err := os.Open(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: no such file; the trace is a folder openb with its siblings topology and catalog, point to the folder openb", path)
		}
		return nil, fmt.Errorf("cannot open the trace: %w", err)
	}
	t := &table{path: path, file: file, reader: csv.NewReader(bufio.NewReaderSize(file, 64<<10))}
	t.reader.ReuseRecord = true
	if err := t.header(schemas); err != nil {
		file.Close()
		return nil, err
	}
	return t, nil
}

func (t *table) header(schemas []schema) error {
	names, err := t.reader.Read()
	if err == io.EOF {
		return fmt.Errorf("%s: the file is empty; it must begin with the header %s", t.path, strings.Join(schemas[0], ","))
	}
	if err != nil {
		return t.syntax(err)
	}
	t.column = make(map[string]int, len(names))
	for i, name := range names {
		if _, twice := t.column[name]; twice {
			return fmt.Errorf("%s: line 1: column %q occurs twice; remove one", t.path, name)
		}
		t.column[name] = i
	}
	// The schema that is meant is the one that lacks least.
	best, least := schemas[0], len(schemas[0])+len(names)+1
	for _, s := range schemas {
		if n := len(missing(s, names)) + len(missing(names, s)); n < least {
			best, least = s, n
		}
	}
	if lost := missing(best, names); len(lost) > 0 {
		return fmt.Errorf("%s: line 1: column %q is missing; the header must be %s", t.path, lost[0], strings.Join(best, ","))
	}
	if extra := missing(names, best); len(extra) > 0 {
		return fmt.Errorf("%s: line 1: unknown column %q (number %d); remove it, the header must be %s",
			t.path, extra[0], t.column[extra[0]]+1, strings.Join(best, ","))
	}
	return nil
}

// missing returns what of a is not in b.
func missing(a, b []string) []string {
	var out []string
	for _, s := range a {
		if !slices.Contains(b, s) {
			out = append(out, s)
		}
	}
	return out
}

// has reports whether the table has the column.
func (t *table) has(column string) bool {
	_, ok := t.column[column]
	return ok
}

// next reads the next row; false at the end or after a fault.
func (t *table) next() bool {
	if t.err != nil {
		return false
	}
	record, err := t.reader.Read()
	if err == io.EOF {
		return false
	}
	if err != nil {
		t.err = t.syntax(err)
		return false
	}
	t.record = record
	return true
}

// close ends the reading and returns the first fault.
func (t *table) close() error {
	if err := t.file.Close(); t.err == nil && err != nil {
		t.err = fmt.Errorf("%s: %w", t.path, err)
	}
	return t.err
}

// syntax puts the file in front of a reading error.
func (t *table) syntax(err error) error {
	var parse *csv.ParseError
	if errors.As(err, &parse) {
		return fmt.Errorf("%s: line %d, column %d: %w; every line must have the fields of the header", t.path, parse.Line, parse.Column, parse.Err)
	}
	return fmt.Errorf("%s: %w", t.path, err)
}

// fault records the first fault of a field of the current row.
func (t *table) fault(column, format string, args ...any) {
	if t.err != nil {
		return
	}
	line, _ := t.reader.FieldPos(t.column[column])
	t.err = fmt.Errorf("%s: line %d, column %q: %s", t.path, line, column, fmt.Sprintf(format, args...))
}

// text returns a field of the current row that passes model.CheckText; it stays
// valid.
func (t *table) text(column string) string {
	s := t.record[t.column[column]]
	if err := model.CheckText(s); err != nil {
		t.fault(column, "%v", err)
		return ""
	}
	return strings.Clone(s)
}

// whole returns a field that must be a whole number from 0 to limit.
func (t *table) whole(column string, limit int64) int64 {
	s := t.record[t.column[column]]
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil || v < 0 || v > limit {
		t.fault(column, "%q is not a whole number from 0 to %d; correct it", s, limit)
		return 0
	}
	return v
}

// dollars returns a field that must be a price; empty = 0 and false.
func (t *table) dollars(column string) (float64, bool) {
	s := t.record[t.column[column]]
	if s == "" {
		return 0, false
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v >= 0 && v < 1e6) {
		t.fault(column, "%q is not a price in dollars; correct it", s)
		return 0, false
	}
	return v, true
}
