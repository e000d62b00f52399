package main

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/web"
)

// agesMax bounds the ledger of how long Needs have been unmet; further ones
// show no age.
const agesMax = 1 << 16

// pageFeed turns what the shard tells of each cycle into frames of the page.
type pageFeed struct {
	feed     *web.Feed
	failed   func() int64  // calls to the provider that failed so far
	progress func() string // how far the source has come

	// Written by decided and read by observe, in one goroutine.
	next  web.Frame
	ages  map[needKey]*needAge
	cycle uint64

	mu     sync.Mutex
	last   web.Frame
	totals [len(web.Kinds)]int64 // actions of all cycles
}

// needKey is a Need's identity from one cycle to the next.
type needKey struct {
	cluster     string
	fingerprint uint64
	group       string
}

type needAge struct {
	since int64 // Unix nanoseconds
	cycle uint64
}

// decided takes from a plan what the report does not hold: deficits, reasons
// and ages. It runs with the shard locked, after the times were taken.
func (p *pageFeed) decided(in engine.Input, plan *engine.Plan) {
	p.cycle++
	p.next = web.Frame{Clusters: len(in.Demand.Clusters()), Rows: plan.Stats.Needs, Needs: plan.Stats.Folded}
	var unmet []int32
	var reasons [engine.NumUnmet]int
	var deficit model.Resources
	sums := deficitSums{}
	for i := range plan.Needs {
		n := &plan.Needs[i]
		if n.Satisfied || int(n.Fold) != i {
			continue
		}
		unmet = append(unmet, int32(i))
		reasons[n.Unmet]++
		sums.add(n.Deficit)
		p.age(n, in.Now)
	}
	deficit = model.NewResources(sums.amounts...)
	for k, a := range p.ages {
		if a.cycle != p.cycle {
			delete(p.ages, k)
		}
	}
	p.next.Satisfied = p.next.Needs - len(unmet)
	for _, a := range deficit {
		p.next.Resources = append(p.next.Resources, web.Resource{Name: a.Name, Deficit: a.Value})
	}
	for u, count := range reasons {
		if count > 0 {
			p.next.Reasons = append(p.next.Reasons, web.ReasonCount{Reason: engine.Unmet(u).String(), Count: count})
		}
	}
	p.next.Unmet = p.worst(in, plan, unmet)
}

// deficitSums adds vectors up in place.
type deficitSums struct{ amounts []model.Amount }

func (s *deficitSums) add(r model.Resources) {
	for _, a := range r {
		i := slices.IndexFunc(s.amounts, func(b model.Amount) bool { return b.Name == a.Name })
		if i < 0 {
			s.amounts = append(s.amounts, a)
			continue
		}
		s.amounts[i].Value = model.SatAdd(s.amounts[i].Value, a.Value)
	}
}

func keyOf(n *engine.NeedResult) needKey {
	return needKey{n.Cluster, n.Profile.Fingerprint(), n.Group}
}

// age notes that a Need is unmet in this cycle.
func (p *pageFeed) age(n *engine.NeedResult, now int64) {
	if p.ages == nil {
		p.ages = map[needKey]*needAge{}
	}
	a := p.ages[keyOf(n)]
	if a == nil {
		if len(p.ages) >= agesMax {
			return
		}
		a = &needAge{since: now}
		p.ages[keyOf(n)] = a
	}
	a.cycle = p.cycle
}

// worst describes the unmet Needs that the page lists: highest priority first,
// then longest unmet.
func (p *pageFeed) worst(in engine.Input, plan *engine.Plan, unmet []int32) []web.UnmetNeed {
	since := func(i int32) int64 {
		if a := p.ages[keyOf(&plan.Needs[i])]; a != nil {
			return a.since
		}
		return in.Now
	}
	slices.SortStableFunc(unmet, func(a, b int32) int {
		x, y := &plan.Needs[a], &plan.Needs[b]
		return cmp.Or(cmp.Compare(y.Profile.Priority(), x.Profile.Priority()), cmp.Compare(since(a), since(b)), cmp.Compare(x.Rank, y.Rank))
	})
	unmet = unmet[:min(len(unmet), web.MaxUnmet)]
	wants := wantsOf(in, plan, unmet)
	out := make([]web.UnmetNeed, len(unmet))
	for k, i := range unmet {
		n := &plan.Needs[i]
		u := web.UnmetNeed{
			Cluster: n.Cluster, Profile: inShort(shard.Describe(n.Profile)), Priority: n.Profile.Priority(),
			Reason: n.Unmet.String(), AgeSeconds: float64(in.Now-since(i)) / 1e9,
		}
		for _, a := range n.Deficit {
			u.Deficit = append(u.Deficit, web.Amount{Name: a.Name, Value: a.Value})
			if want := wants[i].Get(a.Name); want > 0 {
				u.Missing = max(u.Missing, min(float64(a.Value)/float64(want), 1))
			}
		}
		out[k] = u
	}
	return out
}

