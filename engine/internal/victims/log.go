package victims

import (
	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/units"
)

// classLog finds, in an append-only log of machines that may be there again, those of one class. There are as many alikes as
// classes and priorities, and each reads the log: of all machines that would be a product.
type classLog struct {
	before []int32 // by index in the log: the index + 1 of the entry before it that has the same class; 0 = none
	last   []int32 // by class: the index + 1 of its last entry
}

// update reads what an alike has not read of the log: no machine before its first one that is in it may be passed over.
// O(entries of the alike's class).
func (x *classLog) update(p *Pass, a *units.Alike, log []columnar.Row) {
	if a.Seen == len(log) {
		return
	}
	if x.last == nil {
		x.last = alloc.Make[int32](p.Arena, len(p.Snap.Classes))
	}
	for i := len(x.before); i < len(log); i++ {
		class := p.Snap.View.Class[log[i]]
		x.before = alloc.Append(p.Arena, x.before, x.last[class])
		x.last[class] = int32(i + 1)
	}
	for i := int(x.last[a.Class]); i > a.Seen; i = int(x.before[i-1]) {
		if at, ok := a.Find(log[i-1], p.Snap.IDPlaces()); ok {
			a.Next, a.Own.Next = min(a.Next, at), min(a.Own.Next, at)
		}
	}
	a.Seen = len(log)
}
