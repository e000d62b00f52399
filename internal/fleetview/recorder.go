package fleetview

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/bill"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/world"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/web"
)

// agesMax bounds the ledger of how long Needs have been unmet; further ones
// show no age, and no event when they change.
const agesMax = 1 << 16

// Config is what a Recorder is made of.
type Config struct {
	// Publish takes the frame of each cycle.
	Publish func(web.Frame)
	// Failed returns how many calls to the provider have failed so far.
	Failed func() int64
	// Progress says how far the source of demand has come; nil = nothing is replayed.
	Progress func() string
	// Sessions returns how many operators are connected, and the clusters with rows that the
	// policy lowers; nil = none ever are.
	Sessions func() (connected int, lowered []web.Lowered)
	// Album keeps plans of preemption; nil = plans are not kept.
	Album *Album
	// Names says what Needs are called; nil = by cluster and row. Any goroutine may call it.
	Names world.Names
	// HistoryBytes bounds the history; 0 = HistoryBytesMax.
	HistoryBytes int
}

// Recorder turns what a shard tells of each cycle into frames of the page, and
// keeps what happened. Decided and Observe are called by the goroutine that runs the
// shard's cycles; all other methods may be called by any.
type Recorder struct {
	cfg Config

	// Of the goroutine that runs cycles.
	next  web.Frame
	plans []numberedPlan    // of the cycle
	gets  map[string]string // by machine that a Need gets in the cycle: what the Need is called
	ages  map[needKey]*needAge
	cycle uint64
	moves moveLog
	made  *cycleRecord // of the cycle that was decided

	history History
	gate    gate
	bill    atomic.Pointer[bill.Bill]

	mu     sync.Mutex
	last   web.Frame
	totals [len(web.Kinds)]int64 // actions of all cycles
	unmet  unmetList             // of the last cycle
	trends trends
}

// NewRecorder returns a recorder that has seen nothing yet.
func NewRecorder(cfg Config) *Recorder {
	return &Recorder{cfg: cfg, history: History{bytesMax: cmp.Or(cfg.HistoryBytes, HistoryBytesMax)}}
}

// Running notes that a cycle begins or has ended, as Deps.Running of a shard says.
func (p *Recorder) Running(running bool) { p.gate.Running(running) }

// needKey is a Need's identity from one cycle to the next.
type needKey struct {
	cluster     string
	fingerprint uint64
	group       string
}

type needAge struct {
	since  int64 // Unix nanoseconds
	cycle  uint64
	reason engine.Unmet
	retry  uint64 // the last cycle in which a parked Need was tried again
	name   string
	says   string // the profile in words
	prio   int32
}

// Decided takes from a plan what the report does not hold: deficits, reasons
// and ages. It runs with the shard locked, after the times were taken.
func (p *Recorder) Decided(in engine.Input, plan *engine.Plan) {
	p.cycle++
	p.made = &cycleRecord{}
	p.plans = p.cfg.Album.keep(in, plan, p.cfg.Names)
	p.gets = receivers(in, plan, p.cfg.Names)
	p.next = web.Frame{Clusters: len(in.Demand.Clusters()), Rows: plan.Stats.Needs, Needs: plan.Stats.Folded}
	list := p.listUnmet(in, plan)
	p.forgetMet(in, plan)
	p.moves.look(in.Supply, p.made)
	p.next.Satisfied = p.next.Needs - list.total
	for d, v := range list.deficit {
		if v > 0 {
			p.next.Resources = append(p.next.Resources, web.Resource{Name: plan.Dims()[d], Deficit: v})
		}
	}
	for u, count := range list.reasons {
		if count > 0 {
			p.next.Reasons = append(p.next.Reasons, web.ReasonCount{Reason: engine.Unmet(u).String(), Count: count})
		}
	}
	p.next.Unmet = describeUnmet(in, plan, list.rows[:min(len(list.rows), web.MaxUnmet)])
	p.next.Mostly = list.mostly()
	p.mu.Lock()
	p.unmet = list
	p.trends.add(in.Now, list.clusters)
	p.mu.Unlock()
}

// keyOf returns the key of the Need that a row is walked as. A fold is of no
// group.
func keyOf(in engine.Input, plan *engine.Plan, i int) needKey {
	cluster, row := plan.Identity(i)
	k := needKey{cluster: cluster, fingerprint: plan.Profile(i).Fingerprint()}
	if !folded(in, plan, i) {
		k.group = in.Demand.Block(cluster).Group(row)
	}
	return k
}

// folded tells whether a row is part of a fold: it is walked as something else
// than it asks for.
func folded(in engine.Input, plan *engine.Plan, i int) bool {
	cluster, row := plan.Identity(i)
	return plan.Profile(i).Same() == nil && in.Demand.Profile(in.Demand.Block(cluster).Profile(row)).Same() != nil
}

