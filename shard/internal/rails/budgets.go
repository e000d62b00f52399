package rails

import (
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
)

// The least that one interval may do, however small the fleet is.
const (
	deletesMin    = 10
	provisionsMin = 100
	preemptsMin   = 20
)

// budgets bound what is done in an interval, whatever starts cycles: one that repeats its
// roll-up a hundred times a second has nothing done faster than one that is silent. Each is a
// bucket that is filled once an interval:
//
//	Reclaim    of each cluster, a share of its Configured machines, at least 1
//	Delete     a share of the Idle machines, at least 10
//	Provision  a share of all records, at least 100
//	Preempt    a share of all Configured machines, at least 20
//
// After a start they are empty until the first interval is over, so that a process that
// ends and starts over and over does no more than one that runs.
type budgets struct {
	limits   *Limits
	machines *supply.Table

	began    int64 // when the first interval began, Unix nanoseconds; 0 = none has
	interval int64 // number of the one that the buckets are filled for
	size     [engine.NumKinds]int
	left     [engine.NumKinds]int
	reclaims map[uint32]int // by cluster, as its name is numbered; filled when first asked for
}

// fractionOf is the share that an interval may do of actions of a kind; 0 = all.
func (b *budgets) fractionOf(kind engine.Kind) float64 {
	switch kind {
	case engine.Reclaim:
		return b.limits.ReclaimCapFraction
	case engine.Delete:
		return b.limits.DeleteCapFraction
	case engine.Provision:
		return b.limits.ProvisionCapFraction
	case engine.Preempt:
		return b.limits.PreemptCapFraction
	}
	return 0
}

// fill fills the buckets when an interval has begun since they were filled. Without an
// interval each cycle has full ones.
func (b *budgets) fill(now int64) {
	length := int64(b.limits.BudgetInterval)
	if length > 0 {
		if b.began == 0 {
			b.began = now
		}
		current := (now - b.began) / length
		if current == b.interval {
			return
		}
		b.interval = current
	}
	b.reclaims = nil
	share := func(kind engine.Kind, of, least int) {
		b.size[kind] = ShareOf(b.fractionOf(kind), of, least)
		b.left[kind] = b.size[kind]
	}
	share(engine.Delete, b.machines.Count(model.Idle), deletesMin)
	share(engine.Provision, b.machines.Len(), provisionsMin)
	share(engine.Preempt, b.machines.Count(model.Configured), preemptsMin)
}

// take takes what actions of one kind that belong together need, and reports whether there
// was enough. More than a bucket ever holds is let through alone, when it is full.
func (b *budgets) take(actions []engine.Action) bool {
	kind := actions[0].Kind
	switch n := len(actions); {
	case b.fractionOf(kind) <= 0, isSlot(b.machines, &actions[0]):
	case kind == engine.Reclaim:
		cluster := b.machines.View().Cluster[actions[0].Machine]
		if b.reclaimsOf(cluster) == 0 {
			return false
		}
		b.reclaims[cluster]--
	case n <= b.left[kind]:
		b.left[kind] -= n
	case n > b.size[kind] && b.size[kind] > 0 && b.left[kind] == b.size[kind]:
		b.left[kind] = 0
	default:
		return false
	}
	return true
}

// giveBack puts back what was taken for actions that have not begun.
func (b *budgets) giveBack(actions []engine.Action) {
	for _, a := range actions {
		switch {
		case b.fractionOf(a.Kind) <= 0, isSlot(b.machines, &a):
		case a.Kind == engine.Reclaim:
			cluster := b.machines.View().Cluster[a.Machine]
			b.reclaims[cluster] = b.reclaimsOf(cluster) + 1
		default:
			b.left[a.Kind] = min(b.left[a.Kind]+1, b.size[a.Kind])
		}
	}
}

// starting tells whether the first interval is not over yet.
func (b *budgets) starting() bool { return b.limits.BudgetInterval > 0 && b.interval == 0 }

// reclaimsOf returns how many machines of a cluster may still be reclaimed in the interval.
func (b *budgets) reclaimsOf(cluster uint32) int {
	if b.starting() {
		return 0 // nothing has been filled yet
	}
	if left, known := b.reclaims[cluster]; known {
		return left
	}
	counts := map[uint32]int{}
	view := b.machines.View()
	for r := range b.machines.All() {
		if view.State[r] == model.Configured {
			counts[view.Cluster[r]]++
		}
	}
	if b.reclaims == nil {
		b.reclaims = make(map[uint32]int, len(counts))
	}
	for c, n := range counts {
		if _, known := b.reclaims[c]; !known {
			b.reclaims[c] = ReclaimCap(b.limits.ReclaimCapFraction, n)
		}
	}
	return b.reclaims[cluster]
}
