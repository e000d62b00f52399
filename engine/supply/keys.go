package supply

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// Limits of the attribute keys that the table keeps track of.
const (
	// KeysMax is the most attribute keys that demand may use at one time.
	KeysMax = 1024
	// keyIdleCycles is after how many calls of Use a key goes that no demand
	// has used: an hour of cycles. Its column is memory for every machine, but
	// a key that splits classes costs a walk over all machines to drop and
	// another one to come back.
	keyIdleCycles = 360
	// spreadValuesMax is up to how many values a key that demand uses for hard
	// spread splits classes: zones do, host names do not.
	spreadValuesMax = 64
)

// keyColumn is the column of one attribute key that demand uses: each row's
// value number, 0 when the machine does not have the attribute. Values are
// interned with a leading '=', so that an empty value differs from none.
type keyColumn struct {
	key      string // "" = the column is not in use
	values   []uint32
	lastUsed uint64 // call of Use
	matchers int    // that look at the value by itself
	// lastSpread is the last call of Use with a hard spread over the key, 0 =
	// none; from then on rows counts the machines by value, until there are
	// too many values to split by.
	lastSpread uint64
	rows       map[uint32]uint32
	tooMany    bool
	splits     bool // machines of one class agree in it
}

func (k *keyColumn) live() bool { return k.key != "" }

// shouldSplit reports whether classes have to agree in the key.
func (k *keyColumn) shouldSplit() bool {
	return k.live() && (k.matchers > 0 || k.lastSpread > 0 && !k.tooMany)
}

// value returns the number that the attribute of m has under the key, with a
// reference taken.
func (t *Table) value(m attributes, key string) uint32 {
	v, ok := m.Attribute(key)
	if !ok {
		return 0
	}
	t.text = append(append(t.text[:0], '='), v...)
	return t.values.holdBytes(t.text)
}

// setValue writes a row's value, whose reference the caller has taken.
func (t *Table) setValue(k *keyColumn, r columnar.Row, value uint32) {
	old := k.values[r]
	k.values[r] = value
	if k.rows != nil && old != value {
		k.count(old, -1)
		k.count(value, 1)
		t.overgrown = k.limit() || t.overgrown
	}
	t.values.release(old)
}

// count counts machines of a value in or out.
func (k *keyColumn) count(value uint32, by int) {
	if value == 0 {
		return
	}
	n := uint32(int(k.rows[value]) + by)
	if n == 0 {
		delete(k.rows, value)
		return
	}
	k.rows[value] = n
}

// limit stops the counting, and so the splitting for spread, when there are
// too many values, and reports whether it did. It stays so until no demand has
// spread over the key for a while.
func (k *keyColumn) limit() bool {
	if len(k.rows) <= spreadValuesMax {
		return false
	}
	k.rows, k.tooMany = nil, true
	return true
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

// Attribute is model.Machine.Attribute.
func (a rowAttributes) Attribute(key string) (string, bool) {
	c := &a.t.cols
	typed := ""
	switch key {
	case model.KeyInstanceType:
		typed = a.t.names.text(c.instanceType[a.r])
	case model.KeyZone:
		typed = a.t.names.text(c.zone[a.r])
	case model.KeyCapacityType:
		typed = c.capacity[a.r].Label()
	}
	if typed != "" {
		return typed, true
	}
	v, ok := a.t.labels.sets[c.labels[a.r]][key]
	return v, ok
}

// Key returns the number of an attribute key's column, −1 when the table does
// not keep track of the key. Numbers hold until the next Use.
func (t *Table) Key(key string) int {
	if i, ok := t.keyIDs[key]; ok {
		return i
	}
	return -1
}

// Values returns the column of a key in use: by row the number of the value,
// 0 = absent. Valid until the next change; do not modify.
func (t *Table) Values(key int) []uint32 { return t.keys[key].values }

// ValueString returns the value of a number that a machine has, "" for 0.
func (t *Table) ValueString(id uint32) string {
	if id == 0 {
		return ""
	}
	return t.values.text(id)[1:]
}

// ValueIDMax is one more than the largest value number in use.
func (t *Table) ValueIDMax() int { return t.values.max() }

// Splits reports whether machines of one class always agree in a key.
func (t *Table) Splits(key int) bool { return t.keys[key].splits }

// useKey returns the column of a key, making it if there is none: O(machines)
// then. When there are too many, those that this Use has not asked for go.
func (t *Table) useKey(key string) (int, error) {
	i := t.Key(key)
	if i < 0 {
		if len(t.keyIDs) >= KeysMax {
			t.dropKeys(func(k *keyColumn) bool { return k.lastUsed < t.matchers.tick })
		}
		if len(t.keyIDs) >= KeysMax {
			return 0, fmt.Errorf("demand uses more than %d attribute keys; %q is one too many", KeysMax, key)
		}
		i = t.addKey(key)
	}
	t.keys[i].lastUsed = t.matchers.tick
	return i, nil
}

func (t *Table) addKey(key string) int {
	k := keyColumn{key: key, values: make([]uint32, len(t.cols.state))}
	for _, r := range t.Order() {
		k.values[r] = t.value(rowAttributes{t, r}, key)
	}
	i := len(t.keyIDs)
	if i == len(t.keys) {
		t.keys = append(t.keys, k)
	} else { // one is free
		for i = 0; t.keys[i].live(); i++ {
		}
		t.keys[i] = k
	}
	t.keyIDs[key] = i
	return i
}

// useSpread notes that demand spreads over the key of a column.
func (t *Table) useSpread(key int) {
	k := &t.keys[key]
	k.lastUsed = t.matchers.tick
	if k.lastSpread == 0 {
		k.rows = map[uint32]uint32{}
		for _, r := range t.Order() {
			if k.count(k.values[r], 1); len(k.rows) > spreadValuesMax {
				break
			}
		}
		k.limit()
	}
	k.lastSpread = t.matchers.tick
}

// dropKeys lets go of the keys that no demand uses, and of the matchers that
// look at them.
func (t *Table) dropKeys(unused func(*keyColumn) bool) {
	for i := range t.keys {
		k := &t.keys[i]
		if !k.live() || !unused(k) {
			continue
		}
		t.dropMatchers(func(m *matcher) bool { return m.looksAt(i) })
		maps.DeleteFunc(t.matchers.byProfile, func(_ *model.Profile, u *profileUse) bool { return slices.Contains(u.spread, i) })
		for _, v := range k.values {
			t.values.release(v)
		}
		delete(t.keyIDs, k.key)
		*k = keyColumn{splits: k.splits} // resplit forms the classes anew
	}
	t.resplit()
}

// resplit forms the classes anew if other keys have to split them than do.
func (t *Table) resplit() {
	changed := false
	t.overgrown = false
	for i := range t.keys {
		k := &t.keys[i]
		if should := k.shouldSplit(); should != k.splits {
			k.splits, changed = should, true
		}
	}
	if changed {
		t.reclass()
	}
}
