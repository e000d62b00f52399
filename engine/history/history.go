// Package history counts actions that come to nothing: those that a later action on the
// same machine undoes, and machines that are drained for a Need that never binds them.
//
// The engine is a function of its input and remembers no action, so the caller that
// carries plans out tells a History of them, once a cycle:
//
//	Begin(demand)        what clusters ask for has changed since the last cycle
//	Disturbed(cluster)   supply has changed without an action
//	Decided(demand)      a plan is made
//	Ended(rows)          reservations that the plan ends
//	Did(action)          one action of it is carried out
//	Close()              the cycle is over: its counts
//
// What is remembered is bounded by MachinesMax and ClustersMax. A machine that is forgotten
// is not counted.
package history

import (
	"github.com/cespare/xxhash/v2"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
)

const (
	// MachinesMax is how many machines with an action are remembered; the one whose first
	// action is the oldest is forgotten first.
	MachinesMax = 1 << 16
	// ClustersMax is how many clusters with a change are remembered. With more, all count as
	// changed.
	ClustersMax = 1 << 14
)

// Undoing is an action and the later one that undoes it.
type Undoing uint8

// The pairs of actions.
const (
	BoughtDeleted      Undoing = iota // Provision, then Delete
	BoundPreempted                    // Bootstrap, then Preempt
	BoundReclaimed                    // Bootstrap, then Reclaim
	PreemptedBoundBack                // Preempt, then Bootstrap to the cluster that had the machine
	ReclaimedBoundBack                // Reclaim, then Bootstrap to the cluster that had the machine
	DeletedBought                     // Delete, then Provision

	// NumUndoings is the number of pairs.
	NumUndoings = int(DeletedBought) + 1
)

var undoingNames = [NumUndoings]string{"bought_deleted", "bound_preempted", "bound_reclaimed", "preempted_bound_back", "reclaimed_bound_back", "deleted_bought"}

// String returns the pair's name as files and metrics spell it.
func (u Undoing) String() string { return undoingNames[u] }

// Counts are the facts of one cycle, or of several.
type Counts struct {
	// Undone counts the actions that are undone though neither demand nor supply has
	// changed anywhere since they were carried out.
	Undone [NumUndoings]int
	// UndoneElsewhere counts those that are undone though nothing has changed in the two
	// clusters that they concern, while something has changed elsewhere since.
	UndoneElsewhere [NumUndoings]int
	// DrainedInVain counts the machines that were preempted and held for a Need, and whose
	// reservation has ended without the Need having bound them. A machine that fails
	// or is lost while it is held counts.
	DrainedInVain int
}

// Add adds the counts of another cycle.
func (c *Counts) Add(o *Counts) {
	for u := range NumUndoings {
		c.Undone[u] += o.Undone[u]
		c.UndoneElsewhere[u] += o.UndoneElsewhere[u]
	}
	c.DrainedInVain += o.DrainedInVain
}

// Deed is an action that is carried out.
type Deed struct {
	Kind    engine.Kind
	Machine columnar.Row
	// Cluster is the acquirer's for Bootstrap and Provision, and the one that the machine
	// leaves for Preempt and Reclaim.
	Cluster string
	// By is the preemptor's cluster, for Preempt.
	By string
}

// mark is an action that may be undone yet.
type mark struct {
	at      uint64 // 1 + the number of changes before it; 0 = none
	cluster uint64
}

// record is what is remembered of one machine.
type record struct {
	machine                      uint64
	bought, bound, drained, gone mark
	row                          columnar.Row
	owner                        model.Owner // for whom it was preempted
	preempted                    bool        // the drain was a Preempt
	waits                        bool        // the owner has not bound it yet
	ended                        bool        // its reservation ends in this cycle
	listed                       bool        // the place stands in History.waiting
}

// History remembers the actions of the last cycles. It has one owner; it is not safe for
// concurrent use. The supply table is the one that the actions change.
type History struct {
	supply  *supply.Table
	records []record         // a ring, once MachinesMax are there
	next    int              // where the ring goes on
	at      map[uint64]int32 // machine → place in records
	waiting []int32          // places of the machines that wait for their owner
	changes uint64
	changed map[uint64]uint64 // cluster → number of its last change
	all     uint64            // number of the last change of all clusters
	version uint64            // of the demand, as far as it is known
	counts  Counts            // of the cycle at work
}

// New returns a history of the machines of a table.
func New(t *supply.Table) *History {
	return &History{supply: t, at: map[uint64]int32{}, changed: map[uint64]uint64{}}
}

// Begin takes over what has changed of the demand since the last cycle. Call it before
// the demand is written by anything but reports.
func (h *History) Begin(d *demand.Table) {
	h.counts = Counts{}
	if d.Version() == h.version {
		return
	}
	clusters, complete := d.Changes(h.version)
	if !complete {
		h.changes++
		h.changeAll()
		return
	}
	for i := range clusters {
		h.Disturbed(clusters[i].Cluster)
	}
}

