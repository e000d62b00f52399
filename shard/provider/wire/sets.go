package wire

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/stamps"
)

const (
	// SetsMax is how many sets of one kind are kept for the records that share
	// them; beyond it all are forgotten.
	SetsMax = 1 << 16
	// setsKept is how many are kept for the next listing: it reads few records,
	// as a rule, and a set takes about a kilobyte.
	setsKept = 1 << 12
	// EntriesMax is the most entries that a map of one record may have.
	EntriesMax = 1 << 12
)

// entry is an entry of a map, parts of the message.
type entry struct{ raw, key, value []byte }

// entries collects one map of a record.
type entries struct {
	list []entry
	num  protowire.Number // of the field
	sum  uint64           // their part in the record's digest, 0 = not known
}

func (e *entries) reset(num protowire.Number, sum uint64) {
	e.list, e.num, e.sum = e.list[:0], num, sum
}

// digest is the same for entries in any order.
func (e *entries) digest() uint64 {
	if e.sum != 0 {
		return e.sum
	}
	var d digest
	for i := range e.list {
		d.entry(e.num, e.list[i].raw)
	}
	return d.total
}

// add reads one entry. Whether its key and value are text is for find to say,
// but of what stands there several times the last one holds, and find sees none
// of the others.
func (e *entries) add(b []byte) error {
	if len(e.list) == EntriesMax {
		return fmt.Errorf("has more than %d entries", EntriesMax)
	}
	x := entry{raw: b}
	c := cursor{buf: b}
	for c.next() {
		field := &x.key
		switch {
		case c.holds(fieldEntryKey):
		case c.holds(fieldEntryValue):
			field = &x.value
		default:
			continue
		}
		if !utf8.Valid(*field) {
			return errText
		}
		*field = c.bytes
	}
	if c.err != nil {
		return c.err
	}
	e.list = append(e.list, x)
	return nil
}

// set is a map as records share it, and what it means.
type set struct {
	digest    uint64
	number    uint64 // of labels, 0 = model.CheckLabels refuses them
	entries   map[string]string
	raw       []string // the entries as they came when the set was first met
	resources model.Resources
	decoded   *stamps.Decoded // of metadata
}

// is reports whether the entries are the set's, each once.
func (s *set) is(e *entries) bool {
	if s == nil || len(e.list) != len(s.entries) {
		return false
	}
	if s.wasLike(e) {
		return true
	}
	for i := range e.list {
		if v, ok := s.entries[borrow(e.list[i].key)]; !ok || v != borrow(e.list[i].value) {
			return false
		}
	}
	return true
}

// wasLike reports whether the entries came like that when the set was first met.
func (s *set) wasLike(e *entries) bool {
	for i := range e.list {
		if s.raw[i] != borrow(e.list[i].raw) {
			return false
		}
	}
	return true
}

// sets are those met so far.
type sets struct {
	labels, resources, metadata memo
}

// memo finds sets of one kind.
type memo struct {
	byDigest map[uint64]*set
	last     *set // neighbours in a listing are often alike
}

// find returns the set of the entries, a new one when it was not met before.
func (m *memo) find(e *entries, fill func(*set) error) (*set, error) {
	digest := e.digest()
	if s := m.last; s != nil && s.digest == digest && s.is(e) {
		return s, nil
	}
	if s := m.byDigest[digest]; s.is(e) {
		m.last = s
		return s, nil
	}
	s := &set{digest: digest, entries: make(map[string]string, len(e.list))}
	for _, x := range e.list {
		s.raw = append(s.raw, string(x.raw))
		if !utf8.Valid(x.key) || !utf8.Valid(x.value) {
			return nil, errors.New("holds text that is not UTF-8")
		}
		s.entries[string(x.key)] = string(x.value)
	}
	if err := fill(s); err != nil {
		return nil, err
	}
	if m.byDigest == nil || len(m.byDigest) >= SetsMax {
		m.byDigest = map[uint64]*set{}
	}
	m.byDigest[digest], m.last = s, s
	return s, nil
}

// number gives labels a number if they are in order. Of those that are not, the
// shard says so for each machine that has them.
func number(s *set) error {
	if model.CheckLabels(s.entries) == nil {
		s.number = shard.NumberLabels()
	}
	return nil
}

// quantities reads a set as resources.
func quantities(s *set) error {
	r, faults := model.ParseResources(s.entries)
	if len(faults) > 0 {
		texts := make([]string, len(faults))
		for i, f := range faults {
			texts[i] = f.Error()
		}
		return errors.New(strings.Join(texts, "; "))
	}
	s.resources = r
	return nil
}

// readStamps reads a set as metadata. What is malformed in it is no fault of the
// record: the shard says so and goes on.
func readStamps(s *set) error {
	d := stamps.Decode(s.entries)
	s.decoded = &d
	return nil
}
