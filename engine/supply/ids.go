package supply

import (
	"unsafe"

	"github.com/tonnage/tonnage/bitmap"
	"github.com/tonnage/tonnage/columnar"
)

// ids numbers machines by id, the number being the row, and keeps the rows in
// id order. Additions and removals are collected and enter the order together,
// when it is next asked for.
type ids struct {
	dict    columnar.Dict
	order   *columnar.Perm
	changed []columnar.Row // added or removed since then, each once
	marked  bitmap.Dense   // the same as a set
	// sequence counts additions and removals.
	sequence uint64
}

func newIDs() *ids {
	t := &ids{}
	t.order = columnar.NewStringPerm(func(r columnar.Row) string { return t.dict.String(uint32(r)) })
	return t
}

func (t *ids) len() int { return t.dict.Len() }

// reserve makes room for n machines in all.
func (t *ids) reserve(n int) {
	t.dict.Reserve(n)
	t.marked.Grow(n)
}

func (t *ids) find(id string) (columnar.Row, bool) {
	r, ok := t.dict.Lookup(id)
	return columnar.Row(r), ok
}

func (t *ids) findAll(rows []columnar.Row, ids []string) {
	t.dict.LookupAll(unsafe.Slice((*uint32)(unsafe.SliceData(rows)), len(rows)), ids)
}

// put returns the row of a machine, a new one when it has none.
func (t *ids) put(id string) (r columnar.Row, found bool) {
	before := t.dict.Len()
	r = columnar.Row(t.dict.ID(id))
	if t.dict.Len() == before {
		return r, true
	}
	t.mark(r)
	return r, false
}

// remove frees a row, which may be given out again at once.
func (t *ids) remove(r columnar.Row) {
	t.dict.Remove(uint32(r))
	t.mark(r)
}

func (t *ids) mark(r columnar.Row) {
	t.sequence++
	t.marked.Grow(int(r))
	if !t.marked.Has(uint32(r)) {
		t.marked.Set(uint32(r))
		t.changed = append(t.changed, r)
	}
}

// changedKept is the room, in rows, that is kept for the next changes.
const changedKept = 1 << 14

// sorted returns the rows in id order; live tells which rows are in use. O(1)
// when nothing was added or removed since the last call.
func (t *ids) sorted(live func(columnar.Row) bool) []columnar.Row {
	if len(t.changed) == 0 {
		return t.order.Rows()
	}
	there := 0 // the rows in use first, those that are gone behind them
	for i, r := range t.changed {
		t.marked.Clear(uint32(r))
		if live(r) {
			t.changed[i], t.changed[there] = t.changed[there], r
			there++
		}
	}
	t.order.Remove(t.changed[there:])
	t.order.Insert(t.changed[:there])
	t.changed = t.changed[:0]
	if cap(t.changed) > changedKept {
		t.changed = nil
	}
	return t.order.Rows()
}

func (t *ids) bytes() int64 {
	return t.order.Bytes() + int64(cap(t.changed))*4 + t.marked.Bytes()
}
