package shard

import (
	"cmp"
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
// Deletes; equal ones as they were emitted.
func ByRank(actions []engine.Action, needs []engine.NeedResult) []engine.Action {
	rank := func(a engine.Action) int64 {
		if a.Need < 0 {
			return math.MaxInt64
		}
		return int64(needs[a.Need].Rank)
	}
	out := slices.Clone(actions)
	slices.SortStableFunc(out, func(a, b engine.Action) int { return cmp.Compare(rank(a), rank(b)) })
	return out
}

// Disposition is what becomes of a cycle's decisions.
type Disposition uint8

// The dispositions, the stronger later.
const (
	Execute Disposition = iota
	DryRun
	Paused
)

// String names the disposition.
func (d Disposition) String() string { return [...]string{"execute", "dry-run", "paused"}[d] }

// railed is a plan's actions after the rails.
type railed struct {
	actions     []engine.Action // in the order in which they are carried out
	disposition Disposition
	capped      int  // Reclaims held back by the cap
	cut         int  // actions beyond MaxActionsPerCycle
	followUp    bool // a further cycle should come at once
}

// applyRails decides what of a plan is carried out. Under pause and dry run
// nothing is, so neither limit applies: there is no rate to bound, and a
// follow-up would spin.
func applyRails(cfg *Config, plan *engine.Plan, machines *supply.Table) railed {
	switch {
	case cfg.Paused:
		return railed{actions: plan.Actions, disposition: Paused}
	case cfg.DryRun:
		return railed{actions: plan.Actions, disposition: DryRun}
	}
	var out railed
	out.actions, out.capped = CapReclaims(plan.Actions, machines, cfg.ReclaimCapFraction)
	out.actions = ByRank(out.actions, plan.Needs)
	if limit := cfg.MaxActionsPerCycle; limit > 0 && len(out.actions) > limit {
		out.cut = len(out.actions) - limit
		out.actions = out.actions[:limit]
		out.followUp = true
	}
	return out
}
