package fleetview

import (
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/web"
)

// Limits of what a shard's history keeps: the last hour and the last 1,000 cycles,
// whichever is longer, as far as the bytes reach.
const (
	HistoryBytesMax  = 64 << 20
	HistoryCyclesMin = 1000
	HistorySpanMin   = time.Hour
	// cycleEventsMax bounds the Needs and the machines that one cycle lists; the others are counted.
	cycleEventsMax = 5000
	// slowCyclesMax is how many slow cycles are remembered beyond the history.
	slowCyclesMax = 256
	// SlowMillis is from how many milliseconds on a cycle is remembered as slow.
	SlowMillis = 10
)

// NeedEvent is a Need that came to be unmet or ceased to be, or is unmet for another reason.
type NeedEvent struct {
	Name     string `json:"name"` // as explain takes it
	Key      string `json:"key"`
	Cluster  string `json:"cluster"`
	Need     string `json:"need"` // the profile in words
	Priority int32  `json:"priority"`
	From     string `json:"from"` // a reason; empty = it was not unmet
	To       string `json:"to"`   // a reason, satisfied or gone
}

// MachineEvent is a machine that changed its state or its cluster between two decisions.
type MachineEvent struct {
	Machine     string `json:"machine"` // empty = its name is not known any more
	From        string `json:"from"`    // a state; empty = it was not there
	FromCluster string `json:"fromCluster,omitempty"`
	To          string `json:"to"` // empty = it is not there any more
	ToCluster   string `json:"toCluster,omitempty"`
}

// ActionEvent is an action that was carried out.
type ActionEvent struct {
	Kind    string `json:"kind"`
	Reason  string `json:"reason"`
	Machine string `json:"machine"`
	Type    string `json:"type"`
	Cluster string `json:"cluster"`        // that gains the machine, or loses it
	From    string `json:"from,omitempty"` // of Preempt: that loses it
	// Of Preempt, where the plan is kept: the Need that loses the machine, its priority, and the notice; and the Need that gets it,
	// also of Bootstrap and Provision.
	FromNeed     string `json:"fromNeed,omitempty"`
	FromPriority int32  `json:"fromPriority,omitempty"`
	ForNeed      string `json:"forNeed,omitempty"`
	GraceSeconds int32  `json:"graceSeconds,omitempty"`
	Need         string `json:"need,omitempty"` // the profile in words
	Priority     int32  `json:"priority,omitempty"`
	Plan         uint64 `json:"plan,omitempty"`
	Error        string `json:"error,omitempty"`
}

// CycleRow is one cycle in figures.
type CycleRow struct {
	Cycle    uint64                   `json:"cycle"`
	At       int64                    `json:"at"` // Unix milliseconds
	Shard    int                      `json:"shard"`
	Millis   float64                  `json:"ms"`
	Phases   [len(web.Phases)]float64 `json:"phases"`
	Needs    int                      `json:"needs"`
	Unmet    int                      `json:"unmet"`
	Machines [len(web.States)]int     `json:"machines"`
	Spend    float64                  `json:"spend"` // USD an hour
	Actions  [len(web.Kinds)]int      `json:"actions"`
}

// cycleRecord is what is kept of one cycle.
type cycleRecord struct {
	row      CycleRow
	needs    []NeedEvent
	machines []MachineEvent
	actions  []ActionEvent
	more     int // events that are not listed
}

func (c *cycleRecord) needChanged(k needKey, a *needAge, from, to string) {
	if c == nil || from == to {
		return
	}
	if len(c.needs) >= cycleEventsMax {
		c.more++
		return
	}
	c.needs = append(c.needs, NeedEvent{Name: a.name, Key: k.text(), Cluster: k.cluster, Need: a.says, Priority: a.prio, From: from, To: to})
}

