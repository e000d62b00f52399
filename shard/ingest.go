package shard

import (
	"fmt"
	"slices"

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

// ApplyRollup takes in a cluster's whole demand; rows may leave Cluster empty.
// An accepted one starts a cycle at once; a row that goes on has arrived when it was
// first reported. A refused one changes nothing: the
// error says what is wrong with it, and the last good demand stays. A held one
// leaves the demand as it is too, but the cluster has reported. now is Unix
// nanoseconds. Safe for concurrent use.
func (s *Shard) ApplyRollup(cluster string, rows []model.Need, now int64) (RollupOutcome, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := checkRows(cluster, rows); err != nil {
		return s.refuseRollup(cluster, len(rows), err)
	}
	b := s.rollup
	b.Reset(cluster)
	b.Grow(len(rows))
	for i := range rows {
		if err := b.AddNeed(&rows[i]); err != nil {
			return s.refuseRollup(cluster, len(rows), err)
		}
	}
	return s.take(b, now)
}

// TakeRollup is ApplyRollup for rows that were read into a builder, which may
// be used again afterwards. One that was refused there is refused here. The lock
// is held for the exchange of the rows alone.
func (s *Shard) TakeRollup(b *demand.Builder, now int64) (RollupOutcome, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := b.Err(); err != nil {
		return s.refuseRollup(b.Cluster(), b.Len(), err)
	}
	return s.take(b, now)
}

func (s *Shard) refuseRollup(cluster string, rows int, err error) (RollupOutcome, error) {
	s.metrics.rollupRefused(cluster)
	s.log.Warn("roll-up refused; the last good demand stays", "cluster", cluster, "rows", rows, "error", err)
	return RollupRefused, err
}

// take makes a builder's rows the whole demand of its cluster, or holds them. A
// row that was there before keeps its arrival, and its stamps while it asks for
// as much: a roll-up that says the same again changes nothing.
func (s *Shard) take(b *demand.Builder, now int64) (RollupOutcome, error) {
	cluster, rows := b.Cluster(), b.Len()
	if s.cfg.Quarantine && s.suspicious(cluster, rows) {
		s.held[cluster]++
		if s.held[cluster] < quarantineRollups {
			s.demand.MarkReported(cluster)
			s.metrics.quarantined(s.held)
			s.log.Warn("roll-up held: it drops nearly all rows", "cluster", cluster, "rows", rows, "rollup", s.held[cluster], "confirmedAt", quarantineRollups)
			return RollupHeld, nil
		}
	}
	if !s.demand.Reported(cluster) {
		b.ArrivedBy(func(p *model.Profile) int64 { return s.latency.waitsSince(cluster, p) })
	}
	if err := s.demand.Report(b); err != nil {
		return s.refuseRollup(cluster, rows, err)
	}
	delete(s.held, cluster)
	s.metrics.quarantined(s.held)
	s.wanted.replace(s.demand, cluster)
	s.reportedAt[cluster] = now
	s.Wake()
	return RollupAccepted, nil
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
	s.wanted.replace(s.demand, cluster)
	return nil
}

// suspicious tells whether a roll-up drops nearly everything.
func (s *Shard) suspicious(cluster string, rows int) bool {
	accepted := 0
	if b := s.demand.Block(cluster); b != nil {
		accepted = b.Len()
	}
	return accepted >= QuarantineRowsMin && rows*quarantineKept < accepted
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
func (s *Shard) Held() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.heldLocked()
}

func (s *Shard) heldLocked() []string {
	out := make([]string, 0, len(s.held))
	for c := range s.held {
		out = append(out, c)
	}
	slices.Sort(out)
	return out
}
