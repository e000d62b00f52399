package fleetview

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/web"
)

// CyclesAnswer lists cycles.
type CyclesAnswer struct {
	Since  int64      `json:"since"` // of the oldest that is kept, Unix milliseconds
	Kept   int        `json:"kept"`
	Cycles []CycleRow `json:"cycles"` // newest first
	// LastOver is the newest cycle that took at least `over` milliseconds, null = none is known.
	LastOver *CycleRow `json:"lastOver"`
}

// cyclesMax is how many cycles a list has at most.
const cyclesMax = 4000

// cycles lists the cycles that are kept: over is the least duration in milliseconds.
func (v *View) cycles(_ context.Context, q url.Values) (any, error) {
	over, err := integer(q, "over", 0, 1<<30, 0)
	if err != nil {
		return nil, err
	}
	limit, err := integer(q, "limit", 1, cyclesMax, HistoryCyclesMin)
	if err != nil {
		return nil, err
	}
	out := CyclesAnswer{Cycles: []CycleRow{}, Since: math.MaxInt64}
	for n, p := range v.parts {
		rows, slow := p.Recorder.history.rows()
		out.Kept += len(rows)
		if len(rows) > 0 {
			out.Since = min(out.Since, rows[0].At)
			slow = slices.DeleteFunc(slow, func(r CycleRow) bool { return r.At >= rows[0].At })
		}
		for _, r := range append(slow, rows...) {
			if r.Millis < float64(over) || over == 0 && len(rows) > 0 && r.At < rows[0].At {
				continue
			}
			r.Shard = n
			out.Cycles = append(out.Cycles, r)
		}
	}
	if len(out.Cycles) == 0 && out.Kept == 0 {
		out.Since = 0
	}
	slices.SortStableFunc(out.Cycles, func(a, b CycleRow) int {
		return cmp.Or(cmp.Compare(b.At, a.At), cmp.Compare(a.Shard, b.Shard), cmp.Compare(b.Cycle, a.Cycle))
	})
	if over > 0 && len(out.Cycles) > 0 {
		newest := out.Cycles[0]
		out.LastOver = &newest
	}
	out.Cycles = out.Cycles[:min(len(out.Cycles), limit)]
	return out, nil
}

// ChangesAnswer is what differs between two times.
type ChangesAnswer struct {
	From     Totals         `json:"from"`
	To       Totals         `json:"to"`
	Cycles   int            `json:"cycles"` // in between, the last one included
	Needs    []NeedEvent    `json:"needs"`  // whose reason is another, highest priority first
	Machines []MachineEvent `json:"machines"`
	Actions  []ActionCount  `json:"actions"`
	// Of lists that are cut, how many there are in all; More are events that no list has.
	NeedsTotal    int `json:"needsTotal"`
	MachinesTotal int `json:"machinesTotal"`
	More          int `json:"more"`
}

// Totals are the figures of all shards at a time.
type Totals struct {
	At       int64                `json:"at"` // of the newest cycle, Unix milliseconds; 0 = none
	Cycle    uint64               `json:"cycle"`
	Needs    int                  `json:"needs"`
	Unmet    int                  `json:"unmet"`
	Machines [len(web.States)]int `json:"machines"`
	Spend    float64              `json:"spend"`
}

// ActionCount counts alike actions.
type ActionCount struct {
	Kind    string `json:"kind"`
	Cluster string `json:"cluster,omitempty"`
	From    string `json:"from,omitempty"`
	Reason  string `json:"reason"`
	Count   int    `json:"count"`
	Example string `json:"example"`           // one of the machines
	ForNeed string `json:"forNeed,omitempty"` // that gets them, where all are for one
}

// changesMax is how many entries a list of changes has at most.
const changesMax = 500

// between returns the times that a query names: from and to, Unix milliseconds.
func between(q url.Values) (from, to int64, _ error) {
	a, err := integer(q, "from", 0, 1<<53, 0)
	if err != nil {
		return 0, 0, err
	}
	b, err := integer(q, "to", 0, 1<<53, 1<<53)
	if err != nil {
		return 0, 0, err
	}
	if a > b {
		return 0, 0, fmt.Errorf("%w: from is later than to", web.ErrBadQuery)
	}
	return int64(a), int64(b), nil
}

