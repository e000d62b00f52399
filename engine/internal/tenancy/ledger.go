package tenancy

import (
	"github.com/tonnage/tonnage/engine/internal/exact"
	"github.com/tonnage/tonnage/engine/internal/reuse"
)

// Ledger is what the chosen units of a plan give the taker and take from their tenants. A unit is
// debited as a whole. Excess, and what another plan has broken off, is debited to no tenant.
type Ledger struct {
	t      *Shares
	takes  []exact.Wide // by dimension of shares: what the taker gets
	debits []exact.Wide // by tenant, then by dimension of shares
}

// Open empties the ledger, for a plan of the shares' taker.
func (x *Ledger) Open(t *Shares) {
	x.t, x.takes, x.debits = t, reuse.Resize(x.takes, t.dims), reuse.Resize(x.debits, len(t.Policy)*t.dims)
}

// Term returns minus the ratio of what a tenant has, less what is debited to it, to its share, in steps
// of θ. Of several dimensions the largest ratio counts.
func (x *Ledger) Term(giver int32) int64 {
	if giver == None {
		return 0
	}
	share, most := x.t.ShareOf(giver), int64(0)
	for d, has := range x.t.HasOf(giver) {
		if share[d] > 0 {
			most = max(most, exact.StepsOf(max(has-x.debited(giver, d), 0), share[d]))
		}
	}
	return -most
}

func (x *Ledger) debited(giver int32, d int) int64 { return x.debits[int(giver)*x.t.dims+d].Value() }

// Admits reports whether, with one more unit in the ledger, the taker stays within its share and the
// giver keeps its own.
func (x *Ledger) Admits(giver int32, takes, debits []int64) bool {
	t := x.t
	has, share := t.HasOf(t.Taker), t.ShareOf(t.Taker)
	for d, v := range takes {
		if share[d] == 0 {
			continue
		}
		if add := exact.SatSum(x.takes[d].Value(), v); add > 0 && exact.SatSum(has[d], add) > share[d] {
			return false
		}
	}
	if giver == None {
		return true
	}
	has, share = t.HasOf(giver), t.ShareOf(giver)
	for d, v := range debits {
		if share[d] > 0 && v > 0 && has[d]-exact.SatSum(x.debited(giver, d), v) < share[d] {
			return false
		}
	}
	return true
}

// Enter adds a unit to the ledger.
func (x *Ledger) Enter(giver int32, takes, debits []int64) {
	for d := range takes {
		x.takes[d].Add(takes[d])
		if giver != None {
			x.debits[int(giver)*x.t.dims+d].Add(debits[d])
		}
	}
}

// Strike removes a unit from the ledger.
func (x *Ledger) Strike(giver int32, takes, debits []int64) {
	for d := range takes {
		x.takes[d].Sub(takes[d])
		if giver != None {
			x.debits[int(giver)*x.t.dims+d].Sub(debits[d])
		}
	}
}
