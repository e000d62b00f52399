// Package intake takes in what clusters need: mailboxes for roll-ups on their way, a quarantine for those
// that drop nearly everything, and the demand that the next decision looks at.
package intake

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
	"github.com/tonnage/tonnage/shard/internal/memory"
	"github.com/tonnage/tonnage/shard/internal/pace"
	"github.com/tonnage/tonnage/shard/internal/tally"
)

// RollupOutcome is what became of a roll-up.
type RollupOutcome uint8

// The outcomes. A refused roll-up has an error instead.
const (
	RollupRefused RollupOutcome = iota
	RollupAccepted
	RollupHeld // in quarantine; the demand accepted before stays
)

// Intake is what clusters need: the roll-ups on their way, and the demand that the next
// decision looks at.
type Intake struct {
	pace   *pace.Pace
	demand *demand.Table
	waits  waits
	meter  meter
	log    *slog.Logger

	guard     quarantine
	mail      mailboxes                        // roll-ups on their way to the next cycle; with a lock of their own
	admission atomic.Pointer[demand.Admission] // of the demand as the last cycle began with it
	mailed    []delivery                       // scratch of takeMail
	wanted    tally.Demand
}

// Meter is told what becomes of roll-ups.
type meter interface {
	// RollupRefused says that a roll-up of a cluster was refused.
	RollupRefused(cluster string)
	// Quarantined says how many roll-ups of a cluster are held in a row.
	Quarantined(cluster string, held int)
}

// Waits is the ledger of demand that waits for its first machine.
type waits interface {
	// WaitsSince returns since when demand waits that an earlier process has heard of, Unix
	// nanoseconds; 0 when it does not.
	WaitsSince(cluster string, p *model.Profile) int64
	// Reported says that a roll-up is taken over now, and when it came, Unix nanoseconds.
	Reported(cluster string, at int64)
}

// Deps is what an intake needs and tells.
type Deps struct {
	Pace     *pace.Pace
	Demand   *demand.Table
	Machines *supply.Table
	Waits    waits
	Meter    meter
	Memory   memory.Memory // nil = nothing outlives the process
	Log      *slog.Logger
	// Quarantine holds roll-ups that ask for nearly nothing; of clusters with at least
	// BoundMin bound machines also by what is asked for, and not by rows alone; 0 = by rows.
	Quarantine bool
	BoundMin   int
	Interval   time.Duration // of cycles
}

// New returns an intake without demand of any cluster.
func New(d *Deps) *Intake {
	apart := int64(quarantineApart * float64(d.Interval))
	k := &Intake{
		pace: d.Pace, demand: d.Demand, waits: d.Waits, meter: d.Meter, log: d.Log, mail: newMailboxes(d.Quarantine, apart),
		guard: quarantine{
			on: d.Quarantine, least: d.BoundMin, apart: apart, memory: d.Memory, machines: d.Machines, log: d.Log,
			accepted: map[string]asked{}, doubts: map[string]doubt{},
		},
	}
	k.admission.Store(d.Demand.Admission())
	return k
}

// HeldClusters returns the clusters whose last roll-up is in quarantine, sorted.
func (k *Intake) HeldClusters() []string { return k.mail.heldClusters() }

// MailBytes returns the bytes of roll-ups that wait, and of empty builders.
func (k *Intake) MailBytes() (waiting, spare int64) { return k.mail.memory() }

// Table is the demand that the next decision looks at.
func (k *Intake) Table() *demand.Table { return k.demand }

// Totals are the sums over it.
func (k *Intake) Totals() *tally.Demand { return &k.wanted }

// NoteOffer has roll-ups checked against what machines offer now.
func (k *Intake) NoteOffer() {
	if !k.admission.Load().KnowsOffer(k.demand) {
		k.admission.Store(k.demand.Admission())
	}
}

// Apply is ApplyRollup.
func (k *Intake) Apply(cluster string, rows []model.Need, now int64) (RollupOutcome, error) {
	if err := checkRows(cluster, rows); err != nil {
		return k.refuseRollup(cluster, len(rows), err)
	}
	b := k.mail.spare()
	defer k.mail.recycle(b)
	b.Reset(cluster)
	b.Grow(len(rows))
	for i := range rows {
		if err := b.AddNeed(&rows[i]); err != nil {
			return k.refuseRollup(cluster, len(rows), err)
		}
	}
	return k.post(b, now)
}

// TakeRollup is TakeRollup.
func (k *Intake) TakeRollup(b *demand.Builder, now int64) (RollupOutcome, error) {
	if err := b.Err(); err != nil {
		return k.refuseRollup(b.Cluster(), b.Len(), err)
	}
	b.ArrivedAt(now)
	return k.post(b, now)
}