// finish adds what was done in the cycle. A nil record becomes one.
func (c *cycleRecord) finish(r *shard.CycleReport, f *web.Frame, plans []numberedPlan, forNeed map[string]string) *cycleRecord {
	if c == nil {
		c = &cycleRecord{}
	}
	c.row = CycleRow{
		Cycle: f.Cycle, At: f.At, Millis: f.CycleMillis, Phases: f.PhaseMillis, Needs: f.Needs, Unmet: f.Needs - f.Satisfied,
		Machines: f.Machines, Actions: f.Actions,
	}
	for _, v := range f.Spend {
		c.row.Spend += v
	}
	listed := [engine.NumKinds]int{}
	for i := range r.Actions {
		a := &r.Actions[i]
		listed[a.Kind]++
		e := ActionEvent{
			Kind: a.Kind.String(), Reason: a.Reason.String(), Machine: a.Machine, Type: a.InstanceType,
			Cluster: a.Cluster, Need: inShort(a.Need), Priority: a.Priority, Error: a.Error, ForNeed: forNeed[a.Machine],
		}
		if a.Kind == engine.Preempt {
			e.From, e.Cluster, e.GraceSeconds = a.Cluster, a.For, a.GraceSeconds
			if x, v := planOf(plans, a.Machine); x != nil {
				e.Plan, e.ForNeed, e.FromNeed, e.FromPriority = x.number, x.about.Name, v.Need, v.Priority
			}
		}
		c.actions = append(c.actions, e)
	}
	for k, n := range r.Counts {
		c.more += max(n-listed[k], 0)
	}
	return c
}

// bytes estimates the memory of a record. Most strings are shared with tables
// or other records; those of names are counted.
func (c *cycleRecord) bytes() int {
	const name = 24 // of a string that nobody else holds
	return int(unsafe.Sizeof(*c)) +
		cap(c.needs)*(int(unsafe.Sizeof(NeedEvent{}))+2*name) +
		cap(c.machines)*(int(unsafe.Sizeof(MachineEvent{}))+name) +
		cap(c.actions)*(int(unsafe.Sizeof(ActionEvent{}))+2*name)
}

// History keeps what happened in the last cycles of a shard. All methods may be called
// by any goroutine.
type History struct {
	bytesMax int

	mu      sync.Mutex
	records []*cycleRecord // oldest first
	bytes   int
	slow    []CycleRow // oldest first
}

// add takes in a cycle, and forgets old ones.
func (h *History) add(c *cycleRecord) {
	c.needs, c.machines, c.actions = slices.Clip(c.needs), slices.Clip(c.machines), slices.Clip(c.actions)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.records = append(h.records, c)
	h.bytes += c.bytes()
	drop := 0
	for drop < len(h.records)-1 {
		old := h.records[drop]
		aged := len(h.records)-drop > HistoryCyclesMin && c.row.At-old.row.At > HistorySpanMin.Milliseconds()
		if !aged && h.bytes <= h.bytesMax {
			break
		}
		h.bytes -= old.bytes()
		h.records[drop] = nil
		drop++
	}
	h.records = h.records[drop:] // append moves what is left now and then
	if c.row.Millis >= SlowMillis {
		h.slow = append(h.slow, c.row)
		if len(h.slow) > slowCyclesMax {
			h.slow = slices.Delete(h.slow, 0, len(h.slow)-slowCyclesMax)
		}
	}
}

// visit calls see with the records of (from, to], in Unix milliseconds, oldest first. A
// record does not change once it is kept.
func (h *History) visit(from, to int64, see func(*cycleRecord)) {
	h.mu.Lock()
	records := slices.Clone(h.records)
	h.mu.Unlock()
	for _, c := range records {
		if c.row.At > from && c.row.At <= to {
			see(c)
		}
	}
}

// rows returns the cycles that are kept, oldest first, and slow ones from before.
func (h *History) rows() (rows, slow []CycleRow) {
	h.mu.Lock()
	defer h.mu.Unlock()
	rows = make([]CycleRow, len(h.records))
	for i, c := range h.records {
		rows[i] = c.row
	}
	return rows, slices.Clone(h.slow)
}