// Decided says that what has been written to the demand since Begin, as which rows are
// parked, is no change of what clusters ask for.
func (h *History) Decided(d *demand.Table) { h.version = d.Version() }

// Disturbed notes a change of a cluster's demand, or of its machines by something else
// than an action; "" = of machines of no cluster.
func (h *History) Disturbed(cluster string) {
	h.changes++
	if cluster == "" {
		return
	}
	if len(h.changed) >= ClustersMax {
		h.changeAll()
	}
	h.changed[hash(cluster)] = h.changes
}

func (h *History) changeAll() {
	clear(h.changed)
	h.all = h.changes
}

// Ended notes the machines whose reservations the plan ends.
func (h *History) Ended(rows []columnar.Row) {
	if len(h.waiting) == 0 {
		return
	}
	for _, r := range rows {
		if x := h.recordOf(r); x != nil {
			x.ended = true
		}
	}
}

// Did notes an action, once the table says what it has done.
func (h *History) Did(d *Deed) {
	x := h.recordFor(d.Machine)
	now := mark{h.changes + 1, hash(d.Cluster)}
	switch d.Kind {
	case engine.Provision:
		h.undo(&x.gone, DeletedBought, now.cluster)
		x.bought = now
	case engine.Delete:
		now.cluster = x.bought.cluster // for whom it was bought, if that is known
		x.gone = now
		h.undo(&x.bought, BoughtDeleted, now.cluster)
	case engine.Bootstrap:
		h.bind(x, now)
	case engine.Preempt:
		h.undo(&x.bound, BoundPreempted, hash(d.By))
		h.drain(x, now, true)
	case engine.Reclaim:
		h.undo(&x.bound, BoundReclaimed, now.cluster)
		h.drain(x, now, false)
	}
}

// bind notes that a machine is bound to a cluster.
func (h *History) bind(x *record, now mark) {
	if x.drained.cluster == now.cluster {
		kind := ReclaimedBoundBack
		if x.preempted {
			kind = PreemptedBoundBack
		}
		h.undo(&x.drained, kind, now.cluster)
	}
	x.drained, x.bound = mark{}, now
	if x.waits && x.ended {
		h.counts.DrainedInVain++
	}
	x.waits = false
}

// drain notes that a machine leaves a cluster, and for whom.
func (h *History) drain(x *record, now mark, preempted bool) {
	x.drained, x.preempted = now, preempted
	if res := h.supply.Reservation(x.row); preempted && res.Active() {
		x.waits, x.ended, x.owner = true, false, res.Owner
		if !x.listed {
			x.listed = true
			h.waiting = append(h.waiting, h.at[x.machine])
		}
	}
}

// undo counts an action that another one undoes, if nothing that concerns it has changed
// since, and forgets it. by is the cluster that the other action is for.
func (h *History) undo(m *mark, kind Undoing, by uint64) {
	done := *m
	*m = mark{}
	switch {
	case done.at == 0:
	case done.at == h.changes+1:
		h.counts.Undone[kind]++
	case h.all < done.at && h.changed[done.cluster] < done.at && h.changed[by] < done.at:
		h.counts.UndoneElsewhere[kind]++
	}
}

// Close ends the cycle and returns its counts: a machine that waits for its owner waits on
// for as long as it is held for it.
func (h *History) Close() Counts {
	left := h.waiting[:0]
	for _, at := range h.waiting {
		x := &h.records[at]
		if x.waits = x.waits && h.isHeld(x); x.waits {
			x.ended = false
			left = append(left, at)
		} else {
			x.listed = false
		}
	}
	h.waiting = left
	return h.counts
}

// isHeld reports whether a machine that waits for its owner is held for it yet, and counts it
// when it is not.
func (h *History) isHeld(x *record) bool {
	there := h.supply.Has(x.row) && hash(h.supply.ID(x.row)) == x.machine
	switch {
	case there && h.supply.State(x.row) == model.Configured:
		return false // its drain was never begun
	case there && h.supply.Reservation(x.row).Owner == x.owner:
		return true
	}
	h.counts.DrainedInVain++
	return false
}

// recordOf returns what is remembered of a machine, nil = nothing.
func (h *History) recordOf(r columnar.Row) *record {
	if at, known := h.at[hash(h.supply.ID(r))]; known {
		return &h.records[at]
	}
	return nil
}

// recordFor returns the record of a machine, a new one if there is none.
func (h *History) recordFor(r columnar.Row) *record {
	machine := hash(h.supply.ID(r))
	at, known := h.at[machine]
	if !known {
		at = int32(h.next)
		if len(h.records) < MachinesMax {
			h.records = append(h.records, record{})
		} else {
			delete(h.at, h.records[at].machine)
		}
		h.records[at] = record{listed: h.records[at].listed}
		h.next = (h.next + 1) % MachinesMax
		h.at[machine] = at
	}
	x := &h.records[at]
	x.machine, x.row = machine, r
	return x
}

func hash(text string) uint64 { return xxhash.Sum64String(text) }
