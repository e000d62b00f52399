package main

import (
	"cmp"
	"slices"
	"sync"

	"github.com/tonnage/tonnage/web"
)

// regionPage joins what several shards show of their cycles into the frames of
// one page: one frame for each cycle of the first shard, with the sums of the
// latest of all.
type regionPage struct {
	feed *web.Feed

	mu      sync.Mutex
	last    []web.Frame // by shard
	did     []web.Action
	started [len(web.Kinds)]int // since the last frame
	moves   []web.RegionMove
	total   int
	totals  [len(web.Kinds)]int64
	cycle   uint64
}

func newRegionPage(feed *web.Feed, shards int) *regionPage {
	return &regionPage{feed: feed, last: make([]web.Frame, shards)}
}

// of returns what takes the frames of one shard.
func (p *regionPage) of(shard int) func(web.Frame) {
	return func(f web.Frame) { p.take(shard, f) }
}

// take takes a frame of one shard.
func (p *regionPage) take(shard int, f web.Frame) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last[shard] = f
	for k, n := range f.Actions {
		p.started[k] += n
		p.totals[k] += int64(n)
	}
	p.did = append(p.did, f.Did...)
	p.did = p.did[max(0, len(p.did)-web.MaxRecent):]
	if shard != 0 {
		return
	}
	p.cycle++
	all := p.join()
	p.did, p.started = nil, [len(web.Kinds)]int{}
	p.feed.Publish(all)
}

// moved takes over what the coordinator says: moves, newest first, and how many
// machines have moved in all.
func (p *regionPage) moved(moves []web.RegionMove, total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.moves, p.total = moves, total
}

// joined returns the sum of the latest frames.
func (p *regionPage) joined() web.Frame {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.join()
}

// actions returns the actions of all cycles, by kind.
func (p *regionPage) actions() [len(web.Kinds)]int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.totals
}

func (p *regionPage) join() web.Frame {
	first := &p.last[0]
	out := web.Frame{Cycle: p.cycle, At: first.At, Mode: first.Mode, Progress: first.Progress, Actions: p.started, Did: p.did}
	out.Region = &web.Region{Moves: p.moves, Moved: p.total}
	for i := range p.last {
		f := &p.last[i]
		addFrame(&out, f)
		out.Region.Shards = append(out.Region.Shards, web.RegionShard{
			Name: upShardName(i), Machines: sumOf(f.Machines[:]), Idle: f.Machines[2], Needs: f.Needs, Satisfied: f.Satisfied,
		})
	}
	out.Mostly = p.mostly()
	slices.SortStableFunc(out.Unmet, func(a, b web.UnmetNeed) int { return int(b.Priority) - int(a.Priority) })
	return out
}

// mostly is what the shard says that has most unmet Needs.
func (p *regionPage) mostly() string {
	worst := slices.MaxFunc(p.last, func(a, b web.Frame) int { return cmp.Compare(a.Needs-a.Satisfied, b.Needs-b.Satisfied) })
	return worst.Mostly
}

func sumOf(ns []int) (n int) {
	for _, x := range ns {
		n += x
	}
	return n
}

// addFrame adds what one shard shows. Cycles run beside each other: the longest
// counts.
func addFrame(to, f *web.Frame) {
	for i, n := range f.Machines {
		to.Machines[i] += n
	}
	to.Effective, to.Bound = to.Effective+f.Effective, to.Bound+f.Bound
	for i, v := range f.Spend {
		to.Spend[i] += v
	}
	to.Clusters, to.Rows, to.Needs, to.Satisfied = to.Clusters+f.Clusters, to.Rows+f.Rows, to.Needs+f.Needs, to.Satisfied+f.Satisfied
	to.InFlight, to.Faults, to.ActionsTotal = to.InFlight+f.InFlight, to.Faults+f.Faults, to.ActionsTotal+f.ActionsTotal
	if f.CycleMillis > to.CycleMillis {
		to.CycleMillis, to.PhaseMillis = f.CycleMillis, f.PhaseMillis
	}
	for _, r := range f.Resources {
		at := slices.IndexFunc(to.Resources, func(x web.Resource) bool { return x.Name == r.Name })
		if at < 0 {
			to.Resources = append(to.Resources, r)
			continue
		}
		x := &to.Resources[at]
		x.Demand, x.Deficit, x.Bound, x.Idle = x.Demand+r.Demand, x.Deficit+r.Deficit, x.Bound+r.Bound, x.Idle+r.Idle
	}
	for _, r := range f.Reasons {
		at := slices.IndexFunc(to.Reasons, func(x web.ReasonCount) bool { return x.Reason == r.Reason })
		if at < 0 {
			to.Reasons = append(to.Reasons, r)
			continue
		}
		to.Reasons[at].Count += r.Count
	}
	to.Unmet = append(to.Unmet, f.Unmet...)
}
