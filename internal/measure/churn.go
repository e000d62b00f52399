package measure

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"sort"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/history"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/workload"
)

// How much changes before a steady cycle. One in changedOneIn Needs asks for up
// to a tenth (unitsOneIn) more or less than at the start, by one unit at least;
// one in changedOneIn machines is in another state, be it that the plan of the
// cycle before was carried out or something else.
const (
	changedOneIn = 100
	unitsOneIn   = 10
	// triesPerPick bounds the search for a machine in a wanted state.
	triesPerPick = 1000
)

// churn keeps a bound fleet moving, about where it started: Needs are drawn
// anew around what they first asked for. Clusters lose Configured machines,
// which are Idle then; the others go from Idle to Speculative or back, more of
// them where the Idle tier is short of its size at the start. The Configured
// tier grows for a while, by up to a third: what is lost is replaced by the
// cheapest machines, which are smaller than what the fleet begins with.
type churn struct {
	fleet    *workload.Fleet
	in       engine.Input
	rowStart []int // by cluster position: number of rows before it
	draw     draw
	idle     int  // size of the Idle tier at the start
	asked    int  // Needs that ask for something else since the last cycle
	quiet    bool // nothing changes any more
	// touched are the machines that are in another state since the last cycle;
	// adopted is how many have another stamp, as the last plan has it.
	touched map[columnar.Row]struct{}
	adopted int
	history *history.History
	deeds   []history.Deed // scratch
	counts  history.Counts // of the last cycle
}

func newChurn(f *workload.Fleet, in engine.Input) *churn {
	c := &churn{fleet: f, in: in, draw: draw{state: f.Seed()}, idle: in.Supply.Count(model.Idle), touched: map[columnar.Row]struct{}{}, history: history.New(in.Supply)}
	n := 0
	for _, id := range f.Clusters() {
		c.rowStart = append(c.rowStart, n)
		if b := in.Demand.Block(id); b != nil {
			n += b.Len()
		}
	}
	return c
}

func (c *churn) repeats() (bool, int)   { return false, 0 }
func (c *churn) changes() changes       { return changes{len(c.touched), c.asked, c.adopted} }
func (c *churn) wasted() history.Counts { return c.counts }
func (c *churn) litters() bool          { return true }

func (c *churn) prepare(*engine.Engine) (engine.Input, error) {
	c.in.Now += CycleStep
	c.asked = 0
	if c.quiet {
		return c.in, nil
	}
	if err := c.changeNeeds(); err != nil {
		return c.in, err
	}
	return c.in, c.changeMachines()
}

// after carries the plan out.
func (c *churn) after(plan *engine.Plan) error {
	clear(c.touched)
	c.adopted = len(plan.Adopted)
	for i := range plan.Actions {
		c.touched[plan.Actions[i].Machine] = struct{}{}
	}
	return c.carryOut(plan)
}

// carryOut does what a plan asks for, and counts what comes to nothing.
func (c *churn) carryOut(plan *engine.Plan) error {
	c.history.Begin(c.in.Demand)
	c.history.Decided(c.in.Demand)
	c.deeds = c.deeds[:0]
	for i := range plan.Actions {
		a := &plan.Actions[i]
		d := history.Deed{Kind: a.Kind, Machine: a.Machine, Cluster: c.in.Supply.Cluster(a.Machine)} // as yet
		switch a.Kind {
		case engine.Bootstrap, engine.Provision:
			d.Cluster, _ = plan.Identity(int(a.Need))
		case engine.Preempt:
			d.By, _ = plan.Identity(int(a.Need))
		}
		c.deeds = append(c.deeds, d)
	}
	if err := carryOut(&c.in, plan); err != nil {
		return err
	}
	c.history.Ended(plan.Ended)
	for i := range c.deeds {
		c.history.Did(&c.deeds[i])
	}
	c.counts = c.history.Close()
	return nil
}

// settle lets the engine come to rest. It returns after how many cycles the
// plan was empty and no machine changed hands, or SettleCyclesMax and false.
func (c *churn) settle(e *engine.Engine) (cycles int, rest bool, err error) {
	for cycles = range SettleCyclesMax {
		c.in.Now += CycleStep
		plan, err := e.Cycle(c.in)
		if err != nil {
			return cycles, false, err
		}
		if len(plan.Actions)+len(plan.Ended)+len(plan.Adopted) == 0 {
			return cycles, true, nil
		}
		if err := c.carryOut(plan); err != nil {
			return cycles, false, err
		}
	}
	return SettleCyclesMax, false, nil
}

