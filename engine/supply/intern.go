package supply

// interner numbers strings from 1 (0 is the empty string) and counts who holds
// them, so that names which come and go do not pile up.
type interner struct {
	ids  map[string]uint32
	strs []string
	refs []uint32
	free []uint32
}

func newInterner() interner {
	return interner{ids: map[string]uint32{}, strs: []string{""}, refs: []uint32{0}}
}

// hold returns the number of s and takes one reference to it.
func (t *interner) hold(s string) uint32 {
	if s == "" {
		return 0
	}
	id, ok := t.ids[s]
	if !ok {
		if n := len(t.free); n > 0 {
			id, t.free = t.free[n-1], t.free[:n-1]
			t.strs[id] = s
		} else {
			id = uint32(len(t.strs))
			t.strs = append(t.strs, s)
			t.refs = append(t.refs, 0)
		}
		t.ids[s] = id
	}
	t.refs[id]++
	return id
}

// release gives one reference back.
func (t *interner) release(id uint32) {
	if id == 0 {
		return
	}
	if t.refs[id]--; t.refs[id] == 0 {
		delete(t.ids, t.strs[id])
		t.strs[id] = ""
		t.free = append(t.free, id)
	}
}

// swap replaces the reference in *slot by one to s.
func (t *interner) swap(slot *uint32, s string) {
	if t.strs[*slot] == s {
		return
	}
	id := t.hold(s)
	t.release(*slot)
	*slot = id
}

// lookup returns the number of s, and whether anybody holds it.
func (t *interner) lookup(s string) (uint32, bool) {
	if s == "" {
		return 0, true
	}
	id, ok := t.ids[s]
	return id, ok
}
