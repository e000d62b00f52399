package session

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
)

const (
	// DecisionWaitMax is how long a question waits for the next cycle.
	DecisionWaitMax = 5 * time.Second
	// QuestionsMax is how many different questions may wait for it.
	QuestionsMax = 8
	// MachineLooksMax is how many machines are looked at to explain domains: all
	// of them for each need with a Same requirement. The first need of an answer
	// is explained in any fleet.
	MachineLooksMax = 1 << 20
)

// Decisions answers what a cycle decided about needs. A plan is good until the
// tables change, which is at once, and a copy of it in each cycle would cost
// more than the cycle. So a question asks for a cycle, and what is asked for is
// copied when that one has decided: O(rows of the demand), and O(views) with
// all that is said of each.
type Decisions struct {
	wake func()
	ages func(*engine.Plan, int) shard.Ages

	mu    sync.Mutex
	cycle uint64 // cycles that decided
	asked map[question]*reply
	// What machines offered in the last cycle, and supply.Table.ShapeSequence then.
	offered   []model.Amount
	offeredAt uint64
}

type question struct {
	cluster string
	limit   int
}

// reply is the answer to one question; all callers that asked it wait for it.
type reply struct {
	done   chan struct{}
	header NeedsHeader
	views  []NeedView
}

// NewDecisions returns what has no answers yet. wake asks for a cycle at once,
// as Shard.Wake does; ages tells for how long a row of the plan has been as it is,
// as Shard.AgesOf does.
func NewDecisions(wake func(), ages func(plan *engine.Plan, row int) shard.Ages) *Decisions {
	return &Decisions{wake: wake, ages: ages, asked: map[question]*reply{}}
}

// Decided takes what a cycle decided, as shard.Deps.Decided is given it. Where
// nobody asks it costs nothing.
func (d *Decisions) Decided(in engine.Input, plan *engine.Plan) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cycle++
	if at := in.Supply.ShapeSequence(); d.cycle == 1 || d.offeredAt != at {
		d.offered, d.offeredAt = in.Supply.Largest(), at
	}
	for q, r := range d.asked {
		r.header.Cycle, r.header.ComputedAt = d.cycle, in.Now
		r.answer(q, in, plan, d.ages)
		delete(d.asked, q)
		close(r.done)
	}
}

// Offered returns, of every resource that machines offered in the last cycle, the largest
// amount that one has, by name; false before the first cycle. Do not modify.
func (d *Decisions) Offered() ([]model.Amount, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.offered, d.cycle > 0
}

// Needs implements the function type of that name.
func (d *Decisions) Needs(ctx context.Context, cluster string, limit int) (NeedsHeader, iter.Seq[NeedView], error) {
	r, err := d.ask(question{cluster, limit})
	if err != nil {
		return NeedsHeader{}, nil, err
	}
	if r != nil {
		d.wake()
		late := time.NewTimer(DecisionWaitMax)
		defer late.Stop()
		select {
		case <-r.done:
		case <-ctx.Done():
			return NeedsHeader{}, nil, ctx.Err()
		case <-late.C:
			return NeedsHeader{}, nil, status.Errorf(codes.Unavailable, "no cycle has decided anything for %v; the shard's log says why", DecisionWaitMax)
		}
		return r.header, slices.Values(r.views), nil
	}
	return NeedsHeader{}, slices.Values([]NeedView(nil)), nil
}

// ask puts a question; nil when nothing was decided yet.
func (d *Decisions) ask(q question) (*reply, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cycle == 0 {
		return nil, nil
	}
	r := d.asked[q]
	if r == nil {
		if len(d.asked) >= QuestionsMax {
			return nil, status.Errorf(codes.ResourceExhausted, "%d other questions wait for the next cycle; ask again", QuestionsMax)
		}
		r = &reply{done: make(chan struct{})}
		d.asked[q] = r
	}
	return r, nil
}

// place is where a need stands among the views.
type place struct {
	priority int32
	need     int32 // its number; those of clusters that come first by id are lower
	arrival  int64
}

func (a place) compare(b place) int {
	return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.arrival, b.arrival), cmp.Compare(a.need, b.need))
}

