package shard

import (
	"github.com/tonnage/tonnage/columnar"
)

// walkBatch is how many records are looked up together.
const walkBatch = 64

// plainBatch is a listing whose records are there already.
type plainBatch []Record

// Len is that of Batch, and so are the others.
func (b plainBatch) Len() int { return len(b) }

// ID returns the machine's id.
func (b plainBatch) ID(i int) string { return b[i].Machine.ID }

// Digest returns 0: comparing fields costs no more.
func (b plainBatch) Digest(int) uint64 { return 0 }

// Record returns the record.
func (b plainBatch) Record(i int) (*Record, error) { return &b[i], nil }

// Done does nothing: the records are the caller's.
func (plainBatch) Done() {}

// walk takes over the records of a listing.
//
// A record is passed over, unread, when its digest is that of the record that
// was last taken over for its machine, nobody has touched the machine since (the
// table forgets the digest when the row changes), nothing is under way for it, and
// nothing that listings said of it is doubted. All others go the checked way.
type walk struct {
	x       *reconciler
	batch   Batch
	full    bool
	seen    columnar.RowSet // mentioned; of full listings
	watched columnar.RowSet // under way, doubted, or with news put aside
	ids     [walkBatch]string
	rows    [walkBatch]columnar.Row
}

func (x *reconciler) newWalk(batch Batch, full bool) *walk {
	w := &walk{x: x, batch: batch, full: full}
	if full {
		w.seen = columnar.NewRowSet(x.inventory.Table.RowMax() + batch.Len())
	}
	watch := func(id string) {
		if r, ok := x.inventory.Table.Lookup(id); ok {
			w.watched.Add(r)
		}
	}
	x.inFlight.UnderWay(watch)
	for id := range x.deferred {
		watch(id)
	}
	x.doubts.pending(watch)
	return w
}

// next takes over some records, at most walkBatch.
func (w *walk) next(from, to int, out *Reconciled) {
	n := to - from
	for i := range n {
		w.ids[i] = w.batch.ID(from + i)
	}
	machines := w.x.inventory.Table
	machines.LookupAll(w.rows[:n], w.ids[:n])
	who := machines.Membership()
	for i := range n {
		r := w.rows[i]
		if machines.Membership() != who { // the row may be another machine's by now
			r, _ = machines.Lookup(w.ids[i])
		}
		if d := w.batch.Digest(from + i); d == 0 || r == columnar.None || machines.Digest(r) != d || w.watched.Has(r) {
			r = w.take(r, from+i, d, out)
		}
		if w.full && r != columnar.None {
			w.seen.Add(r)
		}
	}
}

// take reads a record and takes it over. It returns the machine's row, if there
// is such a machine now, also when the record was refused.
func (w *walk) take(r columnar.Row, i int, digest uint64, out *Reconciled) columnar.Row {
	w.x.doubts.seen(w.batch.ID(i))
	rec, err := w.batch.Record(i)
	if err != nil {
		w.x.refuse(err, out)
		return r
	}
	r, taken := w.x.observeOrDefer(r, rec, out)
	if taken && digest != 0 {
		w.x.inventory.Table.SetDigest(r, digest)
	}
	return r
}
