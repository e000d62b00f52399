package shard

import (
	"context"
	"log/slog"
	"math"
	"slices"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
)

// ReclaimCap returns how many machines of a cluster one cycle may reclaim:
// max(1, ⌊fraction × configured⌋). The small addend undoes the rounding of
// fractions such as 0.29, of which a hundred are not quite 29.
func ReclaimCap(fraction float64, configured int) int {
	return max(1, int(math.Floor(fraction*float64(configured)+1e-9)))
}

// CapReclaims returns the actions without the Reclaims above the cap: of each
// cluster the first in the order of emission stay, all other kinds stay
// whatever their number. fraction 0 = no cap. The second result is how many
// were left out; when it is 0, the first is the input itself.
func CapReclaims(actions []engine.Action, machines *supply.Table, fraction float64) ([]engine.Action, int) {
	if fraction <= 0 || !slices.ContainsFunc(actions, isReclaim) {
		return actions, 0
	}
	view := machines.View()
	left := map[uint32]int{}
	for _, r := range machines.Order() {
		if view.State[r] == model.Configured {
			left[view.Cluster[r]]++
		}
	}
	for c, n := range left {
		left[c] = ReclaimCap(fraction, n)
	}
	kept := make([]engine.Action, 0, len(actions))
	for _, a := range actions {
		if a.Kind == engine.Reclaim {
			c := view.Cluster[a.Machine]
			if left[c] == 0 {
				continue
			}
			left[c]--
		}
		kept = append(kept, a)
	}
	if len(kept) == len(actions) {
		return actions, 0
	}
	return kept, len(actions) - len(kept)
}

func isReclaim(a engine.Action) bool { return a.Kind == engine.Reclaim }

// ByRank returns the actions in the order in which they are carried out and
// cut: those of a Need by its rank, whatever their phase, then Reclaims and
// Deletes; equal ones as they were emitted. rank gives a Need's rank by its
// number, as Plan.Rank does.
func ByRank(actions []engine.Action, rank func(need int) int32) []engine.Action {
	// Rank above place in one number: no two are equal, and plain numbers sort
	// several times faster than actions that ask for their rank.
	keys := make([]uint64, len(actions))
	for i := range actions {
		at := uint32(math.MaxUint32)
		if n := actions[i].Need; n >= 0 {
			at = uint32(rank(int(n)))
		}
		keys[i] = uint64(at)<<32 | uint64(i)
	}
	slices.Sort(keys)
	out := make([]engine.Action, len(actions))
	for i, k := range keys {
		out[i] = actions[uint32(k)]
	}
	return out
}

// Disposition is what becomes of a cycle's decisions.
type Disposition uint8

// The dispositions, the stronger later.
const (
	Execute Disposition = iota
	DryRun
	Paused
	Fenced
)

// String names the disposition.
func (d Disposition) String() string { return [...]string{"execute", "dry-run", "paused", "fenced"}[d] }

// railed is a plan's actions after the rails.
type railed struct {
	actions     []engine.Action // in the order in which they are carried out
	rest        []engine.Action // beyond MaxActionsPerCycle
	disposition Disposition
	capped      int  // Reclaims held back by the cap
	cut         int  // actions beyond MaxActionsPerCycle
	followUp    bool // a further cycle should come at once
	// plans are the plans of preemption that were cut.
	plans map[uint64]bool
}

// rails decide what of a plan is carried out, and whether anything is.
type rails struct {
	cfg      *Config
	machines *supply.Table
	switches func() Switches             // nil = there are none
	renew    func(context.Context) error // nil = a fenced shard stays fenced
	log      *slog.Logger

	paused bool     // as the process was told
	set    Switches // as read last
	fenced bool     // the provider knows a newer process of this shard
}

// apply decides what of a plan is carried out. Where nothing is, neither
// limit applies: there is no rate to bound, and a follow-up would spin.
func (r *rails) apply(plan *engine.Plan) railed {
	if now := r.halted(); now != Execute {
		return railed{actions: plan.Actions, disposition: now}
	}
	var out railed
	out.actions, out.capped = CapReclaims(plan.Actions, r.machines, r.cfg.ReclaimCapFraction)
	out.actions = ByRank(out.actions, plan.Rank)
	if limit := r.cfg.MaxActionsPerCycle; limit > 0 && len(out.actions) > limit {
		limit = wholePlans(out.actions, limit)
		out.cut = len(out.actions) - limit
		out.actions, out.rest = out.actions[:limit], out.actions[limit:]
		out.plans = refusing(nil, out.rest)
		out.followUp = true
	}
	return out
}

// wholePlans returns the limit, or how many actions stand before the plan of
// preemption that it would cut in two. A plan that stands first is let in whole
// however large it is: it would never be, otherwise.
func wholePlans(actions []engine.Action, limit int) int {
	plan := actions[limit].Plan
	if plan == 0 || actions[limit-1].Plan != plan {
		return limit
	}
	first := limit
	for first > 0 && actions[first-1].Plan == plan {
		first--
	}
	if first > 0 {
		return first
	}
	return planOf(actions)
}
