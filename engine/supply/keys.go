package supply

import (
	"strings"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// keyColumn is the column of one attribute key that demand uses: each row's
// value number, 0 when the machine does not have the attribute. Values are
// interned with a leading '=', so that an empty value differs from none.
type keyColumn struct {
	key    string
	match  bool // a matcher looks at it, so it splits classes
	values []uint32
}

// value returns the number that the attribute of m has under the key, with a
// reference taken.
func (t *Table) value(m attributes, key string) uint32 {
	v, ok := m.Attribute(key)
	if !ok {
		return 0
	}
	return t.values.hold("=" + v)
}

// attributes is what a requirement can look at.
type attributes interface {
	Attribute(key string) (string, bool)
}

// rowAttributes reads the attributes of a stored machine.
type rowAttributes struct {
	t *Table
	r columnar.Row
}

func (a rowAttributes) Attribute(key string) (string, bool) {
	c := &a.t.cols
	typed := ""
	switch key {
	case model.KeyInstanceType:
		typed = a.t.names.strs[c.instanceType[a.r]]
	case model.KeyZone:
		typed = a.t.names.strs[c.zone[a.r]]
	case model.KeyCapacityType:
		typed = c.capacity[a.r].Label()
	}
	if typed != "" {
		return typed, true
	}
	v, ok := a.t.labels.sets[c.labels[a.r]][key]
	return v, ok
}

// Key returns the number of an attribute key's column, −1 when no demand uses
// the key.
func (t *Table) Key(key string) int {
	for i := range t.keys {
		if t.keys[i].key == key {
			return i
		}
	}
	return -1
}

// Values returns the column of a key in use: by row the number of the value,
// 0 = absent. Valid until the next change; do not modify.
func (t *Table) Values(key int) []uint32 { return t.keys[key].values }

// ValueString returns the value of a number other than 0.
func (t *Table) ValueString(id uint32) string { return strings.TrimPrefix(t.values.strs[id], "=") }

// ValueIDMax is one more than the largest value number in use.
func (t *Table) ValueIDMax() int { return len(t.values.strs) }

// useKey makes sure that the key has a column, and that it splits classes if
// match is set. It reports whether classes must be formed anew.
func (t *Table) useKey(key string, match bool) (reclass bool) {
	i := t.Key(key)
	if i < 0 {
		i = len(t.keys)
		k := keyColumn{key: key, values: make([]uint32, len(t.cols.state))}
		for _, r := range t.order() {
			k.values[r] = t.value(rowAttributes{t, r}, key)
		}
		t.keys = append(t.keys, k)
	}
	if match && !t.keys[i].match {
		t.keys[i].match = true
		return true
	}
	return false
}

// Splits reports whether machines of one class always agree in a key.
func (t *Table) Splits(key int) bool { return t.keys[key].match }

// spreadValuesMax is up to how many values a key that demand uses for hard
// spread splits classes: zones do, host names do not.
const spreadValuesMax = 64

// fewValues reports whether a key has few enough values to split classes.
func (t *Table) fewValues(key int) bool {
	seen := make(map[uint32]struct{}, spreadValuesMax+1)
	for _, v := range t.keys[key].values {
		if seen[v] = struct{}{}; len(seen) > spreadValuesMax {
			return false
		}
	}
	return true
}
