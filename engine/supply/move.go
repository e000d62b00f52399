package supply

import (
	"errors"
	"fmt"
	"math"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// errNoMachine is what a change of a row without a machine is refused with.
var errNoMachine = errors.New("there is no machine in the row")

// Transition moves a machine to another state; illegal moves are refused and
// change nothing. The cluster is set for Configuring, and for Configured if
// there is none yet, and kept otherwise until the machine is Idle or gone; stamps of what it did before end
// there too. A reservation survives until the machine is Deleting, Speculative
// or Failed; that of a machine that is Configuring is its caller's to take
// off. at is Unix nanoseconds and starts the idle clock on reaching Idle.
func (t *Table) Transition(r columnar.Row, to model.State, cluster string, at int64) error {
	if !t.Has(r) {
		return fmt.Errorf("row %d → %s: %w", r, to, errNoMachine)
	}
	from := t.cols.state[r]
	if !model.LegalMove(from, to) {
		return fmt.Errorf("machine %q: %s → %s is not a legal move", t.ID(r), from, to)
	}
	if t.needsCluster(r, to) && (cluster == "" || len(cluster) > model.NameBytesMax) {
		return fmt.Errorf("machine %q: %s needs a cluster, with an id of at most %d bytes", t.ID(r), to, model.NameBytesMax)
	}
	t.indexRow(r, false)
	t.count[from]--
	t.count[to]++
	t.note(r)
	t.cols.state[r] = to
	t.arrive(r, from, cluster, at)
	t.indexRow(r, true)
	return nil
}

// needsCluster reports whether a move gives the machine a cluster. A provider
// may report a Configuring machine without one.
func (t *Table) needsCluster(r columnar.Row, to model.State) bool {
	return to == model.Configuring || to == model.Configured && t.cols.cluster[r] == 0
}

// arrive sets what a move means for the rest of the record.
func (t *Table) arrive(r columnar.Row, from model.State, cluster string, at int64) {
	c := &t.cols
	if t.needsCluster(r, c.state[r]) {
		t.names.swap(&c.cluster[r], cluster)
	}
	switch c.state[r] {
	case model.Idle:
		t.names.swap(&c.cluster[r], "")
		if from != model.Creating { // it still belongs to whom it was created for
			t.setAssigned(r, model.Assignment{})
		}
		c.idleSince[r] = at
	case model.Speculative:
		t.names.swap(&c.cluster[r], "")
		t.hosts.set(&c.host[r], "", "")
		t.setAssigned(r, model.Assignment{})
		c.idleSince[r] = 0
		delete(t.reservations, r)
	case model.Deleting:
		t.setAssigned(r, model.Assignment{})
		delete(t.reservations, r)
	case model.Failed:
		delete(t.reservations, r)
	}
}

// Stamp sets what a machine is assigned to; nothing happens when there is no
// machine in the row.
func (t *Table) Stamp(r columnar.Row, a model.Assignment) {
	if !t.Has(r) {
		return
	}
	t.note(r)
	t.setAssigned(r, a)
}

// Reserve sets a machine's reservation; the zero value takes it off. Nothing
// happens when there is no machine in the row.
func (t *Table) Reserve(r columnar.Row, res model.Reservation) {
	if !t.Has(r) {
		return
	}
	t.note(r)
	t.setReservation(r, res)
}

// SetHost notes the host that a machine runs on.
func (t *Table) SetHost(r columnar.Row, host string) {
	if !t.Has(r) {
		return
	}
	t.note(r)
	t.hosts.set(&t.cols.host[r], t.ID(r), host)
	t.hosts.tidy(t.cols.host)
}

// SetError notes why a machine failed, up to ErrorBytesMax; "" = it did not.
func (t *Table) SetError(r columnar.Row, text string) {
	if !t.Has(r) {
		return
	}
	t.note(r)
	t.setError(r, text)
}

// SetPrice changes what a machine costs and how likely it is interrupted. The
// error wraps model.ErrPrice or model.ErrProbability; nothing changes then.
func (t *Table) SetPrice(r columnar.Row, pricePerHour, interruptionProbability float64) error {
	if !t.Has(r) {
		return fmt.Errorf("row %d: %w", r, errNoMachine)
	}
	if !(pricePerHour >= 0) || math.IsInf(pricePerHour, 0) {
		return fmt.Errorf("machine %q: %w", t.ID(r), model.ErrPrice)
	}
	if !(interruptionProbability >= 0 && interruptionProbability <= 1) {
		return fmt.Errorf("machine %q: %w", t.ID(r), model.ErrProbability)
	}
	t.next.set(t.kindOf(r))
	t.next.price, t.next.probability = pricePerHour+0, interruptionProbability+0
	t.retainKind(&t.next)
	t.leave(r)
	t.enter(r)
	return nil
}
