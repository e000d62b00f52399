package supply

import "github.com/tonnage/tonnage/columnar"

// held numbers strings from 1 (0 is the empty string) and counts who refers to
// them, so that names which come and go do not pile up. The number of a string
// that nobody refers to any more is given to a later one.
type held struct {
	dict   columnar.Dict
	refs   []uint32 // by number
	stored int64    // bytes of the strings referred to
	// sequence changes whenever a string gets a number or loses it.
	sequence uint64
}

// hold returns the number of s and takes one reference to it.
func (h *held) hold(s string) uint32 {
	id := h.dict.ID(s)
	h.retain(id, len(s))
	return id
}

// holdLike is hold for strings that often are the one before: *last is the
// number of that, and is set to the one of s.
func (h *held) holdLike(last *uint32, s string) uint32 {
	if id := *last; int(id) < len(h.refs) && h.refs[id] > 0 && h.dict.String(id) == s {
		h.refs[id]++
		return id
	}
	*last = h.hold(s)
	return *last
}

// holdBytes is hold for bytes, which may change after the call.
func (h *held) holdBytes(b []byte) uint32 {
	id := h.dict.IDBytes(b)
	h.retain(id, len(b))
	return id
}

func (h *held) retain(id uint32, length int) {
	if id == 0 {
		return
	}
	for int(id) >= len(h.refs) {
		h.refs = append(h.refs, 0)
	}
	if h.refs[id]++; h.refs[id] == 1 {
		h.sequence++
		h.stored += int64(length)
	}
}

// again takes one more reference to a string that is referred to.
func (h *held) again(id uint32) {
	if id != 0 {
		h.refs[id]++
	}
}

// release gives one reference back and reports whether it was the last.
func (h *held) release(id uint32) bool {
	if id == 0 {
		return false
	}
	if h.refs[id]--; h.refs[id] > 0 {
		return false
	}
	h.stored -= int64(len(h.dict.String(id)))
	h.dict.Remove(id)
	h.sequence++
	return true
}

// swap replaces the reference in *slot by one to s.
func (h *held) swap(slot *uint32, s string) {
	if h.dict.String(*slot) == s {
		return
	}
	id := h.hold(s)
	h.release(*slot)
	*slot = id
}

// lookup returns the number of s, and whether anybody refers to it.
func (h *held) lookup(s string) (uint32, bool) {
	if s == "" {
		return 0, true
	}
	return h.dict.Lookup(s)
}

// text returns the string of a number that is referred to.
func (h *held) text(id uint32) string { return h.dict.String(id) }

// max is one more than the largest number ever given out.
func (h *held) max() int { return int(h.dict.Top()) + 1 }

func (h *held) bytes() int64 { return h.dict.Bytes() + int64(cap(h.refs))*4 }
