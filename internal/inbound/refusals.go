package inbound

import (
	"log/slog"
	"sync"
	"time"
)

// reason is why a connection or call is refused.
type reason int

const (
	reasonHandshake reason = iota
	reasonAddress
	reasonIdentity
	reasonUnproven
	reasonStreams
	reasonSlow
	reasonRoom
	reasonFrames
	reasonPermission
	reasonCompressed
	reasons
)

// reasonNames are labels of metrics.
var reasonNames = [reasons]string{
	"handshake", "connections_of_address", "connections_of_identity", "unproven", "streams", "slow", "no_room", "short_frames", "permission", "compressed",
}

// refusals counts what is refused, and logs at most one line a second of each
// reason.
type refusals struct {
	log *slog.Logger

	mu     sync.Mutex
	counts [reasons]uint64
	said   [reasons]time.Time
	silent [reasons]uint64 // since said
}

func (r *refusals) note(c *conn, why reason, err error) {
	now := time.Now()
	r.mu.Lock()
	r.counts[why]++
	if now.Sub(r.said[why]) < refusalLogInterval {
		r.silent[why]++
		r.mu.Unlock()
		return
	}
	before := r.silent[why]
	r.said[why], r.silent[why] = now, 0
	r.mu.Unlock()
	args := []any{"reason", reasonNames[why]}
	if c != nil {
		args = append(args, c.who()...)
	}
	if err != nil {
		args = append(args, "error", err)
	}
	r.log.Warn("connection refused", append(args, "unreported", before)...)
}

func (r *refusals) of(why reason) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts[why]
}
