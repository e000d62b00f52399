package victims

import (
	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/units"
	"github.com/tonnage/tonnage/engine/model"
)

// classLog finds the machines of one class and state in an append-only log of machines that can be taken again. Each alike reads the log,
// and there are as many alikes as classes and priorities: if each read all of it, the work would be alikes times entries.
type classLog struct {
	state  model.State
	before []int32 // by index in the log: the index + 1 of the entry before it that has the same class; 0 = none
	last   []int32 // by class: the index + 1 of its last entry
}

// update lets an alike take into account what it has not read of the log: the first of its machines that is logged there, and all behind
// that one, are looked at again. O(entries of the alike's class).
func (x *classLog) update(p *Pass, a *units.Alike, log []columnar.Row) {
	if a.Seen == len(log) {
		return
	}
	if x.last == nil {
		x.last = alloc.Make[int32](p.Arena, len(p.Snap.Classes))
	}
	for i := len(x.before); i < len(log); i++ {
		if x.before = alloc.Append(p.Arena, x.before, 0); p.Snap.View.State[log[i]] == x.state {
			last := &x.last[p.Snap.View.Class[log[i]]]
			x.before[i], *last = *last, int32(i+1)
		}
	}
	for i := int(x.last[a.Class]); i > a.Seen; i = int(x.before[i-1]) {
		if at, ok := a.Find(log[i-1], p.Snap.IDPlaces()); ok {
			a.Next, a.Own.Next = min(a.Next, at), min(a.Own.Next, at)
		}
	}
	a.Seen = len(log)
}
