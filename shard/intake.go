package shard

import (
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
)

// RollupOutcome is what became of a roll-up.
type RollupOutcome uint8

// The outcomes. A refused roll-up has an error instead.
const (
	RollupRefused RollupOutcome = iota
	RollupAccepted
	RollupHeld // in quarantine; the demand accepted before stays
)

// intake is what clusters need: the roll-ups on their way, and the demand that the next
// decision looks at.
type intake struct {
	pace    *pace
	demand  *demand.Table
	waits   *latencies
	metrics *metrics
	log     *slog.Logger

	guard     quarantine
	mail      mailboxes                        // roll-ups on their way to the next cycle; with a lock of their own
	admission atomic.Pointer[demand.Admission] // of the demand as the last cycle began with it
	mailed    []delivery                       // scratch of takeMail
	wanted    demandTally
}

func newIntake(p *pace, wanted *demand.Table, waits *latencies, m *metrics, log *slog.Logger, guard quarantine) *intake {
	k := &intake{pace: p, demand: wanted, waits: waits, metrics: m, log: log, guard: guard, mail: newMailboxes(guard.on, guard.apart)}
	k.admission.Store(wanted.Admission())
	return k
}

// noteOffer has roll-ups checked against what machines offer now.
func (k *intake) noteOffer() {
	if !k.admission.Load().KnowsOffer(k.demand) {
		k.admission.Store(k.demand.Admission())
	}
}

// apply is ApplyRollup.
func (k *intake) apply(cluster string, rows []model.Need, now int64) (RollupOutcome, error) {
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

// takeRollup is TakeRollup.
func (k *intake) takeRollup(b *demand.Builder, now int64) (RollupOutcome, error) {
	if err := b.Err(); err != nil {
		return k.refuseRollup(b.Cluster(), b.Len(), err)
	}
	b.ArrivedAt(now)
	return k.post(b, now)
}

func (k *intake) refuseRollup(cluster string, rows int, err error) (RollupOutcome, error) {
	k.metrics.rollupRefused(cluster)
	k.log.Warn("roll-up refused; the last good demand stays", "cluster", cluster, "rows", rows, "error", err)
	return RollupRefused, err
}

// post puts a builder's rows into the mailbox of their cluster.
func (k *intake) post(b *demand.Builder, now int64) (RollupOutcome, error) {
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
		k.pace.wakeUp()
	}
	k.metrics.quarantined(cluster, held)
	return outcome, nil
}

// takeMail makes what waits in the mailboxes the demand of their clusters. A row
// that was there before keeps its arrival, and its stamps while it asks for as
// much: a roll-up that says the same again changes nothing.
func (k *intake) takeMail() {
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
func (k *intake) exchange(x *delivery) {
	rows := x.rollup.Len()
	now := asked{rows, x.rollup.Total()}
	doubted := !k.guard.admits(x, &now, k.demand.Reported(x.cluster))
	k.mail.doubt(x.cluster, doubted)
	if doubted {
		k.heldReport(x.cluster)
		k.mail.know(x.cluster, k.guard.accepted[x.cluster].rows)
		k.metrics.quarantined(x.cluster, k.guard.doubts[x.cluster].count)
		return
	}
	if !k.demand.Reported(x.cluster) {
		x.rollup.ArrivedBy(func(p *model.Profile) int64 { return k.waits.waitsSince(x.cluster, p) })
	}
	if err := k.demand.Report(x.rollup); err != nil {
		_, _ = k.refuseRollup(x.cluster, rows, fmt.Errorf("it was acknowledged, and there is no room for it in the demand of all clusters: %w", err))
		k.mail.know(x.cluster, k.rowsOf(x.cluster))
		return
	}
	k.guard.accept(x.cluster, now)
	k.wanted.replace(k.demand, x.cluster)
	k.waits.reportedAt[x.cluster] = x.at
}

// heldReport notes that a cluster has reported, though what it said is held: what is known
// of its demand is to be served as reported. Where nothing is, after a restart, its
// machines wait for a roll-up that is believed.
func (k *intake) heldReport(cluster string) {
	if k.demand.Block(cluster) != nil {
		k.demand.MarkReported(cluster)
	}
}

// recall takes over what a cluster asked for in an earlier process; false says that it
// cannot be read.
func (k *intake) recall(cluster string, value []byte) bool {
	known := k.guard.recall(cluster, value)
	k.mail.know(cluster, k.guard.accepted[cluster].rows)
	return known
}

// load is LoadDemand.
func (k *intake) load(cluster string, rows []model.Need) error {
	if err := k.demand.Load(cluster, rows); err != nil {
		return err
	}
	k.mail.know(cluster, len(rows))
	k.guard.accepted[cluster] = askedOf(rows)
	k.wanted.replace(k.demand, cluster)
	k.admission.Store(k.demand.Admission())
	return nil
}

// rowsOf returns how many rows of a cluster the table has.
func (k *intake) rowsOf(cluster string) int {
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
