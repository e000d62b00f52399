package supply

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// Limits of what demand may make the table keep track of.
const (
	// KeysMax is the most attribute keys that all demand together may use.
	KeysMax = 1024
	// staleCycles is after how many calls of Use an unused matcher goes.
	staleCycles = 64
)

// matcher is a set of requirements in use. Bit by bit it is decided on
// classes; only Same looks at the machine's own domain value.
type matcher struct {
	canonical    string
	requirements []model.Requirement // without Same
	keys         []int               // the key column of each
	same         *model.Requirement
	sameKey      int // −1 without Same
	lastUsed     uint64
	live         bool
}

type matchers struct {
	ids  map[string]uint32
	list []matcher // 0 is not used
	free []uint32
	tick uint64
	// byProfile remembers the matcher of profiles seen in the last Use.
	byProfile map[*model.Profile]uint32
}

func newMatchers() matchers {
	return matchers{ids: map[string]uint32{}, list: make([]matcher, 1), byProfile: map[*model.Profile]uint32{}}
}

// accepts decides a matcher on a class; a Same requirement is left to the row.
func (t *Table) accepts(m *matcher, x *class) bool {
	for i := range m.requirements {
		v := uint32(0)
		if k := m.keys[i]; k < len(x.values) {
			v = x.values[k]
		}
		value := ""
		if v != 0 {
			value = t.ValueString(v)
		}
		if !m.requirements[i].Matches(value, v != 0) {
			return false
		}
	}
	return true
}

// domain returns the row's value of the matcher's Same key; ok is false when
// the row lacks the attribute or the requirement does not list its value.
func (t *Table) domain(m *matcher, r columnar.Row) (uint32, bool) {
	if m.sameKey < 0 {
		return 0, true
	}
	v := t.keys[m.sameKey].values[r]
	if v == 0 || (len(m.same.Values) > 0 && !slices.Contains(m.same.Values, t.ValueString(v))) {
		return 0, false
	}
	return v, true
}

// Use makes sure that the table tracks everything that these profiles look at
// and lets go of what has not been used for a while. Afterwards Matcher
// answers for each of them. Cost: O(profiles) when none is new, O(machines)
// when one is.
func (t *Table) Use(profiles []*model.Profile) error {
	t.matchers.tick++
	clear(t.matchers.byProfile)
	if err := t.useKeys(profiles); err != nil {
		return err
	}
	var fresh []uint32
	for _, p := range profiles {
		canonical := canonicalRequirements(p)
		id, ok := t.matchers.ids[canonical]
		if !ok {
			id = t.addMatcher(p, canonical)
			fresh = append(fresh, id)
		}
		t.matchers.list[id].lastUsed = t.matchers.tick
		t.matchers.byProfile[p] = id
	}
	if len(fresh) > 0 {
		t.indexMatchers(fresh)
	}
	t.dropStale()
	return nil
}

// Matcher returns the matcher of a profile of the last Use.
func (t *Table) Matcher(p *model.Profile) uint32 { return t.matchers.byProfile[p] }

// MatcherMax is one more than the largest matcher number in use.
func (t *Table) MatcherMax() int { return len(t.matchers.list) }

// SameKey returns the key column of a matcher's Same requirement, −1 without.
func (t *Table) SameKey(matcher uint32) int { return t.matchers.list[matcher].sameKey }

// Domain returns the value number of a machine under the matcher's Same key;
// ok is false when the machine can serve no such Need.
func (t *Table) Domain(matcher uint32, r columnar.Row) (value uint32, ok bool) {
	return t.domain(&t.matchers.list[matcher], r)
}

// useKeys gives every key of the profiles a column and forms the classes anew
// when a matcher looks at a key for the first time.
func (t *Table) useKeys(profiles []*model.Profile) error {
	reclass := false
	use := func(key string, match bool) error {
		if len(t.keys) >= KeysMax && t.Key(key) < 0 {
			return fmt.Errorf("demand uses more than %d attribute keys; %q is one too many", KeysMax, key)
		}
		reclass = t.useKey(key, match) || reclass
		return nil
	}
	for _, p := range profiles {
		for i := range p.Requirements() {
			r := &p.Requirements()[i]
			if err := use(r.Key, r.Operator != model.Same); err != nil {
				return err
			}
		}
		for _, s := range p.HardSpread() {
			known := t.Key(s.Key) >= 0
			if err := use(s.Key, false); err != nil {
				return err
			}
			if !known && t.fewValues(t.Key(s.Key)) {
				reclass = t.useKey(s.Key, true) || reclass
			}
		}
	}
	if reclass {
		t.reclass()
	}
	return nil
}

func (t *Table) addMatcher(p *model.Profile, canonical string) uint32 {
	m := matcher{canonical: canonical, same: p.Same(), sameKey: -1, live: true}
	for _, r := range p.WithoutSame().Requirements() {
		m.requirements = append(m.requirements, r)
		m.keys = append(m.keys, t.Key(r.Key))
	}
	if m.same != nil {
		m.sameKey = t.Key(m.same.Key)
	}
	var id uint32
	if n := len(t.matchers.free); n > 0 {
		id, t.matchers.free = t.matchers.free[n-1], t.matchers.free[:n-1]
		t.matchers.list[id] = m
	} else {
		id = uint32(len(t.matchers.list))
		t.matchers.list = append(t.matchers.list, m)
	}
	t.matchers.ids[canonical] = id
	for i := range t.classes.list {
		x := &t.classes.list[i]
		if x.count > 0 && t.accepts(&m, x) {
			at, _ := slices.BinarySearch(x.matchers, id)
			x.matchers = slices.Insert(x.matchers, at, id)
		}
	}
	return id
}

// dropStale removes matchers that no demand has used for staleCycles calls,
// once they outnumber those in use.
func (t *Table) dropStale() {
	inUse := len(t.matchers.byProfile)
	if len(t.matchers.ids) <= 2*inUse+64 {
		return
	}
	for i := range t.matchers.list {
		m := &t.matchers.list[i]
		if !m.live || m.lastUsed+staleCycles > t.matchers.tick {
			continue
		}
		for j := range t.classes.list {
			x := &t.classes.list[j]
			if at, ok := slices.BinarySearch(x.matchers, uint32(i)); ok {
				x.matchers = slices.Delete(x.matchers, at, at+1)
			}
		}
		t.index.dropMatcher(uint32(i))
		delete(t.matchers.ids, m.canonical)
		*m = matcher{}
		t.matchers.free = append(t.matchers.free, uint32(i))
	}
}

// canonicalRequirements encodes a profile's requirements unambiguously.
func canonicalRequirements(p *model.Profile) string {
	b := make([]byte, 0, 96)
	str := func(s string) {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	for i := range p.Requirements() {
		r := &p.Requirements()[i]
		str(r.Key)
		b = append(b, byte(r.Operator))
		b = binary.AppendUvarint(b, uint64(len(r.Values)))
		for _, v := range r.Values {
			str(v)
		}
	}
	return string(b)
}