// describeUnmet puts unmet Needs into the page's words.
func describeUnmet(in engine.Input, plan *engine.Plan, rows []unmetRow) []web.UnmetNeed {
	out := make([]web.UnmetNeed, len(rows))
	for k, x := range rows {
		n := plan.Need(int(x.row))
		u := web.UnmetNeed{
			Name: x.name(), Key: x.key.text(), Cluster: n.Cluster, Profile: inShort(shard.Describe(n.Profile)), Priority: n.Profile.Priority(),
			Reason: x.reason.String(), AgeSeconds: float64(in.Now-x.since) / 1e9,
		}
		wants := wantsOf(in, plan, &n)
		for _, a := range n.Deficit {
			u.Deficit = append(u.Deficit, web.Amount{Name: a.Name, Value: a.Value})
			d := slices.Index(in.Demand.Dims(), a.Name)
			if d >= 0 && wants[d] > 0 {
				u.Missing = max(u.Missing, min(float64(a.Value)/float64(wants[d]), 1))
			} else {
				u.Missing = 1 // no machine offers it
			}
		}
		out[k] = u
	}
	return out
}

// wantsOf returns what a Need asks for, over the demand's dimensions; a fold
// asks for what its members do, which are rows of one cluster. n is the result
// of the Need's first row.
func wantsOf(in engine.Input, plan *engine.Plan, n *engine.NeedResult) []int64 {
	b, sum := in.Demand.Block(n.Cluster), make([]int64, len(in.Demand.Dims()))
	from, to := n.Row, n.Row+1
	if n.Folded {
		from, to = 0, b.Len()
	}
	for row := from; row < to; row++ {
		if plan.Fold(int(n.Fold)-n.Row+row) != n.Fold {
			continue
		}
		for d, v := range b.Aggregate(row) {
			sum[d] = model.SatAdd(sum[d], v)
		}
	}
	return sum
}

// Observe completes the frame from the report of the same cycle and publishes
// it.
func (p *Recorder) Observe(r *shard.CycleReport) {
	f := p.next
	f.Cycle, f.At, f.Mode = r.Cycle, r.Now/1e6, modeOf(r.Disposition)
	f.InFlight, f.Faults = r.InFlight, p.cfg.Failed()
	if p.cfg.Progress != nil {
		f.Progress = p.cfg.Progress()
	}
	if p.cfg.Sessions != nil {
		f.Sessions, f.Lowered = p.cfg.Sessions()
	}
	for s := model.Speculative; int(s) < model.NumStates; s++ {
		f.Machines[s-model.Speculative] = r.States[s]
	}
	copy(f.Spend[:], r.SpendPerHour[:])
	if r.Bill != nil {
		f.Effective, f.Bound = r.Bill.Effective, r.Bill.Bound
	}
	p.bill.Store(r.Bill)
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
	f.Did = didOf(r, p.plans, p.gets)
	p.history.add(p.made.finish(r, &f, p.plans, p.gets))
	p.cfg.Publish(f)
	p.mu.Lock()
	p.last = f
	p.mu.Unlock()
}

// Bill returns what the fleet costs, as of the last minute; the zero value while that is not known.
func (p *Recorder) Bill() bill.Bill {
	if b := p.bill.Load(); b != nil {
		return *b
	}
	return bill.Bill{}
}

// Latest returns the newest frame, its cycle 0 before the first, and the
// actions of all cycles by kind.
func (p *Recorder) Latest() (web.Frame, [len(web.Kinds)]int64) {
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

// receiversMax is of how many actions of a cycle it is known for which Need they are.
const receiversMax = 512

// receivers returns what the Needs are called that machines are bound or bought for, by machine.
func receivers(in engine.Input, plan *engine.Plan, names world.Names) map[string]string {
	var out map[string]string
	need, name := int32(-1), ""
	for i := range plan.Actions {
		a := &plan.Actions[i]
		if a.Kind != engine.Bootstrap && a.Kind != engine.Provision || a.Need < 0 {
			continue
		}
		if len(out) == receiversMax {
			break
		}
		if a.Need != need { // actions for one Need stand together
			need = a.Need
			cluster, row := plan.Identity(int(need))
			name = nameAt(in, names, cluster, row)
		}
		if out == nil {
			out = map[string]string{}
		}
		out[in.Supply.ID(a.Machine)] = name
	}
	return out
}

// didOf counts alike actions together. The report lists the first actions of a
// cycle; the rest is counted by kind.
func didOf(r *shard.CycleReport, plans []numberedPlan, gets map[string]string) []web.Action {
	var out []web.Action
	at := map[web.Action]int{}
	left := r.Counts
	for i := range r.Actions {
		a := &r.Actions[i]
		left[a.Kind]--
		key := web.Action{Kind: a.Kind.String(), Type: a.InstanceType, Cluster: a.Cluster, Need: inShort(a.Need), Reason: a.Reason.String()}
		whom := gets[a.Machine]
		if a.Kind == engine.Preempt {
			key.From, key.Cluster = a.Cluster, a.For
			if x, _ := planOf(plans, a.Machine); x != nil {
				key.Plan, whom = x.number, x.about.Name
			}
		}
		if k, known := at[key]; known {
			out[k].Count++
			if out[k].For != whom {
				out[k].For = "" // alike, and for several Needs
			}
			continue
		}
		at[key] = len(out)
		key.Machine, key.Count, key.For = a.Machine, 1, whom
		out = append(out, key)
	}
	for kind, n := range left {
		if n > 0 {
			out = append(out, web.Action{Kind: engine.Kind(kind).String(), Count: n})
		}
	}
	return out
}
