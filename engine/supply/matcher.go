package supply

import (
	"encoding/binary"
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// matcher is a set of requirements in use. Bit by bit it is decided on
// classes; only Same looks at the machine's own domain value.
type matcher struct {
	canonical    string      // "" = the number is not in use
	requirements []predicate // without Same
	keys         []int       // the key column of each
	same         *model.Requirement
	sameKey      int    // −1 without Same
	lastUsed     uint64 // call of Use
	ready        bool   // decided on every class
}

// live reports whether the number is in use; the canonical form of no
// requirements is not empty.
func (m *matcher) live() bool { return m.canonical != "" }

// looksAt reports whether the matcher needs the column.
func (m *matcher) looksAt(key int) bool { return m.sameKey == key || slices.Contains(m.keys, key) }

type matchers struct {
	ids  map[string]uint32
	list []matcher // 0 is not used
	free []uint32
	tick uint64 // calls of Use
	// byProfile remembers what profiles use, by pointer: a profile is
	// immutable, and demand interns it.
	byProfile map[*model.Profile]*profileUse
	// asked finds all that are ready; nil = they are others now.
	asked *asked
}

// profileUse is what a profile makes the table keep track of.
type profileUse struct {
	matcher  uint32
	spread   []int  // key columns of its hard spread
	lastUsed uint64 // call of Use
}

func newMatchers() matchers {
	return matchers{ids: map[string]uint32{}, list: []matcher{{sameKey: -1}}, byProfile: map[*model.Profile]*profileUse{}}
}

// accepts decides a matcher on a class; a Same requirement is left to the row.
func (t *Table) accepts(m *matcher, x *kind) bool {
	for i := range m.requirements {
		v := x.value(m.keys[i])
		if !m.requirements[i].matches(t, t.ValueString(v), v != 0) {
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
	return t.domainOf(m, t.keys[m.sameKey].values[r])
}

func (t *Table) domainOf(m *matcher, v uint32) (uint32, bool) {
	if v == 0 || (len(m.same.Values) > 0 && !slices.Contains(m.same.Values, t.ValueString(v))) {
		return 0, false
	}
	return v, true
}

// Matcher returns the matcher of a profile of the last Use, 0 for others.
func (t *Table) Matcher(p *model.Profile) uint32 {
	if u := t.matchers.byProfile[p]; u != nil {
		return u.matcher
	}
	return 0
}

// MatcherMax is one more than the largest matcher number in use.
func (t *Table) MatcherMax() int { return len(t.matchers.list) }

// SameKey returns the key column of a matcher's Same requirement, −1 without.
func (t *Table) SameKey(matcher uint32) int { return t.matchers.list[matcher].sameKey }

// Domain returns the value number of a machine under the matcher's Same key;
// ok is false when the machine can serve no such Need.
func (t *Table) Domain(matcher uint32, r columnar.Row) (value uint32, ok bool) {
	return t.domain(&t.matchers.list[matcher], r)
}

// DomainOf is Domain for a machine that has this value under the matcher's Same
// key; 0 = none. The matcher must have a Same requirement.
func (t *Table) DomainOf(matcher, value uint32) (uint32, bool) {
	return t.domainOf(&t.matchers.list[matcher], value)
}

// addMatcher numbers the requirements of a profile whose keys have columns. It
// is decided on the classes by admit, after these have been formed anew.
func (t *Table) addMatcher(p *model.Profile, canonical string) uint32 {
	m := matcher{canonical: canonical, same: p.Same(), sameKey: -1}
	rest := p.WithoutSame()
	for i := range rest.Requirements() {
		r := rest.Requirements()[i]
		k := t.Key(r.Key)
		if rest.WasSame() == &rest.Requirements()[i] {
			if at := t.Key(foldKey(&r)); at >= 0 {
				k, r = at, model.Requirement{Key: r.Key, Operator: model.In, Values: []string{foldTakes}}
			}
		}
		m.requirements, m.keys = append(m.requirements, t.compile(r)), append(m.keys, k)
		t.keys[k].matchers++
	}
	if m.same != nil {
		m.sameKey = t.Key(m.same.Key)
		t.keys[m.sameKey].sames++
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
	return id
}

// admit decides new matchers on all classes and indexes them.
func (t *Table) admit(fresh []uint32) {
	asked := t.asksOf(fresh)
	for i := range t.classes.list {
		x := &t.classes.list[i]
		if x.count == 0 {
			continue
		}
		asked.each(t, &x.kind, func(id uint32) {
			at, _ := slices.BinarySearch(x.matchers, id)
			x.matchers = slices.Insert(x.matchers, at, id)
		})
	}
	for _, id := range fresh {
		t.matchers.list[id].ready = true
	}
	t.matchers.asked = nil
	t.renumbered(&t.numbering.Matchers)
	t.indexMatchers(fresh)
}

// acceptedBy returns the matchers that accept a class, of those that are ready;
// ascending.
func (t *Table) acceptedBy(x *kind) []uint32 {
	if t.matchers.asked == nil {
		var ready []uint32
		for id := range t.matchers.list {
			if t.matchers.list[id].ready {
				ready = append(ready, uint32(id))
			}
		}
		t.matchers.asked = t.asksOf(ready)
	}
	var ids []uint32
	t.matchers.asked.each(t, x, func(id uint32) { ids = append(ids, id) })
	slices.Sort(ids)
	return ids
}

// dropMatchers forgets the matchers that are to go. O(classes + profiles) if
// there is one.
func (t *Table) dropMatchers(gone func(*matcher) bool) {
	var ids []uint32
	for i := range t.matchers.list {
		m := &t.matchers.list[i]
		if !m.live() || !gone(m) {
			continue
		}
		ids = append(ids, uint32(i))
		t.index.dropMatcher(uint32(i))
		delete(t.matchers.ids, m.canonical)
		for _, k := range m.keys {
			t.keys[k].matchers--
		}
		if m.sameKey >= 0 {
			t.keys[m.sameKey].sames--
		}
		*m = matcher{sameKey: -1}
	}
	if len(ids) == 0 {
		return
	}
	t.matchers.asked = nil
	t.renumbered(&t.numbering.Matchers)
	is := func(id uint32) bool { _, ok := slices.BinarySearch(ids, id); return ok }
	for i := range t.classes.list {
		x := &t.classes.list[i]
		x.matchers = slices.DeleteFunc(x.matchers, is)
	}
	for p, u := range t.matchers.byProfile {
		if is(u.matcher) {
			delete(t.matchers.byProfile, p)
		}
	}
	t.matchers.free = append(t.matchers.free, ids...)
}

// standsForSame is a bit of an operator's byte in what canonicalRequirements returns.
const standsForSame = 0x80

// canonicalRequirements encodes a profile's requirements unambiguously, and which of
// them stands for Same: that one looks at another column. It is never empty.
func canonicalRequirements(p *model.Profile) string {
	b := make([]byte, 0, 96)
	str := func(s string) {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	b = binary.AppendUvarint(b, uint64(len(p.Requirements())))
	for i := range p.Requirements() {
		r := &p.Requirements()[i]
		str(r.Key)
		op := byte(r.Operator)
		if r == p.WasSame() {
			op |= standsForSame
		}
		b = append(b, op)
		b = binary.AppendUvarint(b, uint64(len(r.Values)))
		for _, v := range r.Values {
			str(v)
		}
	}
	return string(b)
}
