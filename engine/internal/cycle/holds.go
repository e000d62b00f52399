package cycle

import (
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/holds"
	"github.com/tonnage/tonnage/engine/internal/plan"
	"github.com/tonnage/tonnage/engine/internal/tenancy"
	"github.com/tonnage/tonnage/engine/model"
)

// BeginHolds prepares MayHold. What needs lines and their order is not known yet.
func (p *Pass) BeginHolds() {
	p.st.Holds.Begin(p.Snap, p.Opts.Victims == plan.VictimsGang)
}

// IndexHolds finds what is held for whom, once the order is known.
func (p *Pass) IndexHolds(shares *tenancy.Shares) {
	p.Reserved = p.st.Holds.Index(holds.Tables{
		Snapshot: p.Snap, Arena: p.Arena, Shares: shares, Plans: p.Opts.Victims == plan.VictimsGang,
		Lines: p.Lines, Kinds: p.Kinds, Sources: p.Sources, Atlas: p.Atlas, Order: p.Order, RankOf: p.RankOf,
	}, p.Changed.Fresh)
}

// MayHold reports whether a reservation is in force; see holds.Store.MayHold.
func (p *Pass) MayHold(r columnar.Row, res *model.Reservation) bool {
	return p.st.Holds.MayHold(r, res)
}
