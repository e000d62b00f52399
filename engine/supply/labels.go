package supply

import (
	"encoding/binary"
	"slices"

	"github.com/tonnage/tonnage/engine/model"
)

// labelSets interns a machine's zone and labels by content, as text:
//
//	| zone | key number, value | key number, value | …
//
// zone and values with their lengths in front, the labels in the order of their
// keys as strings. Number 0 is no zone and no labels.
type labelSets struct {
	names held // by encoding
	keys  held // of labels; one reference for each set that has the key
	// recent are sets held lately, the next to go at next: neighbours in a
	// listing are often alike.
	recent [4]uint32
	next   int
	// shared are sets that came with a number, by its last bits; see holdShared.
	shared [sharedMax]sharedLabels
	gone   uint64 // how many sets have gone
	// lateBound tells, by set, whether it has model.LabelLateBound; lateBounds counts these sets.
	lateBound  []bool
	lateBounds int
	order      []string
	enc        []byte
}

// sharedMax is how many sets are remembered by the number that they came with.
const sharedMax = 1 << 12

// sharedLabels is the set that labels with a number are, with some zone.
type sharedLabels struct {
	number uint64
	gone   uint64 // labelSets.gone by then
	set    uint32
}

// holdShared is hold for labels that may have a number, 0 = none; see
// Table.PutShared. What was remembered holds for as long as no set is gone, whose
// number another may have by now.
func (l *labelSets) holdShared(number uint64, zone string, labels map[string]string) uint32 {
	if number == 0 {
		return l.hold(zone, labels)
	}
	x := &l.shared[number%sharedMax]
	if x.number == number && x.gone == l.gone && l.zone(x.set) == zone {
		l.names.again(x.set)
		return x.set
	}
	*x = sharedLabels{number, l.gone, l.hold(zone, labels)}
	return x.set
}

// hold returns the number of a set and takes a reference to it.
func (l *labelSets) hold(zone string, labels map[string]string) uint32 {
	if zone == "" && len(labels) == 0 {
		return 0
	}
	for _, id := range l.recent {
		if id != 0 && l.names.refs[id] > 0 && l.same(id, zone, labels) {
			l.names.again(id)
			return id
		}
	}
	if l.encode(zone, labels, l.keys.lookup) {
		if id, ok := l.names.dict.LookupBytes(l.enc); ok {
			l.names.again(id)
			return l.remember(id)
		}
	}
	l.encode(zone, labels, func(key string) (uint32, bool) { return l.keys.hold(key), true })
	id := l.names.holdBytes(l.enc)
	for int(id) >= len(l.lateBound) {
		l.lateBound = append(l.lateBound, false)
	}
	if labels[model.LabelLateBound] == "true" {
		l.lateBound[id] = true
		l.lateBounds++
	}
	return l.remember(id)
}

func (l *labelSets) remember(id uint32) uint32 {
	l.recent[l.next] = id
	l.next = (l.next + 1) % len(l.recent)
	return id
}

// encode writes the set to l.enc; false when a key has no number.
func (l *labelSets) encode(zone string, labels map[string]string, number func(string) (uint32, bool)) bool {
	l.order = l.order[:0]
	for k := range labels {
		l.order = append(l.order, k)
	}
	if len(l.order) > 1 {
		slices.Sort(l.order)
	}
	l.enc = appendText(l.enc[:0], zone)
	all := true
	for _, k := range l.order {
		id, ok := number(k)
		if all = all && ok; !all {
			break
		}
		l.enc = appendText(binary.AppendUvarint(l.enc, uint64(id)), labels[k])
	}
	clear(l.order) // or the last record's keys would live on
	return all
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// labelReader reads an encoded set from front to back.
type labelReader struct{ rest string }

func (r *labelReader) number() uint32 {
	n, shift := uint32(0), 0
	for i := 0; ; i++ {
		b := r.rest[i]
		n |= uint32(b&0x7f) << shift
		if b < 0x80 {
			r.rest = r.rest[i+1:]
			return n
		}
		shift += 7
	}
}

func (r *labelReader) text() string {
	n := r.number()
	s := r.rest[:n]
	r.rest = r.rest[n:]
	return s
}

// read begins to read a set with its zone.
func (l *labelSets) read(id uint32) (zone string, r labelReader) {
	if id == 0 {
		return "", r
	}
	r = labelReader{l.names.text(id)}
	return r.text(), r
}

// zone returns the zone of a set.
func (l *labelSets) zone(id uint32) string {
	zone, _ := l.read(id)
	return zone
}

// value returns the value of a label of a set, and whether there is one.
// O(labels).
func (l *labelSets) value(id uint32, key string) (string, bool) {
	number, ok := l.keys.lookup(key)
	if !ok {
		return "", false
	}
	for _, r := l.read(id); r.rest != ""; {
		if k, v := r.number(), r.text(); k == number {
			return v, true
		}
	}
	return "", false
}

// labels returns the labels of a set as a new map, nil when there are none.
func (l *labelSets) labels(id uint32) map[string]string {
	_, r := l.read(id)
	if r.rest == "" {
		return nil
	}
	out := map[string]string{}
	for r.rest != "" {
		k := l.keys.text(r.number())
		out[k] = r.text()
	}
	return out
}

// same reports whether a set is the zone and the labels.
func (l *labelSets) same(id uint32, zone string, labels map[string]string) bool {
	have, r := l.read(id)
	if have != zone {
		return false
	}
	n := 0
	for ; r.rest != ""; n++ {
		k := l.keys.text(r.number())
		if v, ok := labels[k]; r.text() != v || !ok {
			return false
		}
	}
	return n == len(labels)
}

// release gives one reference back; a set that nobody has any more is gone.
func (l *labelSets) release(id uint32) {
	if id == 0 || l.names.refs[id] > 1 {
		l.names.release(id)
		return
	}
	for _, r := l.read(id); r.rest != ""; r.text() {
		l.keys.release(r.number())
	}
	l.names.release(id)
	if l.lateBound[id] {
		l.lateBound[id] = false
		l.lateBounds--
	}
	l.gone++
}

func (l *labelSets) bytes() int64 { return l.names.bytes() + l.keys.bytes() + int64(cap(l.lateBound)) }