// changeNeeds lets clusters report a changed demand.
func (c *churn) changeNeeds() error {
	rows := c.in.Demand.Len()
	picked := map[int]struct{}{}
	c.asked = max(1, rows/changedOneIn)
	for len(picked) < c.asked {
		picked[c.draw.below(rows)] = struct{}{}
	}
	byCluster := map[int][]int{}
	for _, row := range slices.Sorted(maps.Keys(picked)) {
		at := sort.SearchInts(c.rowStart, row+1) - 1
		byCluster[at] = append(byCluster[at], row-c.rowStart[at])
	}
	for _, at := range slices.Sorted(maps.Keys(byCluster)) {
		id := c.fleet.Clusters()[at]
		base, now := c.fleet.Needs(workload.Steady, at), c.in.Demand.Rows(id)
		for _, row := range byCluster[at] {
			now[row].Aggregate = c.vary(&base[row], now[row].Aggregate)
		}
		if err := c.in.Demand.Replace(id, now); err != nil {
			return err
		}
	}
	return nil
}

// vary returns an aggregate near that of the Need at the start, and another
// than it has now. What must stand in one domain never asks for more than at
// the start: a rack is no larger for it.
func (c *churn) vary(base *model.Need, now model.Resources) model.Resources {
	units := int64(1)
	for _, u := range base.MinUnit {
		if u.Value > 0 {
			units = max(units, base.Aggregate.Get(u.Name)/u.Value)
		}
	}
	most := max(1, units/unitsOneIn)
	by := 1 + int64(c.draw.below(int(most)))
	if less := c.draw.below(2) == 0 || base.Profile.Same() != nil; less && units > by {
		by = -by
	}
	next := scale(base.Aggregate, units+by, units)
	if !next.Covers(base.MinUnit) {
		next = scale(base.Aggregate, units+1, units)
	}
	if slices.Equal(next, now) {
		return base.Aggregate
	}
	return next
}

// scale returns a vector times n/of, rounded down; n/of is at most 2.
func scale(v model.Resources, n, of int64) model.Resources {
	out := slices.Clone(v)
	for i := range out {
		hi, lo := bits.Mul64(uint64(out[i].Value), uint64(n))
		quotient, _ := bits.Div64(hi, lo, uint64(of))
		out[i].Value = int64(quotient)
	}
	return out
}

// changeMachines brings machines into another state until that is one in a
// hundred since the last cycle.
func (c *churn) changeMachines() error {
	s := c.in.Supply
	all := max(1, s.Len()/changedOneIn)
	left := max(0, all-len(c.touched))
	idle, speculative := s.Count(model.Idle), s.Count(model.Speculative)
	pairs := min((idle+speculative)/changedOneIn/2*left/all, speculative)
	toIdle := min(max(pairs+(c.idle-idle)/2, 0), 2*pairs, speculative)
	for _, m := range []struct {
		times        int
		from, by, to model.State
	}{
		{left - 2*pairs, model.Configured, model.Draining, model.Idle},
		{toIdle, model.Speculative, model.Creating, model.Idle},
		{2*pairs - toIdle, model.Idle, model.Deleting, model.Speculative},
	} {
		for range m.times {
			if err := c.move(m.from, m.by, m.to); err != nil {
				return err
			}
		}
	}
	return nil
}

// move takes a machine that has not changed yet from one state to another. It
// does nothing when none is found.
func (c *churn) move(from, by, to model.State) error {
	r, ok := c.pick(from)
	if !ok {
		return nil
	}
	c.touched[r] = struct{}{}
	c.history.Disturbed(c.in.Supply.Cluster(r))
	if by == model.Creating {
		return create(&c.in, r)
	}
	return through(&c.in, r, "", by, to)
}

// pick draws a machine in a state. Of the Idle ones only those that can be
// released are drawn; nobody's reservation is broken.
func (c *churn) pick(state model.State) (columnar.Row, bool) {
	s := c.in.Supply
	order := s.Order()
	for range triesPerPick {
		r := order[c.draw.below(len(order))]
		if _, again := c.touched[r]; again || s.State(r) != state || s.Reservation(r).Active() {
			continue
		}
		if state == model.Idle && !releasable(s.Get(r).CapacityType) {
			continue
		}
		return r, true
	}
	return 0, false
}

func releasable(t model.CapacityType) bool { return t == model.OnDemand || t == model.Spot }

// through takes a machine through states.
func through(in *engine.Input, r columnar.Row, cluster string, states ...model.State) error {
	for _, to := range states {
		if err := in.Supply.Transition(r, to, cluster, in.Now); err != nil {
			return fmt.Errorf("measure: %w", err)
		}
	}
	return nil
}

// draw is splitmix64: the same on every machine and Go release.
type draw struct{ state uint64 }

func (d *draw) next() uint64 {
	d.state += 0x9e3779b97f4a7c15
	z := d.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below returns a number in [0, n).
func (d *draw) below(n int) int { return int(d.next() >> 32 * uint64(n) >> 32) }
