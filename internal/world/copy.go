package world

import (
	"context"
	"maps"
	"runtime"
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
)

const (
	// copyRowsMax is how many machines, and about how many Needs, are copied while the shard is locked once. It
	// takes about a millisecond.
	copyRowsMax = 1024
	// copyRoundsMax is after how many rounds the rest is copied at once, however much it is.
	copyRoundsMax = 4
)

// Inspect shows the tables of a shard while no cycle runs, as Shard.Inspect does.
type Inspect func(visit func(in engine.Input, opts engine.Options, held *shard.HeldBack) error) error

// CopyShard returns the world of a running shard, as WriteShard writes it, without stopping the shard for
// long: machines and Needs are copied in parts, and then, under one lock, those that have changed since. So the world
// is the shard's at one moment, but for Need.ShortSince, which may be some cycles older. names may be nil. The error is the
// context's, or that of inspect.
func CopyShard(ctx context.Context, inspect Inspect, names Names) (*World, error) {
	c := copier{inspect: inspect, names: names, needs: map[string][]Need{}, world: &World{Options: defaultOptions()}}
	if err := inspect(c.begin); err != nil {
		return nil, err
	}
	for round := 1; !c.done; round++ {
		if err := c.copyPending(ctx); err != nil {
			return nil, err
		}
		c.last = round >= copyRoundsMax
		if err := inspect(c.end); err != nil {
			return nil, err
		}
	}
	return c.finish(), nil
}

// copier copies the tables of a shard in rounds: each copies what has changed since the one before began.
type copier struct {
	inspect Inspect
	names   Names
	world   *World

	machines []model.Machine // by row; ID "" = there is none
	needs    map[string][]Need
	// rows and clusters are still to be copied, as of these versions of the tables.
	rows           []columnar.Row
	clusters       []string
	supply, demand uint64

	order    []columnar.Row
	reported map[string]bool
	last     bool // what is left is copied at the end of this round
	done     bool
}

// begin notes that everything is to be copied.
func (c *copier) begin(in engine.Input, _ engine.Options, _ *shard.HeldBack) error {
	c.all(&in)
	return nil
}

func (c *copier) all(in *engine.Input) {
	c.allRows(in)
	c.clusters, c.demand = slices.Clone(in.Demand.Clusters()), in.Demand.Version()
	clear(c.needs)
}

func (c *copier) allRows(in *engine.Input) {
	c.rows, c.supply = slices.AppendSeq(c.rows[:0], in.Supply.All()), in.Supply.Version()
	clear(c.machines)
}

// copyPending copies what is pending, a part at a time.
func (c *copier) copyPending(ctx context.Context) error {
	for len(c.rows) > 0 || len(c.clusters) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := c.inspect(func(in engine.Input, _ engine.Options, _ *shard.HeldBack) error {
			c.part(&in)
			return nil
		})
		if err != nil {
			return err
		}
		runtime.Gosched() // a cycle that waits for the lock goes first
	}
	return nil
}

// part copies so many rows, or clusters with so many.
func (c *copier) part(in *engine.Input) {
	n := min(len(c.rows), copyRowsMax)
	for _, r := range c.rows[:n] {
		c.machine(in, r)
	}
	c.rows = c.rows[n:]
	for n < copyRowsMax && len(c.clusters) > 0 {
		n += c.cluster(in, c.clusters[0])
		c.clusters = c.clusters[1:]
	}
}

func (c *copier) machine(in *engine.Input, r columnar.Row) {
	if n := int(r) + 1; n > len(c.machines) {
		c.machines = append(c.machines, make([]model.Machine, n-len(c.machines))...)
	}
	c.machines[r] = in.Supply.Get(r)
}

// cluster copies the rows of a cluster, and returns how many there are.
func (c *copier) cluster(in *engine.Input, cluster string) int {
	b := in.Demand.Block(cluster)
	if b == nil {
		delete(c.needs, cluster)
		return 1
	}
	list := make([]Need, b.Len())
	for i := range list {
		row := in.Demand.Row(b, i)
		list[i] = Need{Name: c.names.Of(cluster, i, &row), Need: row}
	}
	c.needs[cluster] = list
	return len(list) + 1
}