// changes compares two times: what was at from, and what was at to. q is text that an entry must have.
func (v *View) changes(_ context.Context, q url.Values) (any, error) {
	from, to, err := between(q)
	if err != nil {
		return nil, err
	}
	text := strings.ToLower(q.Get("q"))
	out := &ChangesAnswer{}
	d := newDifference()
	for _, p := range v.parts {
		rows, _ := p.Recorder.history.rows()
		out.From.add(rows, from)
		out.To.add(rows, to)
		p.Recorder.history.visit(from, to, func(c *cycleRecord) {
			out.Cycles++
			d.add(c)
		})
	}
	out.More = d.more
	out.Needs, out.NeedsTotal = d.needsOf(text)
	out.Machines, out.MachinesTotal = d.machinesOf(text)
	out.Actions = d.actionsOf(text)
	return out, nil
}

// add adds the figures of a shard's last cycle at or before a time.
func (t *Totals) add(rows []CycleRow, at int64) {
	i, _ := slices.BinarySearchFunc(rows, at+1, func(r CycleRow, at int64) int { return cmp.Compare(r.At, at) })
	if i == 0 {
		return
	}
	r := &rows[i-1]
	if r.At > t.At {
		t.At, t.Cycle = r.At, r.Cycle
	}
	t.Needs, t.Unmet, t.Spend = t.Needs+r.Needs, t.Unmet+r.Unmet, t.Spend+r.Spend
	for s, n := range r.Machines {
		t.Machines[s] += n
	}
}

// difference folds events: the first says what was, the last what is.
type difference struct {
	needs    map[string]*NeedEvent
	machines map[string]*MachineEvent
	nameless []MachineEvent
	actions  map[ActionCount]*ActionCount
	more     int
}

func newDifference() *difference {
	return &difference{needs: map[string]*NeedEvent{}, machines: map[string]*MachineEvent{}, actions: map[ActionCount]*ActionCount{}}
}

func (d *difference) add(c *cycleRecord) {
	d.more += c.more
	for i := range c.needs {
		e := c.needs[i]
		if was := d.needs[e.Cluster+" "+e.Key]; was != nil {
			e.From = was.From
		}
		d.needs[e.Cluster+" "+e.Key] = &e
	}
	for i := range c.machines {
		e := c.machines[i]
		if e.Machine == "" {
			if len(d.nameless) < changesMax {
				d.nameless = append(d.nameless, e)
			} else {
				d.more++
			}
			continue
		}
		if was := d.machines[e.Machine]; was != nil {
			e.From, e.FromCluster = was.From, was.FromCluster
		}
		d.machines[e.Machine] = &e
	}
	for i := range c.actions {
		a := &c.actions[i]
		key := ActionCount{Kind: a.Kind, Cluster: a.Cluster, From: a.From, Reason: a.Reason}
		n := d.actions[key]
		if n == nil {
			x := key
			x.Example, x.ForNeed = a.Machine, a.ForNeed
			n = &x
			d.actions[key] = n
		}
		if n.ForNeed != a.ForNeed {
			n.ForNeed = ""
		}
		n.Count++
	}
}

// needsOf returns the Needs whose reason is another, and how many there are.
func (d *difference) needsOf(text string) ([]NeedEvent, int) {
	out := []NeedEvent{}
	for _, e := range d.needs {
		met := e.From == "" && e.To == needMet // it came and went
		if e.From != e.To && !met && has(text, e.Name, e.Cluster, e.Need, e.From, e.To) {
			out = append(out, *e)
		}
	}
	slices.SortFunc(out, func(a, b NeedEvent) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Key, b.Key))
	})
	return out[:min(len(out), changesMax)], len(out)
}

func (d *difference) machinesOf(text string) ([]MachineEvent, int) {
	out := []MachineEvent{}
	for _, e := range d.machines {
		if (e.From != e.To || e.FromCluster != e.ToCluster) && has(text, e.Machine, e.From, e.To, e.FromCluster, e.ToCluster) {
			out = append(out, *e)
		}
	}
	slices.SortFunc(out, func(a, b MachineEvent) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), cmp.Compare(a.Machine, b.Machine))
	})
	for _, e := range d.nameless {
		if has(text, e.From, e.FromCluster) {
			out = append(out, e)
		}
	}
	return out[:min(len(out), changesMax)], len(out)
}

func (d *difference) actionsOf(text string) []ActionCount {
	out := []ActionCount{}
	for _, a := range d.actions {
		if has(text, a.Kind, a.Cluster, a.From, a.Reason) {
			out = append(out, *a)
		}
	}
	slices.SortFunc(out, func(a, b ActionCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.From, b.From), cmp.Compare(a.Reason, b.Reason))
	})
	return out[:min(len(out), changesMax)]
}

