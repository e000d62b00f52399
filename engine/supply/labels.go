package supply

import (
	"encoding/binary"
	"maps"
	"slices"
)

// labelSets interns label maps by content; number 0 is the empty set.
type labelSets struct {
	names interner // by encoding
	sets  []map[string]string
	keys  []string
	enc   []byte
}

func newLabelSets() labelSets {
	return labelSets{names: newInterner(), sets: make([]map[string]string, 1)}
}

func (l *labelSets) hold(labels map[string]string) uint32 {
	if len(labels) == 0 {
		return 0
	}
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
	if id, ok := l.names.ids[string(l.enc)]; ok {
		l.names.refs[id]++
		return id
	}
	id := l.names.hold(string(l.enc))
	for int(id) >= len(l.sets) {
		l.sets = append(l.sets, nil)
	}
	l.sets[id] = maps.Clone(labels)
	return id
}

func (l *labelSets) release(id uint32) {
	l.names.release(id)
	if id != 0 && l.names.refs[id] == 0 {
		l.sets[id] = nil
	}
}
