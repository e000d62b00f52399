package session

import (
	"cmp"
	"slices"
	"time"

	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/policy"
)

// Info is one session as it is now.
type Info struct {
	Cluster  string
	Peer     string // its address
	Protocol string // its version, as the operator says
	Began    time.Time
	// Sent and Received count messages; Waiting are those not sent yet.
	Sent, Received uint64
	Waiting        int
	Rollup         RollupInfo
	Limits         policy.Limits // as the operator was told
}

// RollupInfo is what became of a session's last roll-up that was read. The
// zero value says that none was.
type RollupInfo struct {
	At      time.Time
	Rows    int
	Outcome shard.RollupOutcome
	Err     error // why it was refused
	// Lowered is how many of its rows were above the cluster's limits.
	Lowered int
}

// RollupBytes returns how long the roll-ups are together that wait or are read, and
// what is held to read them with and into, as it was after the latest ones. It is
// a shard's Deps.RollupBytes.
func (s *Server) RollupBytes() (waiting, reading int64) {
	return s.intake.waiting.Load(), s.intake.reading.Load()
}

// Sessions returns the sessions by cluster.
func (s *Server) Sessions() []Info {
	all := s.links.all()
	out := make([]Info, len(all))
	for i, l := range all {
		out[i] = Info{
			Cluster: l.cluster, Peer: l.peer, Protocol: l.version, Began: l.began,
			Sent: l.sent.Load(), Received: l.received.Load(), Waiting: l.out.waiting(), Rollup: l.lastRollup(), Limits: l.limits,
		}
	}
	slices.SortFunc(out, func(a, b Info) int { return cmp.Compare(a.Cluster, b.Cluster) })
	return out
}

// Count returns how many sessions there are.
func (s *Server) Count() int { return s.links.count() }

func (l *link) note(r RollupInfo) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rollup = r
}

func (l *link) lastRollup() RollupInfo {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rollup
}
