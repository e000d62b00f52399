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
	// foldKeysMax is how many columns there may be for what requirements of folds say
	// of an attribute. Folds beyond that split classes by the attribute's value.
	foldKeysMax = 64
)

// keyColumn is one attribute key that demand uses: each row's value number, 0
// when the machine does not have the attribute. Values are interned with a
// leading '=', so that an empty value differs from none. Where all machines of
// a class agree, the class has the value, and the column is there only if
// domains are formed by the key.
//
// A requirement that stands for Same in the profile of a fold has a column of its
// own: of what it says of the attribute, since the attribute's values are as many as
// domains, and classes would be as many times more.
type keyColumn struct {
	key      string     // "" = the column is not in use
	of       *predicate // of a fold's requirement: it; nil = the values are the attribute's
	values   []uint32   // by row, each a reference; nil = the classes have them
	lastUsed uint64     // call of Use
	matchers int        // that look at the value by itself
	sames    int        // matchers whose Same key it is
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

// shouldHaveColumn reports whether there have to be values by row.
func (k *keyColumn) shouldHaveColumn() bool {
	return k.live() && (!k.shouldSplit() || k.sames > 0 || k.lastSpread > 0)
}

// value returns the number that m has in the column, with a reference taken.
func (t *Table) value(m *model.Machine, k *keyColumn) uint32 {
	v, ok := m.Attribute(k.attribute())
	if !ok {
		return 0
	}
	return t.holdText(k, v)
}

// attribute returns the key of the attribute that the column looks at.
func (k *keyColumn) attribute() string {
	if k.of != nil {
		return k.of.Key
	}
	return k.key
}

// What a fold's requirement says of an attribute that is there, as values.
const (
	foldTakes   = "takes"
	foldRefuses = "refuses"
)

// holdText is holdValue for what stands in the column for a value of its attribute.
func (t *Table) holdText(k *keyColumn, v string) uint32 {
	switch {
	case k.of == nil:
		return t.holdValue(v)
	case k.of.matches(t, v, true):
		return t.holdValue(foldTakes)
	}
	return t.holdValue(foldRefuses)
}

func (t *Table) holdValue(v string) uint32 {
	t.text = append(append(t.text[:0], '='), v...)
	return t.values.holdBytes(t.text)
}

// Value returns the number of a machine's value of a key in use, 0 = absent.
func (t *Table) Value(key int, r columnar.Row) uint32 {
	if k := &t.keys[key]; k.values != nil {
		return k.values[r]
	}
	return t.kindOf(r).value(key)
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

// countValues counts a row in or out under the keys that machines are counted
// by.
func (t *Table) countValues(r columnar.Row, by int) {
	for i := range t.keys {
		if k := &t.keys[i]; k.rows != nil {
			k.count(t.Value(i, r), by)
			t.overgrown = k.limit() || t.overgrown
		}
	}
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

// Key returns the number of an attribute key's column, −1 when the table does
// not keep track of the key. Numbers hold until the next Use.
func (t *Table) Key(key string) int {
	if i, ok := t.keyIDs[key]; ok {
		return i
	}
	return -1
}

// Values returns the values of a key in use: by row the number of the value, 0
// = absent. Valid until the next change; do not modify. O(1) for keys that some
// profile in use has as its Same key or in a hard spread, O(machines) for
// others; see Value.
func (t *Table) Values(key int) []uint32 {
	if values := t.keys[key].values; values != nil {
		return values
	}
	values := make([]uint32, len(t.cols.state))
	for r := range values {
		values[r] = t.Value(key, columnar.Row(r))
	}
	return values
}

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
		unused := func(k *keyColumn) bool { return k.lastUsed < t.matchers.tick }
		if len(t.keyIDs)-t.foldKeys >= KeysMax {
			t.dropKeys(unused)
		}
		if len(t.keyIDs)-t.foldKeys >= KeysMax {
			return 0, fmt.Errorf("demand uses more than %d attribute keys; %q is one too many", KeysMax, key)
		}
		i = t.addKey(keyColumn{key: key})
	}
	t.keys[i].lastUsed = t.matchers.tick
	return i, nil
}

// useFoldKey is useKey for a requirement that stands for Same in a fold's profile.
func (t *Table) useFoldKey(r *model.Requirement) (int, error) {
	key := foldKey(r)
	i := t.Key(key)
	if i < 0 {
		if t.foldKeys >= foldKeysMax {
			t.dropKeys(func(k *keyColumn) bool { return k.of != nil && k.lastUsed < t.matchers.tick })
		}
		if t.foldKeys >= foldKeysMax {
			return t.useKey(r.Key)
		}
		of := t.compile(*r)
		i = t.addKey(keyColumn{key: key, of: &of})
		t.foldKeys++
	}
	t.keys[i].lastUsed = t.matchers.tick
	return i, nil
}

// foldKey names the column of a fold's requirement: unlike any attribute's key, which
// holds no such character.
func foldKey(r *model.Requirement) string {
	b := []byte{0, byte(r.Operator)}
	for _, text := range append([]string{r.Key}, r.Values...) {
		b = appendText(b, text)
	}
	return string(b)
}

func (t *Table) addKey(k keyColumn) int {
	i := len(t.keyIDs)
	if i == len(t.keys) {
		t.keys = append(t.keys, keyColumn{})
	} else { // one is free
		for i = 0; t.keys[i].live(); i++ {
		}
	}
	k.values = t.column(&k)
	t.keys[i] = k
	t.keyIDs[k.key] = i
	t.renumbered(&t.numbering.Keys)
	return i
}

// column returns all rows' values of a key that the table does not know yet.
func (t *Table) column(k *keyColumn) []uint32 {
	values := make([]uint32, len(t.cols.state))
	hold := func(text string) uint32 { return t.holdText(k, text) }
	labels, typed := t.number(k.attribute(), hold, func(r columnar.Row, v uint32) {
		values[r] = v
		t.values.again(v)
	})
	labels.drop(t)
	typed.drop(t)
	return values
}

// Attributes numbers the machines by their value of an attribute key, also of
// one that no demand looks at: by row 1 + the place of the value in texts, 0
// where there is none or the value is empty. The answer is the caller's.
// O(machines).
func (t *Table) Attributes(key string) (values []uint32, texts []string) {
	values = make([]uint32, len(t.cols.state))
	numbers := map[string]uint32{"": 0}
	hold := func(text string) uint32 {
		v, ok := numbers[text]
		if !ok {
			texts = append(texts, text)
			v = uint32(len(texts))
			numbers[text] = v
		}
		return v
	}
	t.number(key, hold, func(r columnar.Row, v uint32) { values[r] = v })
	return values, texts
}

// number calls f for every machine with the number of its value of an attribute
// key, 0 = absent. A value is looked up, and given its number by hold, once for
// what many machines share; these are returned.
func (t *Table) number(key string, hold func(string) uint32, f func(columnar.Row, uint32)) (labels, typed valueMemo) {
	c := &t.cols
	labels = newMemo(t.labels.names.max(), hold, func(id uint32) (string, bool) {
		if key == model.KeyZone {
			if zone := t.labels.zone(id); zone != "" {
				return zone, true
			}
		}
		return t.labels.value(id, key)
	})
	of := func(columnar.Row) uint32 { return 0 }
	switch key {
	case model.KeyInstanceType:
		typed = newMemo(t.names.max(), hold, func(id uint32) (string, bool) { return t.names.text(id), id != 0 })
		of = func(r columnar.Row) uint32 { return t.kindOf(r).instanceType }
	case model.KeyCapacityType:
		typed = newMemo(model.NumCapacityTypes, hold, func(id uint32) (string, bool) {
			text := model.CapacityType(id).Label()
			return text, text != ""
		})
		of = func(r columnar.Row) uint32 { return uint32(c.capacity[r]) }
	}
	for r := columnar.Row(1); int(r) < len(c.state); r++ {
		if c.state[r] == model.StateUnspecified {
			continue
		}
		v := uint32(0)
		if typed.of != nil {
			v = typed.at(of(r))
		}
		if v == 0 {
			v = labels.at(c.labels[r])
		}
		f(r, v)
	}
	return labels, typed
}

// valueMemo remembers the value numbers of an attribute by the number of what
// machines have it from. Where holding counts references, it holds one for each.
type valueMemo struct {
	hold func(value string) uint32
	of   func(id uint32) (value string, ok bool)
	have []uint32 // by id: value + 1, 0 = not asked for yet
}

func newMemo(ids int, hold func(string) uint32, of func(uint32) (string, bool)) valueMemo {
	return valueMemo{hold: hold, of: of, have: make([]uint32, ids)}
}

func (m *valueMemo) at(id uint32) uint32 {
	if v := m.have[id]; v != 0 {
		return v - 1
	}
	v := uint32(0)
	if text, ok := m.of(id); ok {
		v = m.hold(text)
	}
	m.have[id] = v + 1
	return v
}

func (m *valueMemo) drop(t *Table) {
	for _, v := range m.have {
		if v > 1 {
			t.values.release(v - 1)
		}
	}
}

// makeColumn gives a key that splits a column of its own.
func (t *Table) makeColumn(key int) {
	values := make([]uint32, len(t.cols.state))
	for r := range values {
		values[r] = t.kindOf(columnar.Row(r)).value(key)
		t.values.again(values[r])
	}
	t.keys[key].values = values
}

func (t *Table) dropColumn(k *keyColumn) {
	for _, v := range k.values {
		t.values.release(v)
	}
	k.values = nil
}

// useSpread notes that demand spreads over the key of a column.
func (t *Table) useSpread(key int) {
	k := &t.keys[key]
	k.lastUsed = t.matchers.tick
	if k.lastSpread == 0 {
		k.rows = map[uint32]uint32{}
		for _, r := range t.Order() {
			if k.count(t.Value(key, r), 1); len(k.rows) > spreadValuesMax {
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
		t.dropColumn(k)
		delete(t.keyIDs, k.key)
		if k.of != nil {
			t.foldKeys--
		}
		*k = keyColumn{splits: k.splits} // resplit forms the classes anew
		t.renumbered(&t.numbering.Keys)
	}
	t.resplit()
}