func (k *Intake) refuseRollup(cluster string, rows int, err error) (RollupOutcome, error) {
	k.meter.RollupRefused(cluster)
	k.log.Warn("roll-up refused; the last good demand stays", "cluster", cluster, "rows", rows, "error", err)
	return RollupRefused, err
}

// post puts a builder's rows into the mailbox of their cluster.
func (k *Intake) post(b *demand.Builder, now int64) (RollupOutcome, error) {
	cluster, rows := b.Cluster(), b.Len()
	if err := k.admission.Load().Check(b); err != nil {
		return k.refuseRollup(cluster, rows, err)
	}
	outcome, held, err := k.mail.put(b, now)
	switch outcome {
	case RollupRefused:
		return k.refuseRollup(cluster, rows, err)
	case RollupHeld:
		k.log.Warn("roll-up held: it drops nearly all rows", "cluster", cluster, "rows", rows, "rollup", held, "confirmedAt", quarantineRollups)
	case RollupAccepted:
		k.pace.WakeUp()
	}
	k.meter.Quarantined(cluster, held)
	return outcome, nil
}

// TakeMail makes what waits in the mailboxes the demand of their clusters. A row
// that was there before keeps its arrival, and its stamps while it asks for as
// much: a roll-up that says the same again changes nothing.
func (k *Intake) TakeMail() {
	k.mailed = k.mail.take(k.mailed[:0])
	k.guard.bound = nil
	for i := range k.mailed {
		x := &k.mailed[i]
		if x.rollup == nil {
			k.heldReport(x.cluster)
			continue
		}
		k.exchange(x)
		k.mail.recycle(x.rollup)
		x.rollup = nil
	}
	if len(k.mailed) > 0 {
		k.admission.Store(k.demand.Admission())
	}
}

// exchange makes one accepted roll-up the demand of its cluster. What the table
// refuses all the same, for a limit of all clusters together, counts as refused
// although it was acknowledged: the demand before it stays.
func (k *Intake) exchange(x *delivery) {
	rows := x.rollup.Len()
	now := asked{rows, x.rollup.Total()}
	doubted := !k.guard.admits(x, &now, k.demand.Reported(x.cluster))
	k.mail.doubt(x.cluster, doubted)
	if doubted {
		k.heldReport(x.cluster)
		k.mail.know(x.cluster, k.guard.accepted[x.cluster].rows)
		k.meter.Quarantined(x.cluster, k.guard.doubts[x.cluster].count)
		return
	}
	if !k.demand.Reported(x.cluster) {
		x.rollup.ArrivedBy(func(p *model.Profile) int64 { return k.waits.WaitsSince(x.cluster, p) })
	}
	if err := k.demand.Report(x.rollup); err != nil {
		_, _ = k.refuseRollup(x.cluster, rows, fmt.Errorf("it was acknowledged, and there is no room for it in the demand of all clusters: %w", err))
		k.mail.know(x.cluster, k.rowsOf(x.cluster))
		return
	}
	k.guard.accept(x.cluster, now)
	k.wanted.Replace(k.demand, x.cluster)
	k.waits.Reported(x.cluster, x.at)
}

// heldReport notes that a cluster has reported, though what it said is held: what is known
// of its demand is to be served as reported. Where nothing is, after a restart, its
// Machines wait for a roll-up that is believed.
func (k *Intake) heldReport(cluster string) {
	if k.demand.Block(cluster) != nil {
		k.demand.MarkReported(cluster)
	}
}

// Recall takes over what a cluster asked for in an earlier process; false says that it
// cannot be read.
func (k *Intake) Recall(cluster string, value []byte) bool {
	known := k.guard.recall(cluster, value)
	k.mail.know(cluster, k.guard.accepted[cluster].rows)
	return known
}

// Load is LoadDemand.
func (k *Intake) Load(cluster string, rows []model.Need) error {
	if err := k.demand.Load(cluster, rows); err != nil {
		return err
	}
	k.mail.know(cluster, len(rows))
	k.guard.accepted[cluster] = askedOf(rows)
	k.wanted.Replace(k.demand, cluster)
	k.admission.Store(k.demand.Admission())
	return nil
}

// rowsOf returns how many rows of a cluster the table has.
func (k *Intake) rowsOf(cluster string) int {
	if b := k.demand.Block(cluster); b != nil {
		return b.Len()
	}
	return 0
}

// checkRows refuses what must not even be held.
func checkRows(cluster string, rows []model.Need) error {
	if cluster == "" {
		return fmt.Errorf("roll-up without a cluster id")
	}
	for i := range rows {
		if rows[i].Profile == nil {
			return fmt.Errorf("roll-up of cluster %q: row %d has no profile", cluster, i)
		}
		if c := rows[i].Cluster; c != "" && c != cluster {
			return fmt.Errorf("roll-up of cluster %q: row %d names cluster %q", cluster, i, c)
		}
	}
	return nil
}
