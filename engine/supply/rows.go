package supply

import (
	"slices"
	"strings"

	"github.com/tonnage/tonnage/columnar"
)

// rowsByID numbers machines by id and keeps the rows in id order.
type rowsByID struct {
	byID  map[string]columnar.Row
	ids   []string // by row; row 0 unused
	free  []columnar.Row
	order []columnar.Row
	added []columnar.Row // since the order was last brought up to date
	gone  bool           // a row in order was removed or reused since then
}

func newRowsByID() rowsByID {
	return rowsByID{byID: map[string]columnar.Row{}, ids: []string{""}}
}

func (t *rowsByID) len() int { return len(t.byID) }

func (t *rowsByID) find(id string) (columnar.Row, bool) {
	r, ok := t.byID[id]
	return r, ok
}

func (t *rowsByID) add(id string) columnar.Row {
	var r columnar.Row
	if n := len(t.free); n > 0 && !t.gone {
		r, t.free = t.free[n-1], t.free[:n-1]
		t.ids[r] = id
	} else {
		r = columnar.Row(len(t.ids))
		t.ids = append(t.ids, id)
	}
	t.byID[id] = r
	t.added = append(t.added, r)
	return r
}

// remove frees a row. It is not reused before the order has been brought up
// to date, so that order and added never hold one row under two ids.
func (t *rowsByID) remove(r columnar.Row) {
	delete(t.byID, t.ids[r])
	t.ids[r] = ""
	t.free = append(t.free, r)
	t.gone = true
}

// sorted returns the rows in id order: O(1) when nothing was added or removed
// since the last call, else a sort of what is new and one merge.
func (t *rowsByID) sorted() []columnar.Row {
	if t.gone {
		dead := func(r columnar.Row) bool { return t.ids[r] == "" }
		t.order = slices.DeleteFunc(t.order, dead)
		t.added = slices.DeleteFunc(t.added, dead)
		t.gone = false
	}
	if len(t.added) == 0 {
		return t.order
	}
	slices.SortFunc(t.added, func(a, b columnar.Row) int { return strings.Compare(t.ids[a], t.ids[b]) })
	if len(t.order) == 0 {
		t.order = append(t.order, t.added...)
	} else {
		t.order = merge(t.order, t.added, t.ids)
	}
	t.added = t.added[:0]
	return t.order
}

func merge(a, b []columnar.Row, ids []string) []columnar.Row {
	out := make([]columnar.Row, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if ids[a[0]] < ids[b[0]] {
			out, a = append(out, a[0]), a[1:]
		} else {
			out, b = append(out, b[0]), b[1:]
		}
	}
	return append(append(out, a...), b...)
}
