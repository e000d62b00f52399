package document

import (
	"errors"
	"fmt"
	"strings"
)

// Field is one key of a kind of object.
type Field[T any] struct {
	Key      string
	Required bool
	Read     func(r *Reader, n *Node, into *T)
	// Is, Default and About describe the field; see Description.
	Is             Shape
	Default, About string
}

// Schema is the list of keys that a kind of object may have.
type Schema[T any] struct {
	fields []Field[T]
	index  map[string]int
	hints  map[string]string
}

// NewSchema returns the schema of the fields. Objects are read in the order of
// the fields, whatever the order of the file, so a field may use what those
// before it have read.
func NewSchema[T any](fields ...Field[T]) *Schema[T] {
	s := &Schema[T]{fields: fields, index: make(map[string]int, len(fields))}
	for i, f := range fields {
		s.index[f.Key] = i
	}
	return s
}

// Refuse makes the schema answer a key that it does not have with a remedy of
// its own instead of the nearest key.
func (s *Schema[T]) Refuse(key, remedy string) *Schema[T] {
	if s.hints == nil {
		s.hints = make(map[string]string)
	}
	s.hints[key] = remedy
	return s
}

// Read decodes an object. Null values count as absent. Unknown keys, keys that
// occur twice and required keys that are missing are faults.
func (s *Schema[T]) Read(r *Reader, n *Node, into *T) {
	if n.Kind != Object {
		r.Fault("must be an object with the keys %s; got %s", s.keys(), Describe(n))
		return
	}
	var few [32]*Node
	at := few[:len(s.fields)]
	for i := range n.Items {
		item := &n.Items[i]
		f, ok := s.index[item.Key]
		switch {
		case !ok:
			r.faultOn(item, "%s", s.unknown(item.Key))
		case at[f] != nil:
			r.faultOn(item, "the key occurs twice")
		default:
			at[f] = item
		}
	}
	for i := range s.fields {
		f := &s.fields[i]
		if at[i] == nil || at[i].Kind == Null {
			if f.Required {
				r.FaultKey(f.Key, "is missing")
			}
			continue
		}
		r.Enter(f.Key)
		f.Read(r, at[i], into)
		r.Leave()
	}
}

// Unmarshal reads a whole document, JSON or YAML, with a schema. The error joins its faults, each with the path of what
// is wrong.
func Unmarshal[T any](text []byte, schema *Schema[T], into *T) error {
	root, fault := Parse(text)
	if fault != nil {
		return fault
	}
	var r Reader
	schema.Read(&r, root, into)
	faults, more := r.Faults()
	var all []error
	for i := range faults {
		all = append(all, &faults[i])
	}
	if more > 0 {
		all = append(all, fmt.Errorf("and %d more", more))
	}
	return errors.Join(all...)
}

func (s *Schema[T]) keys() string {
	names := make([]string, len(s.fields))
	for i := range s.fields {
		names[i] = s.fields[i].Key
	}
	return strings.Join(names, ", ")
}

// unknown is the message for a key that the schema does not have.
func (s *Schema[T]) unknown(key string) string {
	if remedy, ok := s.hints[key]; ok {
		return remedy
	}
	names := make([]string, len(s.fields))
	for i := range s.fields {
		names[i] = s.fields[i].Key
	}
	if near := Nearest(key, names); near != "" {
		return fmt.Sprintf("unknown key; did you mean %s?", near)
	}
	return "unknown key; known are " + s.keys()
}

// Nearest returns the name that is most likely meant by a misspelt one, ""
// when none is near. Of equally near ones the first wins.
func Nearest(name string, names []string) string {
	if len(name) > NameBytesMax {
		return ""
	}
	best, bestDistance := "", 1+max(1, len(name)/3)
	for _, n := range names {
		if d := distance(strings.ToLower(name), strings.ToLower(n), bestDistance); d < bestDistance {
			best, bestDistance = n, d
		}
	}
	return best
}

// distance is the number of letters to insert, delete, replace or swap with
// their neighbour to make b of a; limit when it is not below limit.
func distance(a, b string, limit int) int {
	if d := len(a) - len(b); d >= limit || -d >= limit {
		return limit
	}
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	for j := range rows[1] {
		rows[1][j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row := rows[(i-1)%3], rows[i%3], rows[(i+1)%3]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replace := last[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			row[j] = min(replace, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return min(limit, rows[(len(a)+1)%3][len(b)])
}
