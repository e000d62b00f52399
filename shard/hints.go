package shard

import (
	"math"
	"time"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard/internal/inventory"
	"github.com/tonnage/tonnage/shard/internal/pace"
)

// HintsMax is how many pairs of cluster and profile the shard remembers to have
// told; clusters beyond it get none.
const HintsMax = 1 << 20

// hints is the ledger of what clusters were told of the capacity that is free
// for what they demand.
type hints struct {
	pace      *pace.Pace
	inventory *inventory.Inventory
	demand    *demand.Table
	operators Operators // nil = nobody is told
	interval  time.Duration

	at   int64 // of the last round, Unix nanoseconds
	told map[string]*clusterHints
	// free is what there is for a profile, in this round.
	free map[*model.Profile]hint
	// costs are kept while the set of Idle machines that match stays the same.
	costs map[*model.Profile]idleCost
	pairs int
}

// clusterHints is what one cluster was told, by fingerprint.
type clusterHints struct {
	told map[uint64]hint
	// profiles are those of the cluster's rows, each once, at that version.
	profiles []*model.Profile
	version  uint64
}

type hint struct {
	count      int
	confidence Confidence
	cost       float64
}

type idleCost struct {
	sequence uint64
	prices   uint64 // of the inventory then: a price that changes leaves the set as it is
	cost     float64
}

func newHints(p *pace.Pace, v *inventory.Inventory, d *demand.Table, operators Operators, interval time.Duration) *hints {
	return &hints{
		pace: p, inventory: v, demand: d, operators: operators, interval: interval,
		told: map[string]*clusterHints{}, free: map[*model.Profile]hint{}, costs: map[*model.Profile]idleCost{},
	}
}

// forget lets a cluster hear everything anew.
func (h *hints) forget(cluster string) {
	if c := h.told[cluster]; c != nil {
		h.pairs -= len(c.told)
		delete(h.told, cluster)
	}
}

// tell tells the connected clusters what is free for the profiles that they
// demand, where that changed since they were told. Rounds are HintInterval
// apart, so no pair is told more often. The profiles must be in use: it comes
// after a decision.
func (h *hints) tell() {
	if h.operators == nil || h.at != 0 && h.pace.Now-h.at < int64(h.interval) {
		return
	}
	h.at = h.pace.Now
	clear(h.free)
	for cluster := range h.told {
		if h.demand.Block(cluster) == nil || !h.operators.Connected(cluster) {
			h.forget(cluster)
		}
	}
	for _, cluster := range h.demand.Clusters() {
		if h.operators.Connected(cluster) {
			h.tellCluster(cluster)
		}
	}
	for p := range h.costs {
		if _, used := h.free[p]; !used {
			delete(h.costs, p)
		}
	}
}

func (h *hints) tellCluster(cluster string) {
	b := h.demand.Block(cluster)
	c := h.told[cluster]
	if c == nil {
		c = &clusterHints{told: map[uint64]hint{}}
		h.told[cluster] = c
	}
	if c.profiles == nil || c.version != b.Version() {
		c.profiles, c.version = h.profilesOf(cluster, c.profiles[:0]), b.Version()
		h.pairs -= len(c.told)
		c.keep()
		h.pairs += len(c.told)
	}
	for _, p := range c.profiles {
		now, ok := h.free[p]
		if !ok {
			now = h.freeFor(p)
			h.free[p] = now
		}
		was, known := c.told[p.Fingerprint()]
		if known && was == now || !known && h.pairs >= HintsMax {
			continue
		}
		if !known {
			h.pairs++
		}
		c.told[p.Fingerprint()] = now
		h.operators.Capacity(CapacityHint{Cluster: cluster, Profile: p, Count: now.count, Confidence: now.confidence, CostPerHour: now.cost})
	}
}

// keep forgets what the cluster no longer demands.
func (c *clusterHints) keep() {
	wanted := make(map[uint64]struct{}, len(c.profiles))
	for _, p := range c.profiles {
		wanted[p.Fingerprint()] = struct{}{}
	}
	for f := range c.told {
		if _, ok := wanted[f]; !ok {
			delete(c.told, f)
		}
	}
}

// profilesOf appends the profiles of a cluster's rows, each once.
func (h *hints) profilesOf(cluster string, out []*model.Profile) []*model.Profile {
	var seen columnar.RowSet // of numbers of profiles
	for _, id := range h.demand.Block(cluster).Profiles() {
		if r := columnar.Row(id); !seen.Has(r) {
			seen.Add(r)
			out = append(out, h.demand.Profile(id))
		}
	}
	return out
}

// freeFor counts the machines that match every requirement of a profile.
func (h *hints) freeFor(p *model.Profile) hint {
	matcher := h.inventory.Table.Matcher(p)
	if matcher == 0 {
		return hint{confidence: ConfidenceNone}
	}
	idle, speculative := h.inventory.Table.CountMatching(model.Idle, matcher), h.inventory.Table.CountMatching(model.Speculative, matcher)
	switch {
	case idle > 0:
		return hint{count: idle + speculative, confidence: ConfidenceHigh, cost: h.leastPrice(p, matcher)}
	case speculative > 0:
		return hint{count: speculative, confidence: ConfidenceMedium}
	}
	return hint{confidence: ConfidenceNone}
}

// leastPrice returns the least price of an Idle machine that matches.
func (h *hints) leastPrice(p *model.Profile, matcher uint32) float64 {
	now := idleCost{sequence: h.inventory.Table.Sequence(model.Idle, matcher), prices: h.inventory.PriceVersion(), cost: math.Inf(1)}
	if was, ok := h.costs[p]; ok && was.sequence == now.sequence && was.prices == now.prices {
		return was.cost
	}
	it := h.inventory.Table.Matching(model.Idle, matcher).Iterator()
	for it.HasNext() {
		now.cost = min(now.cost, h.inventory.Table.Price(columnar.Row(it.Next())))
	}
	h.costs[p] = now
	return now.cost
}
