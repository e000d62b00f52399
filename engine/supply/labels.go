package supply

import (
	"encoding/binary"
	"maps"
	"slices"
)

// labelSets interns label maps by content; number 0 is the empty set.
type labelSets struct {
	names   held // by encoding
	sets    []map[string]string
	entries int // of all sets
	keys    []string
	enc     []byte
}

func newLabelSets() labelSets { return labelSets{sets: make([]map[string]string, 1)} }

func (l *labelSets) hold(labels map[string]string) uint32 {
	if len(labels) == 0 {
		return 0
	}
	l.encode(labels)
	if id, ok := l.names.dict.LookupBytes(l.enc); ok {
		l.names.again(id)
		return id
	}
	id := l.names.holdBytes(l.enc)
	for int(id) >= len(l.sets) {
		l.sets = append(l.sets, nil)
	}
	l.sets[id] = maps.Clone(labels)
	l.entries += len(labels)
	return id
}

// encode writes the labels to l.enc, by key and with every length in front.
func (l *labelSets) encode(labels map[string]string) {
	l.keys = l.keys[:0]
	for k := range labels {
		l.keys = append(l.keys, k)
	}
	slices.Sort(l.keys)
	l.enc = l.enc[:0]
	for _, k := range l.keys {
		v := labels[k]
		l.enc = binary.AppendUvarint(l.enc, uint64(len(k)))
		l.enc = append(l.enc, k...)
		l.enc = binary.AppendUvarint(l.enc, uint64(len(v)))
		l.enc = append(l.enc, v...)
	}
	clear(l.keys) // or the last record's keys would live on
}

// release gives one reference back; a set that nobody has any more is gone.
func (l *labelSets) release(id uint32) {
	if l.names.release(id) {
		l.entries -= len(l.sets[id])
		l.sets[id] = nil
	}
}

func (l *labelSets) bytes() int64 {
	const (
		header = 48 + 8 // of a map, and the pointer to it
		entry  = 2*16*2 + 1
	)
	return l.names.bytes() + int64(l.names.dict.Len())*header + int64(l.entries)*entry
}
