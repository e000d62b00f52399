package world

import (
	"context"
	"iter"
	"maps"
	"slices"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
	"github.com/tonnage/tonnage/shard"
)

// Inspect shows the tables of a shard while no cycle runs, as Shard.Inspect does.
type Inspect func(visit func(in engine.Input, opts engine.Options, held *shard.HeldBack) error) error

// partRows is the approximate number of machines or Needs that are read between two pauses.
const partRows = 1024

// moment is what a shard held at one moment.
type moment struct {
	now          int64
	opts         engine.Options
	drainSeconds map[string]float64
	held         *HeldBack // nil = nothing
	names        Names
	supply       *supply.Copy
	demand       *demand.Copy
}

// lookAt copies the tables of a shard while it is locked, and reads nothing of them: that takes some tens of milliseconds with
// 500,000 machines. The error is that of inspect.
func lookAt(inspect Inspect, names Names) (m *moment, err error) {
	err = inspect(func(in engine.Input, opts engine.Options, held *shard.HeldBack) error {
		m = momentOf(&in, &opts, held, names)
		return nil
	})
	return m, err
}

func momentOf(in *engine.Input, opts *engine.Options, held *shard.HeldBack, names Names) *moment {
	return &moment{
		now: in.Now, opts: *opts, drainSeconds: maps.Clone(in.DrainSeconds), held: heldIn(in, held, names), names: names,
		supply: in.Supply.Copy(), demand: in.Demand.Copy(),
	}
}

// needs returns the rows by name, by cluster. It ends early once the context has ended, as machines does.
func (m *moment) needs(ctx context.Context) iter.Seq2[string, *model.Need] {
	return func(yield func(string, *model.Need) bool) {
		for _, cluster := range m.demand.Clusters() {
			if ctx.Err() != nil {
				return
			}
			for i := range m.demand.Len(cluster) {
				if row := m.demand.Row(cluster, i); !yield(m.names.Of(cluster, i, &row), &row) {
					return
				}
			}
		}
	}
}

// machines returns the machines by id.
func (m *moment) machines(ctx context.Context) iter.Seq[*model.Machine] {
	return func(yield func(*model.Machine) bool) {
		for i, r := range m.supply.Order() {
			if i%partRows == 0 && ctx.Err() != nil {
				return
			}
			if x := m.supply.Get(r); !yield(&x) {
				return
			}
		}
	}
}

// reported returns the clusters that have reported, of those that anything names.
func (m *moment) reported() []string {
	seen := map[string]struct{}{}
	for _, c := range m.demand.Clusters() {
		seen[c] = struct{}{}
	}
	for _, r := range m.supply.Order() {
		seen[m.supply.Cluster(r)] = struct{}{}
		seen[m.supply.Reservation(r).Owner.Cluster] = struct{}{}
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(seen)), func(c string) bool { return !m.demand.Reported(c) })
}

// CopyShard returns the world of a running shard, as it was at one moment. The shard is locked while its tables are copied,
// which takes some tens of milliseconds with 500,000 machines, and not while the world is made of the copy. It calls next before
// each part of about a thousand machines or Needs. names may be nil. The error is the context's, or that of inspect.
func CopyShard(ctx context.Context, inspect Inspect, names Names, next func()) (*World, error) {
	next()
	m, err := lookAt(inspect, names)
	if err != nil {
		return nil, err
	}
	w := &World{Options: defaultOptions(), HeldBack: m.held, Reported: m.reported()}
	w.Now, w.Options.Engine, w.Options.DrainSeconds = m.now, m.opts, m.drainSeconds
	w.Options.Engine.Pin, w.Options.Engine.Nodes = nil, nil // of the shard's own workers
	w.Machines = make([]model.Machine, 0, len(m.supply.Order()))
	for name, n := range m.needs(ctx) {
		if len(w.Needs)%partRows == 0 {
			next()
		}
		w.Needs = append(w.Needs, Need{Name: name, Need: *n})
	}
	for x := range m.machines(ctx) {
		if len(w.Machines)%partRows == 0 {
			next()
		}
		w.Machines = append(w.Machines, *x)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w.indexRows()
	return w, nil
}

// heldIn returns what the rails hold back; nil = nothing. Machines that have left the shard since the last cycle are left out.
func heldIn(in *engine.Input, h *shard.HeldBack, names Names) *HeldBack {
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
			continue
		}
		held := HeldAction{Machine: a.Machine, Kind: a.Kind, By: a.By}
		if b := in.Demand.Block(a.Cluster); b != nil && a.Row < b.Len() {
			row := in.Demand.Row(b, a.Row)
			held.Need = names.Of(a.Cluster, a.Row, &row)
		}
		out.Actions = append(out.Actions, held)
	}
	return out
}