// answer copies what is asked for.
func (r *reply) answer(q question, in engine.Input, plan *engine.Plan, ages func(*engine.Plan, int) shard.Ages) {
	places := r.choose(q, in, plan)
	r.views = make([]NeedView, len(places))
	supply := &matching{in: in, left: MatchingLooksMax, byMatcher: map[uint32]*classCounts{}}
	at := make(map[int32]int, len(places))
	for i, p := range places {
		v := viewOf(in, plan, p)
		if !v.Satisfied {
			n, capped := supply.of(plan, int(p.need), v.Unmet)
			v.Idle, v.Configured, v.Speculative, v.Capped = n.idle, n.configured, n.speculative, capped
		}
		age := ages(plan, int(p.need))
		v.UnmetCycles, v.ParkedCycles = age.Unmet, age.Parked
		r.views[i] = v
		at[p.need] = i
	}
	r.explain(places, in, plan)
	if plan.Stats.Folded == plan.Stats.Needs {
		return
	}
	for i := range plan.Len() {
		first := plan.Fold(i)
		if k, ok := at[first]; ok && int(first) != i {
			r.views[k].Need.Aggregate = r.views[k].Need.Aggregate.Add(rowOf(in, plan, i).Aggregate)
		}
	}
}

// explain says of needs that are walked with a Same requirement which domains they had, as far as
// there is time for it: those that are not satisfied before the others.
func (r *reply) explain(places []place, in engine.Input, plan *engine.Plan) {
	left := MachineLooksMax
	for _, satisfied := range [...]bool{false, true} {
		for i := range places {
			v := &r.views[i]
			if v.Satisfied != satisfied || plan.Profile(int(places[i].need)).Same() == nil {
				continue
			}
			if left <= 0 {
				return
			}
			left -= max(in.Supply.Len(), 1)
			v.Candidates = coverageOf(plan.Domains(int(places[i].need)))
		}
	}
}

// coverageOf returns the best domains, and in any case the one that was chosen.
func coverageOf(domains []engine.DomainExplanation) (out []DomainCoverage) {
	for i := range domains {
		d := &domains[i]
		c := DomainCoverage{Domain: d.Domain, PerMille: int(d.Share * 1000), Satisfiable: d.Covers}
		switch {
		case len(out) < candidatesMax:
			out = append(out, c)
		case d.Chosen:
			out[candidatesMax-1] = c
		}
	}
	return out
}

// choose returns the needs that are told, in their order. Rows that were folded
// are one need. More than twice the limit are never held.
func (r *reply) choose(q question, in engine.Input, plan *engine.Plan) []place {
	var places []place
	cut := func() {
		slices.SortFunc(places, place.compare)
		if q.limit > 0 {
			places = places[:min(len(places), q.limit)]
		}
	}
	var block *demand.Block // of cluster last
	last := ""
	for i := range plan.Len() {
		cluster, row := plan.Identity(i)
		if q.cluster != "" && q.cluster != cluster || int(plan.Fold(i)) != i {
			continue
		}
		if block == nil || cluster != last {
			block, last = in.Demand.Block(cluster), cluster
		}
		r.header.Total++
		places = append(places, place{plan.Profile(i).Priority(), int32(i), block.Arrival(row)})
		if q.limit > 0 && len(places) >= 2*q.limit {
			cut()
		}
	}
	cut()
	return places
}

func rowOf(in engine.Input, plan *engine.Plan, i int) model.Need {
	cluster, row := plan.Identity(i)
	return in.Demand.Row(in.Demand.Block(cluster), row)
}

// viewOf returns what is told of a need but for what matches it. Profile and group are the
// row's own, also where the row was folded: of a fold the first row's.
func viewOf(in engine.Input, plan *engine.Plan, p place) NeedView {
	n, need := plan.Need(int(p.need)), rowOf(in, plan, int(p.need))
	return NeedView{
		Need: need, Satisfied: n.Satisfied, Deficit: n.Deficit, Claimed: len(n.Claimed), Bootstraps: int(n.Bootstrap), Provisions: int(n.Provision),
		Domain: n.Domain, Satisfiable: n.CouldCover, Parked: need.Parked, Unmet: n.Unmet, Victims: int(n.Preempt), Freed: n.InFlight,
	}
}