// has tells whether a text is in one of several; an empty one is.
func has(text string, in ...string) bool {
	return text == "" || slices.ContainsFunc(in, func(s string) bool { return strings.Contains(strings.ToLower(s), text) })
}

// PreemptionsAnswer says who was preempted for whom.
type PreemptionsAnswer struct {
	Since    int64 `json:"since"`    // of the oldest cycle that is kept, Unix milliseconds
	Machines int   `json:"machines"` // preemptions; a machine that was preempted twice counts twice
	// Different is how many machines these were.
	Different int             `json:"different"`
	Pairs     []PreemptionRow `json:"pairs"` // the latest first
}

// PreemptionRow is machines that were taken from one cluster for one kind of Need of another.
type PreemptionRow struct {
	From string `json:"from"`
	For  string `json:"for"`
	// The Needs that lose and get them, and the priority of the loser; empty where the plan was not kept.
	FromNeed     string   `json:"fromNeed,omitempty"`
	FromPriority int32    `json:"fromPriority,omitempty"`
	ForNeed      string   `json:"forNeed,omitempty"`
	GraceSeconds int32    `json:"graceSeconds"` // the longest notice
	Need         string   `json:"need"`         // the profile of the one that gets them, in words
	Priority     int32    `json:"priority"`
	Machines     int      `json:"machines"`  // preemptions; a machine that was preempted twice counts twice
	Times        int      `json:"times"`     // cycles in which this happened
	Different    int      `json:"different"` // machines
	Last         int64    `json:"last"`      // Unix milliseconds
	Plan         uint64   `json:"plan,omitempty"`
	Some         []string `json:"some"` // of the machines, each once

	machines map[string]bool
}

// someMax is how many machines of a pair are named.
const someMax = 16

// preemptions says who was preempted for whom between two times.
func (v *View) preemptions(_ context.Context, q url.Values) (any, error) {
	from, to, err := between(q)
	if err != nil {
		return nil, err
	}
	type pair struct {
		from, to, need string
		loser, winner  string
		priority, lost int32
	}
	out := &PreemptionsAnswer{Pairs: []PreemptionRow{}, Since: math.MaxInt64}
	pairs, all := map[pair]*PreemptionRow{}, map[string]bool{}
	for _, p := range v.parts {
		if rows, _ := p.Recorder.history.rows(); len(rows) > 0 {
			out.Since = min(out.Since, rows[0].At)
		}
		p.Recorder.history.visit(from, to, func(c *cycleRecord) {
			for i := range c.actions {
				a := &c.actions[i]
				if a.Kind != engine.Preempt.String() {
					continue
				}
				k := pair{a.From, a.Cluster, a.Need, a.FromNeed, a.ForNeed, a.Priority, a.FromPriority}
				if pairs[k] == nil {
					pairs[k] = &PreemptionRow{From: k.from, For: k.to, FromNeed: k.loser, FromPriority: k.lost, ForNeed: k.winner, Need: k.need, Priority: k.priority, machines: map[string]bool{}}
				}
				pairs[k].add(a, c.row.At)
				all[a.Machine] = true
				out.Machines++
			}
		})
	}
	out.Different = len(all)
	for _, r := range pairs {
		out.Pairs = append(out.Pairs, *r)
	}
	slices.SortFunc(out.Pairs, func(a, b PreemptionRow) int {
		return cmp.Or(cmp.Compare(b.Last, a.Last), cmp.Compare(a.From, b.From), cmp.Compare(a.For, b.For), cmp.Compare(a.Need, b.Need), cmp.Compare(a.FromNeed, b.FromNeed), cmp.Compare(a.ForNeed, b.ForNeed), cmp.Compare(a.FromPriority, b.FromPriority), cmp.Compare(a.Priority, b.Priority))
	})
	out.Pairs = out.Pairs[:min(len(out.Pairs), changesMax)]
	if out.Since == math.MaxInt64 {
		out.Since = 0
	}
	return out, nil
}

func (r *PreemptionRow) add(a *ActionEvent, at int64) {
	r.Machines++
	if at != r.Last || r.Times == 0 { // cycles come in their order
		r.Times++
	}
	r.Last, r.GraceSeconds = max(r.Last, at), max(r.GraceSeconds, a.GraceSeconds)
	if a.Plan != 0 {
		r.Plan = a.Plan
	}
	if r.machines[a.Machine] {
		return
	}
	r.machines[a.Machine] = true
	r.Different++
	if len(r.Some) < someMax {
		r.Some = append(r.Some, a.Machine)
	}
}
