package shard

import (
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard/internal/inventory"
	"github.com/tonnage/tonnage/shard/internal/ledgers"
	"github.com/tonnage/tonnage/shard/internal/ownership"
	"github.com/tonnage/tonnage/shard/internal/pace"
)

// RefusalsLoggedMax is how many refused records one cycle logs one by one.
const RefusalsLoggedMax = 10

// FullListAfterFailureCycles is how many cycles must lie between two full
// listings when calls have failed.
const FullListAfterFailureCycles = 6

// Reconciled says what a cycle took over from the provider.
type Reconciled struct {
	Full     bool
	Listed   int // records in the answer
	Added    int // machines that this process did not know
	Moved    int // transitions that came to their end
	Diverged int // machines found in a state that nothing here led to
	Changed  int // same state, other price, probability, labels or capacity
	Removed  int // no longer listed
	Retired  int // Failed ones that the provider lists as healthy, or no longer
	Skipped  int // in flight, or older than what is known; looked at later
	Doubted  int // bound ones that are missing, which is not believed yet
	Refused  [NumRefusals]int
}

// Refusal is why a provider's record was refused.
type Refusal uint8

// The reasons for refusing a record.
const (
	RefusedPrice Refusal = iota
	RefusedProbability
	RefusedStructural
	RefusedOwner

	// NumRefusals is the number of reasons.
	NumRefusals = int(RefusedOwner) + 1
)

// String returns the reason as metrics spell it.
func (x Refusal) String() string {
	return [NumRefusals]string{"price", "interruption_probability", "structural", "owner"}[x]
}

// errOwner says that a machine is bound to another cluster without a drain of ours.
var errOwner = errors.New("its owner has changed, and nobody here has drained it")

func refusalOf(err error) Refusal {
	switch {
	case errors.Is(err, model.ErrPrice):
		return RefusedPrice
	case errors.Is(err, model.ErrProbability):
		return RefusedProbability
	case errors.Is(err, errOwner):
		return RefusedOwner
	}
	return RefusedStructural
}

// news is what the provider said of a machine while it was in flight.
type news struct {
	record  Record
	removed bool
}

// reconciler keeps the machines in step with what the provider lists.
type reconciler struct {
	cfg       *Config
	pace      *pace.Pace
	inventory *inventory.Inventory
	inFlight  *inventory.InFlight
	ownership *ownership.Ownership
	failed    *ledgers.Setbacks[string]
	log       *slog.Logger

	revision  []byte // of the last listing
	listed    bool   // the provider has listed once
	relist    bool   // the next listing is to be full
	sinceFull int    // listings since the last full one
	deferred  map[string]news
	doubts    doubts
}

// listAll has the next listing be full.
func (x *reconciler) listAll() { x.relist = true }

// request returns what to ask the provider for: what has changed, or everything when it
// is time for that. The listing begins.
func (x *reconciler) request() ListRequest {
	x.inFlight.ListingBegins()
	if x.cfg.AlwaysFull || x.relist || x.fullListDue() {
		return ListRequest{}
	}
	return ListRequest{SinceRevision: x.revision}
}

// gaveUp notes that the provider has not listed.
func (x *reconciler) gaveUp() { x.inFlight.ListingEnds(false) }

// fullListDue tells whether everything should be listed: a listing by revision
// says nothing of a machine whose call failed on the way, nor, from some
// providers, of one that is gone.
func (x *reconciler) fullListDue() bool {
	every := x.cfg.FullListCycles
	return every > 0 && (x.sinceFull >= every || x.inFlight.WantsListing() && x.sinceFull >= FullListAfterFailureCycles)
}

// reconcile brings the machine table in step with a listing.
func (x *reconciler) reconcile(l *ListResponse) Reconciled {
	batch := l.Batch
	if batch == nil {
		batch = plainBatch(l.Records)
	}
	out := Reconciled{Full: l.Full, Listed: batch.Len()}
	x.inFlight.ListingEnds(l.Full)
	x.listed = true
	x.revision = l.Revision
	x.sinceFull++
	if l.Full {
		x.sinceFull, x.relist = 0, false
		if x.inventory.Table.Len() == 0 {
			x.inventory.Table.GrowTo(batch.Len())
		}
	}
	out.Removed += x.ownership.DropForeign()
	x.doubts.forget(x.pace.Now)
	w := x.newWalk(batch, l.Full)
	for from := 0; from < batch.Len(); from += walkBatch {
		w.next(from, min(from+walkBatch, batch.Len()), &out)
	}
	x.removeAll(l.Removed, &out)
	if l.Full {
		x.removeUnseen(w.seen, &out)
		x.inventory.ForgetRecalled()
		x.ownership.ForgetGone(batch)
	}
	batch.Done()
	x.lookAgain(&out)
	x.forgetAbsent()
	x.relist = x.relist || len(x.doubts.absent) > 0
	out.Doubted = len(x.doubts.absent)
	x.inFlight.TakenOver()
	return out
}