// end takes in what has changed since the round began, or has it copied by another round.
func (c *copier) end(in engine.Input, opts engine.Options, held *shard.HeldBack) error {
	rows, now, complete := in.Supply.Changes(c.supply)
	if complete {
		c.rows, c.supply = append(c.rows[:0], rows...), now
	} else {
		c.allRows(&in)
	}
	clusters, complete := in.Demand.Changes(c.demand)
	if complete {
		c.clusters = c.clusters[:0]
		for i := range clusters {
			c.clusters = append(c.clusters, clusters[i].Cluster)
		}
		c.demand = in.Demand.Version()
	} else {
		c.all(&in)
	}
	needs := 0
	for _, cluster := range c.clusters {
		if b := in.Demand.Block(cluster); b != nil {
			needs += b.Len()
		}
	}
	if len(c.rows)+needs > copyRowsMax && !c.last {
		return nil
	}
	for len(c.rows) > 0 || len(c.clusters) > 0 {
		c.part(&in)
	}
	c.settle(&in, &opts, held)
	return nil
}

// settle takes what is not in rows.
func (c *copier) settle(in *engine.Input, opts *engine.Options, held *shard.HeldBack) {
	w := c.world
	w.Now, w.Options.Engine, w.Options.DrainSeconds = in.Now, *opts, maps.Clone(in.DrainSeconds)
	w.Options.Engine.Pin, w.Options.Engine.Nodes = nil, nil // of the shard's own workers
	c.order = slices.Clone(in.Supply.Order())
	c.clusters = slices.Clone(in.Demand.Clusters())
	c.reported = map[string]bool{}
	for id := range in.Supply.NameIDMax() {
		if name := in.Supply.Name(uint32(id)); name != "" && in.Demand.Reported(name) {
			c.reported[name] = true
		}
	}
	for _, r := range in.Supply.Reservations() {
		if in.Demand.Reported(r.Owner.Cluster) {
			c.reported[r.Owner.Cluster] = true
		}
	}
	for _, cluster := range c.clusters {
		if in.Demand.Reported(cluster) {
			c.reported[cluster] = true
		}
	}
	w.HeldBack = c.held(in, held)
	c.done = true
}

// held copies what the rails hold back, as WriteShard writes it.
func (c *copier) held(in *engine.Input, h *shard.HeldBack) *HeldBack {
	if h == nil || h.Disposition == shard.Execute && len(h.Actions) == 0 && h.More == 0 {
		return nil
	}
	out := &HeldBack{Disposition: h.Disposition, Interval: h.Interval, Starting: h.Starting, More: h.More}
	if h.Disposition != shard.Execute {
		out.Reason = h.Reason
	}
	for i := range h.Actions {
		a := &h.Actions[i]
		if _, there := in.Supply.Lookup(a.Machine); !there {
			continue // it has left the shard since the last cycle
		}
		held := HeldAction{Machine: a.Machine, Kind: a.Kind, By: a.By}
		if b := in.Demand.Block(a.Cluster); b != nil && a.Row < b.Len() {
			row := in.Demand.Row(b, a.Row)
			held.Need = c.names.Of(a.Cluster, a.Row, &row)
		}
		out.Actions = append(out.Actions, held)
	}
	return out
}

// finish puts the world together. It needs no lock.
func (c *copier) finish() *World {
	w := c.world
	w.Machines = make([]model.Machine, len(c.order))
	for i, r := range c.order {
		w.Machines[i] = c.machines[r]
	}
	for _, cluster := range c.clusters {
		w.Needs = append(w.Needs, c.needs[cluster]...)
	}
	w.Reported = slices.Sorted(maps.Keys(c.reported))
	w.indexRows()
	return w
}