// wantsOf returns what the given Needs ask for; a fold asks for what its
// members do.
func wantsOf(in engine.Input, plan *engine.Plan, of []int32) map[int32]model.Resources {
	wants := make(map[int32]model.Resources, len(of))
	for _, i := range of {
		wants[i] = nil
	}
	for i := range plan.Needs {
		n := &plan.Needs[i]
		if n.Satisfied {
			continue
		}
		if sum, listed := wants[n.Fold]; listed {
			row := in.Demand.Row(in.Demand.Block(n.Cluster), n.Row)
			wants[n.Fold] = sum.Add(row.Aggregate)
		}
	}
	return wants
}

// observe completes the frame from the report of the same cycle and publishes
// it.
func (p *pageFeed) observe(r *shard.CycleReport) {
	f := p.next
	f.Cycle, f.At, f.Mode = r.Cycle, r.Now/1e6, modeOf(r.Disposition)
	f.InFlight, f.Faults, f.Progress = r.InFlight, p.failed(), p.progress()
	for s := model.Speculative; int(s) < model.NumStates; s++ {
		f.Machines[s-model.Speculative] = r.States[s]
	}
	copy(f.Spend[:], r.SpendPerHour[:])
	f.Actions = r.Counts
	p.mu.Lock()
	for k, n := range r.Counts {
		p.totals[k] += int64(n)
	}
	for _, n := range p.totals {
		f.ActionsTotal += n
	}
	p.mu.Unlock()
	d := &r.Durations
	for i, nanos := range [...]int64{d.Reconcile, d.Snapshot, d.Phase1, d.Phase2, d.Phase3, d.Emit, d.Execute} {
		f.PhaseMillis[i] = float64(nanos) / 1e6
	}
	f.CycleMillis = float64(d.Total) / 1e6
	f.Resources = resourcesOf(r, f.Resources)
	f.Did = didOf(r)
	p.feed.Publish(f)
	p.mu.Lock()
	p.last = f
	p.mu.Unlock()
}

// latest returns the newest frame, its cycle 0 before the first, and the
// actions of all cycles by kind.
func (p *pageFeed) latest() (web.Frame, [len(web.Kinds)]int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last, p.totals
}

func modeOf(d shard.Disposition) web.Mode {
	if d == shard.Execute {
		return web.ModeRunning
	}
	return web.Mode(d.String())
}

// resourcesOf joins demand, deficits and what machines offer, the dimensions
// that people look at first in front.
func resourcesOf(r *shard.CycleReport, deficits []web.Resource) []web.Resource {
	out := make([]web.Resource, 0, len(r.Demand))
	for _, a := range r.Demand {
		x := web.Resource{Name: a.Name, Demand: a.Value, Bound: r.Bound.Get(a.Name), Idle: r.Free.Get(a.Name)}
		for _, d := range deficits {
			if d.Name == a.Name {
				x.Deficit = min(d.Deficit, x.Demand)
			}
		}
		out = append(out, x)
	}
	place := func(name string) int {
		return slices.Index([]string{"pods", "memory", "cpu"}, name)
	}
	slices.SortStableFunc(out, func(a, b web.Resource) int { return cmp.Compare(place(b.Name), place(a.Name)) })
	return out
}

// inShort leaves out of a profile's description what its values say already.
var inShort = strings.NewReplacer("instance-type in ", "", "zone in ", "", "capacity-type in ", "", "|", "/").Replace

// didOf counts alike actions together. The report lists the first actions of a
// cycle; the rest is counted by kind.
func didOf(r *shard.CycleReport) []web.Action {
	var out []web.Action
	at := map[web.Action]int{}
	left := r.Counts
	for i := range r.Actions {
		a := &r.Actions[i]
		left[a.Kind]--
		key := web.Action{Kind: a.Kind.String(), Type: a.InstanceType, Cluster: a.Cluster, Need: inShort(a.Need), Reason: a.Reason.String()}
		if a.Kind == engine.Preempt {
			key.From, key.Cluster = a.Cluster, a.For
		}
		if k, known := at[key]; known {
			out[k].Count++
			continue
		}
		at[key] = len(out)
		key.Machine, key.Count = a.Machine, 1
		out = append(out, key)
	}
	for kind, n := range left {
		if n > 0 {
			out = append(out, web.Action{Kind: engine.Kind(kind).String(), Count: n})
		}
	}
	return out
}
