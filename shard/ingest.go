package shard

import (
	"fmt"

	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
)

// The quarantine of roll-ups: one that keeps less than a tenth of the rows
// accepted before, when those were at least QuarantineRowsMin, is believed
// only when it is the third in a row. A mass scale-down goes through after two
// intervals of the operator; a broken informer cache does not empty a cluster.
const (
	QuarantineRowsMin = 10
	quarantineKept    = 10 // one of so many rows must stay
	quarantineRollups = 3
)

// RollupOutcome is what became of a roll-up.
type RollupOutcome uint8

// The outcomes. A refused roll-up has an error instead.
const (
	RollupRefused RollupOutcome = iota
	RollupAccepted
	RollupHeld // in quarantine; the demand accepted before stays
)

// ApplyRollup takes in a cluster's whole demand; rows may leave Cluster empty. An
// accepted roll-up starts a cycle at once, and that cycle takes it over, or a
// newer one of the cluster; a row that continues one of the demand before keeps
// its arrival. A new row arrives when the caller says. A refused roll-up changes
// nothing: the error says what is wrong with it, and the last good demand stays.
// A held one leaves the demand as it is too, but the cluster has reported. now is
// Unix nanoseconds. It is safe for concurrent use and waits for no cycle.
func (s *Shard) ApplyRollup(cluster string, rows []model.Need, now int64) (RollupOutcome, error) {
	if err := checkRows(cluster, rows); err != nil {
		return s.refuseRollup(cluster, len(rows), err)
	}
	b := s.mail.spare()
	defer s.mail.recycle(b)
	b.Reset(cluster)
	b.Grow(len(rows))
	for i := range rows {
		if err := b.AddNeed(&rows[i]); err != nil {
			return s.refuseRollup(cluster, len(rows), err)
		}
	}
	return s.post(b, now)
}

// TakeRollup is ApplyRollup for rows of an operator, which were read into a
// builder. New rows arrive now, whatever the operator says. A roll-up that the
// builder has refused is refused here. The builder holds nothing of use
// afterwards: Reset it before the next roll-up.
func (s *Shard) TakeRollup(b *demand.Builder, now int64) (RollupOutcome, error) {
	if err := b.Err(); err != nil {
		return s.refuseRollup(b.Cluster(), b.Len(), err)
	}
	b.ArrivedAt(now)
	return s.post(b, now)
}

func (s *Shard) refuseRollup(cluster string, rows int, err error) (RollupOutcome, error) {
	s.metrics.rollupRefused(cluster)
	s.log.Warn("roll-up refused; the last good demand stays", "cluster", cluster, "rows", rows, "error", err)
	return RollupRefused, err
}

// post puts a builder's rows into the mailbox of their cluster.
func (s *Shard) post(b *demand.Builder, now int64) (RollupOutcome, error) {
	cluster, rows := b.Cluster(), b.Len()
	if err := s.admission.Load().Check(b); err != nil {
		return s.refuseRollup(cluster, rows, err)
	}
	outcome, held, err := s.mail.put(b, now)
	switch outcome {
	case RollupRefused:
		return s.refuseRollup(cluster, rows, err)
	case RollupHeld:
		s.log.Warn("roll-up held: it drops nearly all rows", "cluster", cluster, "rows", rows, "rollup", held, "confirmedAt", quarantineRollups)
	case RollupAccepted:
		s.Wake()
	}
	s.metrics.quarantined(cluster, held)
	return outcome, nil
}

// takeMail makes what waits in the mailboxes the demand of their clusters. A row
// that was there before keeps its arrival, and its stamps while it asks for as
// much: a roll-up that says the same again changes nothing.
func (s *Shard) takeMail() {
	s.mailed = s.mail.take(s.mailed[:0])
	for i := range s.mailed {
		x := &s.mailed[i]
		if x.rollup == nil {
			s.demand.MarkReported(x.cluster)
			continue
		}
		s.exchange(x)
		s.mail.recycle(x.rollup)
		x.rollup = nil
	}
	if len(s.mailed) > 0 {
		s.admission.Store(s.demand.Admission())
	}
}

// exchange makes one accepted roll-up the demand of its cluster. What the table
// refuses all the same, for a limit of all clusters together, counts as refused
// although it was acknowledged: the demand before it stays.
func (s *Shard) exchange(x *delivery) {
	rows := x.rollup.Len()
	if !s.demand.Reported(x.cluster) {
		x.rollup.ArrivedBy(func(p *model.Profile) int64 { return s.latency.waitsSince(x.cluster, p) })
	}
	if err := s.demand.Report(x.rollup); err != nil {
		_, _ = s.refuseRollup(x.cluster, rows, fmt.Errorf("it was acknowledged, and there is no room for it in the demand of all clusters: %w", err))
		s.mail.know(x.cluster, s.rowsOf(x.cluster))
		return
	}
	s.wanted.replace(s.demand, x.cluster)
	s.reportedAt[x.cluster] = x.at
}

// LoadDemand sets what a cluster needs without a report of its own, as from a
// file: it is served, but nothing of the cluster is reclaimed before it
// reports.
func (s *Shard) LoadDemand(cluster string, rows []model.Need) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.demand.Load(cluster, rows); err != nil {
		return err
	}
	s.mail.know(cluster, len(rows))
	s.wanted.replace(s.demand, cluster)
	s.admission.Store(s.demand.Admission())
	return nil
}

// rowsOf returns how many rows of a cluster the table has.
func (s *Shard) rowsOf(cluster string) int {
	if b := s.demand.Block(cluster); b != nil {
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

// Held returns the clusters whose last roll-up is in quarantine, sorted.
func (s *Shard) Held() []string { return s.mail.heldClusters() }
