package wire

import (
	"bytes"
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

// entries collects one map of a record: its entries as they came, parts of the message.
type entries struct {
	list [][]byte
	num  protowire.Number // of the field
	sum  uint64           // their part in the record's digest, 0 = not known
	last *set             // of the record before: neighbours in a listing are often alike
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
	for _, raw := range e.list {
		d.entry(e.num, raw)
	}
	return d.total
}

// add takes an entry. What it says is looked at only when no set came like that before.
func (e *entries) add(raw []byte) error {
	if len(e.list) == EntriesMax {
		return fmt.Errorf("has more than %d entries", EntriesMax)
	}
	e.list = append(e.list, raw)
	return nil
}

var errEntry = errors.New("holds text that is not UTF-8")

// parseEntry reads one entry. Of what stands there several times the last one holds.
func parseEntry(raw []byte) (key, value string, err error) {
	c := cursor{buf: raw}
	for c.next() {
		into := &key
		switch {
		case c.holds(fieldEntryKey):
		case c.holds(fieldEntryValue):
			into = &value
		default:
			continue
		}
		if !utf8.Valid(c.bytes) {
			return "", "", errEntry
		}
		*into = borrow(c.bytes)
	}
	return key, value, c.err
}

// set is a map as records share it, and what it means.
type set struct {
	number    uint64 // of labels, 0 = model.CheckLabels refuses them
	entries   map[string]string
	raw       []string // the entries as they came when the set was first met
	resources model.Resources
	decoded   *stamps.Decoded // of metadata
}

// is reports whether the entries are the set's.
func (s *set) is(e *entries) bool {
	if s == nil {
		return false
	}
	if s.wasLike(e) {
		return true
	}
	if len(e.list) != len(s.entries) {
		return false
	}
	for _, raw := range e.list {
		key, value, err := parseEntry(raw)
		if v, ok := s.entries[key]; err != nil || !ok || v != value {
			return false
		}
	}
	return true
}

// fewEntries is up to how many entries are looked for one by one.
const fewEntries = 16

// wasLike reports whether these entries came when the set was first met, byte by byte: in the same order or, where they are few, in
// any. Encoders write maps in another order each time.
func (s *set) wasLike(e *entries) bool {
	if len(e.list) != len(s.raw) {
		return false
	}
	i := 0
	for i < len(e.list) && s.raw[i] == borrow(e.list[i]) {
		i++
	}
	if i == len(e.list) || len(e.list) > fewEntries || len(s.raw) > len(s.entries) { // of a key twice the last one holds
		return i == len(e.list)
	}
	found := uint(1)<<i - 1 // which of the set's
	for _, raw := range e.list[i:] {
		k := i
		for k < len(s.raw) && (found&(1<<k) != 0 || s.raw[k] != borrow(raw)) {
			k++
		}
		if k == len(s.raw) {
			return false
		}
		found |= 1 << k
	}
	return true
}

// sets are those met so far.
type sets struct {
	labels, resources, metadata memo
}

// memo finds sets of one kind.
type memo struct{ byDigest map[uint64]*set }

// find returns the set of the entries, a new one when it was not met before.
func (m *memo) find(e *entries, fill func(*set) error) (*set, error) {
	if e.last != nil && e.last.wasLike(e) {
		return e.last, nil
	}
	digest := e.digest()
	if s := m.byDigest[digest]; s.is(e) {
		e.last = s
		return s, nil
	}
	s := &set{entries: make(map[string]string, len(e.list))}
	for _, raw := range e.list {
		own := bytes.Clone(raw)
		key, value, err := parseEntry(own)
		if err != nil {
			return nil, err
		}
		s.raw = append(s.raw, borrow(own))
		s.entries[key] = value
	}
	if err := fill(s); err != nil {
		return nil, err
	}
	if m.byDigest == nil || len(m.byDigest) >= SetsMax {
		m.byDigest = map[uint64]*set{}
	}
	m.byDigest[digest], e.last = s, s
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
