package victims

import (
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/ranks"
)

// GangPlan is the record of a plan that was carried out.
type GangPlan struct {
	Need   int32
	Grace  int32  // the longest, in seconds
	Domain uint32 // 0 = none
}

// Planned is a machine that a plan of this cycle reserves, and the need it is for.
type Planned struct {
	Row  columnar.Row
	Need int32
}

// NoteTaker records whose plan counts on a machine.
func (l *Worker) NoteTaker(r columnar.Row, need int32) {
	l.p.Promised.NoteTaker(r, need)
	l.p.Tenants.NoteMoved(r)
}

// CopyForPlan returns a copy of a vector that is valid until the next plan.
func (l *Worker) CopyForPlan(v []int64) []int64 {
	x := l.Finding.Vecs.Take(l.p.Dims)
	copy(x, v)
	return x
}

// DropVictim voids a machine's entry in the plan that broke its gang: another plan uses it.
func (x *Preempted) DropVictim(r columnar.Row) {
	for i := range x.Victims {
		if v := &x.Victims[i]; v.Row == r && v.Need != ranks.None {
			v.Need = ranks.None
			x.regiven = true
			return
		}
	}
}

// SettleVictims removes the entries that DropVictim has voided.
func (x *Preempted) SettleVictims() {
	if x.regiven {
		x.Victims = slices.DeleteFunc(x.Victims, func(v Victim) bool { return v.Need == ranks.None })
	}
}
