package replica

import (
	"context"
	"time"

	"github.com/tonnage/tonnage/coordinator/store"
)

// A member that has just won an election may lose it again before its first write has gone round.
// The write is dropped then, and nobody answers it. So the first try is a short one; on a disk that
// takes longer than that the next ones have more time.
const (
	claimFirst = time.Second
	claimMax   = 5 * time.Second
)

// claims are the tries of a replica to become the leader.
type claims struct {
	wait time.Duration // what the next try has; 0 = claimFirst
}

// try makes one try. One that runs out of time has no effect, or is replaced by the next: a
// claim goes by the revision of the leader before.
func (c *claims) try(ctx context.Context, claim func(context.Context) (*store.Claim, error)) (*store.Claim, error) {
	limit := max(c.wait, claimFirst)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	got, err := claim(ctx)
	switch {
	case err == nil:
		c.wait = claimFirst
	case ctx.Err() != nil:
		c.wait = min(2*limit, claimMax)
	}
	return got, err
}
