package measure

import (
	"math"
	"slices"
	"testing"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
)

// TestBatchesOfChanges: whatever has changed between two cycles, one thing or eight thousand, a cycle
// that builds on the one before decides what a cycle from nothing decides.
func TestBatchesOfChanges(t *testing.T) {
	const steps, most = 40, 8000
	for seed := range uint64(6) {
		c, e := steady(t, "5k", seed)
		opts := engine.DefaultOptions()
		opts.Full, opts.Workers = true, 1
		anew, err := engine.New(opts)
		if err != nil {
			t.Fatal(err)
		}
		builtOn := 0
		for step := range steps {
			changes := int(math.Pow(most, float64(c.draw.below(1001))/1000))
			x := batch{churn: c, rows: map[int][]model.Need{}}
			if step > 0 {
				x.change(t, changes)
			}
			plan, err := e.Cycle(c.in)
			if err != nil {
				t.Fatal(err)
			}
			want, err := anew.Cycle(c.in)
			if err != nil {
				t.Fatal(err)
			}
			if plan.Digest() != want.Digest() || plan.Stats.Satisfied != want.Stats.Satisfied {
				t.Fatalf("seed %d, step %d, %d changes: %d actions, from nothing %d, or others; built on the cycle before: %v", seed, step, changes, len(plan.Actions), len(want.Actions), !plan.Stats.Full)
			}
			if !plan.Stats.Full {
				builtOn++
			}
			if c.draw.below(3) > 0 {
				if err := carryOut(&c.in, plan); err != nil {
					t.Fatal(err)
				}
			}
		}
		if builtOn < steps/2 {
			t.Errorf("seed %d: %d of %d cycles built on the one before", seed, builtOn, steps)
		}
		e.Close()
		anew.Close()
	}
}

// batch is what changes between two cycles.
type batch struct {
	*churn
	rows map[int][]model.Need // by cluster position: what it reports now
}

// change changes so many things: rows of the demand, machines, or both.
func (x *batch) change(t *testing.T, changes int) {
	t.Helper()
	x.in.Now += CycleStep
	inRows := x.draw.below(5) * 25 // percent
	for range changes {
		if x.draw.below(100) < inRows {
			x.changeRow()
		} else if err := x.changeMachine(); err != nil {
			t.Fatal(err)
		}
	}
	for at := range x.fleet.Clusters() {
		if rows, reports := x.rows[at]; reports {
			if err := x.in.Demand.Replace(x.fleet.Clusters()[at], rows); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// someRow draws a row of a cluster as it is now.
func (x *batch) someRow() (at, row int) {
	for {
		at = x.draw.below(len(x.fleet.Clusters()))
		if _, reports := x.rows[at]; !reports {
			x.rows[at] = x.in.Demand.Rows(x.fleet.Clusters()[at])
		}
		if n := len(x.rows[at]); n > 0 {
			return at, x.draw.below(n)
		}
	}
}

func (x *batch) changeRow() {
	from, other := x.someRow()
	o := x.rows[from][other]
	at, row := x.someRow()
	n := &x.rows[at][row]
	switch x.draw.below(40) {
	case 0, 1, 2:
		was := *n
		*n = o
		n.Cluster, n.Group, n.Arrival = was.Cluster, was.Group, was.Arrival
	case 3, 4:
		n.Arrival = x.in.Now - int64(x.draw.below(100))*1e9
	case 5, 6:
		n.Group = o.Group
	case 7:
		n.Parked = !n.Parked
	case 8, 9, 10:
		n.Aggregate, n.MinUnit = o.Aggregate, o.MinUnit
	case 11:
		x.rows[at] = slices.Delete(x.rows[at], row, row+1)
	case 12:
		x.rows[at] = slices.Insert(x.rows[at], row, *n)
	case 13:
		r := x.draw.below(len(x.rows[at]))
		x.rows[at][row], x.rows[at][r] = x.rows[at][r], *n
	default:
		n.Aggregate = x.vary(n, o.Aggregate)
	}
}

// changeMachine changes a machine: its state, or what Need it is stamped for.
func (x *batch) changeMachine() error {
	s := x.in.Supply
	order := s.Order()
	r := order[x.draw.below(len(order))]
	switch state := s.State(r); {
	case s.Reservation(r).Active():
		return nil
	case state == model.Configured && x.draw.below(2) == 0:
		at, row := x.someRow()
		if c := slices.Index(x.fleet.Clusters(), s.Cluster(r)); c >= 0 && len(x.rows[c]) > 0 {
			at, row = c, x.draw.below(len(x.rows[c]))
		}
		n := &x.rows[at][row]
		s.Stamp(r, model.Assignment{
			Priority: n.Profile.Priority(), Interruption: n.Profile.Interruption(), Reclamation: n.Profile.Reclamation(),
			Fingerprint: n.Profile.Fingerprint(), Group: n.Group,
		})
		return nil
	case state == model.Configured:
		return x.to(r, "", model.Draining, model.Idle)
	case state == model.Idle && x.draw.below(2) == 0:
		clusters := x.fleet.Clusters()
		return x.to(r, clusters[x.draw.below(len(clusters))], model.Configuring)
	case state == model.Idle:
		return x.to(r, "", model.Deleting, model.Speculative)
	case state == model.Configuring:
		return x.to(r, s.Cluster(r), model.Configured)
	case state == model.Speculative:
		return create(&x.in, r)
	}
	return nil
}

func (x *batch) to(r columnar.Row, cluster string, states ...model.State) error {
	return through(&x.in, r, cluster, states...)
}