// observeOrDefer takes a record over, or puts it aside while the machine is in
// flight: a listing by revision would not repeat it. It takes and returns what
// observeAt does.
func (x *reconciler) observeOrDefer(r columnar.Row, rec *Record, out *Reconciled) (columnar.Row, bool) {
	id := rec.Machine.ID
	if x.inFlight.Busy(id) {
		x.deferred[strings.Clone(id)] = news{record: ownCopy(rec)}
		out.Skipped++
		return r, false
	}
	delete(x.deferred, id)
	return x.observeAt(r, rec, out)
}

// ownCopy returns a record that outlives its listing.
func ownCopy(rec *Record) Record {
	own := *rec
	m := &own.Machine
	for _, s := range [...]*string{&m.ID, &m.Host, &m.Cluster, &m.InstanceType, &m.Zone, &m.LastError} {
		*s = strings.Clone(*s)
	}
	return own
}

// removeAll removes machines that the provider says are gone, unless they are busy.
func (x *reconciler) removeAll(ids []string, out *Reconciled) {
	var gone []columnar.Row
	named := map[columnar.Row]bool{}
	for _, id := range ids {
		if x.inFlight.Busy(id) {
			x.deferred[id] = news{removed: true}
			out.Skipped++
			continue
		}
		delete(x.deferred, id)
		if r, ok := x.inventory.Table.Lookup(id); ok && !named[r] {
			named[r] = true
			gone = append(gone, r)
		}
	}
	x.dropAll(gone, out)
}

// dropAll removes machines that are not there any more. Where too many bound ones are
// missing all of these stay until later listings say so too.
func (x *reconciler) dropAll(gone []columnar.Row, out *Reconciled) {
	table, now, bound := x.inventory.Table, x.pace.Now, 0
	for _, r := range gone {
		if !x.doubts.missed(table.ID(r)) && table.State(r).Bound() {
			bound++
		}
	}
	doubtful := x.doubts.doubtsAbsence(now, bound, table.Count(model.Configured)+table.Count(model.Configuring))
	if doubtful && bound > 0 {
		x.log.Error("too many bound machines are missing in the provider's listing; they stay bound, and nothing is done with them, until later listings say so too", "missing", bound)
	}
	for _, r := range gone {
		if table.State(r).Bound() {
			if !x.doubts.missing(table.ID(r), doubtful, now) {
				continue
			}
			x.doubts.gone.Add(now, 1)
		}
		x.drop(r, out)
	}
}

// forgetAbsent ends doubts about machines that are not bound here any more, whatever has become
// of them.
func (x *reconciler) forgetAbsent() {
	table := x.inventory.Table
	maps.DeleteFunc(x.doubts.absent, func(id string, _ *doubted) bool {
		r, there := table.Lookup(id)
		return !there || !table.State(r).Bound()
	})
}

// drop removes a machine that is gone, and tells its cluster.
func (x *reconciler) drop(r columnar.Row, out *Reconciled) {
	if x.inventory.Table.State(r) == model.Failed {
		out.Retired++
	} else {
		out.Removed++
	}
	x.inventory.TellGone(r)
	x.inventory.DropQuietly(r)
}

// removeUnseen removes what a full listing does not mention. A record that was
// refused was mentioned.
func (x *reconciler) removeUnseen(seen columnar.RowSet, out *Reconciled) {
	var gone []columnar.Row
	for r := columnar.Row(1); int(r) < x.inventory.Table.RowMax(); r++ {
		if !x.inventory.Table.Has(r) || seen.Has(r) || x.inFlight.Busy(x.inventory.Table.ID(r)) {
			continue
		}
		gone = append(gone, r)
	}
	slices.SortFunc(gone, func(a, b columnar.Row) int { return strings.Compare(x.inventory.Table.ID(a), x.inventory.Table.ID(b)) })
	x.dropAll(gone, out)
}

// lookAgain takes over what was put aside, for machines whose calls have ended
// before this listing began.
func (x *reconciler) lookAgain(out *Reconciled) {
	if len(x.deferred) == 0 {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(x.deferred)) {
		if x.inFlight.Busy(id) {
			continue
		}
		n := x.deferred[id]
		delete(x.deferred, id)
		if n.removed {
			x.removeAll([]string{id}, out)
		} else {
			x.observe(&n.record, out)
		}
	}
}
