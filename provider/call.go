package provider

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/calls"
	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/wire"
	"github.com/tonnage/tonnage/shard"
)

// graceMax is the longest grace that is counted; a longer one is no other.
const graceMax = 10 * 365 * 24 * time.Hour

// Do implements calls.Backend.
func (p *Provider) Do(ctx context.Context, c *calls.Call) (calls.Answer, error) {
	var out calls.Answer
	var h *hand
	err := p.submit(ctx, func() error {
		if err := ctx.Err(); err != nil { // the caller has gone, and will not know
			return err
		}
		i, err := p.carryOut(c)
		if err != nil {
			return err
		}
		x := &p.table.rows[i]
		out = calls.Answer{Operation: x.rec.operation(), Machine: wire.MachineOf(p.table.list(nil, x))}
		h = p.hands[x.rec.Driver]
		return nil
	})
	if err != nil {
		return calls.Answer{}, err
	}
	if h != nil {
		h.kick()
	}
	return out, nil
}

func (p *Provider) carryOut(c *calls.Call) (int32, error) {
	if err := p.fence.Admit(c); err != nil {
		return 0, err
	}
	i, ok := p.table.byID[c.Machine]
	if !ok {
		return 0, fmt.Errorf("%s machine %q: %w", c.Op, c.Machine, calls.ErrNotFound)
	}
	if c.Invalid != nil {
		return 0, c.Invalid
	}
	x := &p.table.rows[i]
	state := p.table.state(x)
	if x.rec != nil && state == x.rec.State && x.rec.repeats(c.Op) {
		if c.Op == shard.OpConfigure && c.Cluster != x.rec.Cluster {
			return 0, fmt.Errorf("configure machine %q for cluster %q: it is bound to %q: %w", c.Machine, c.Cluster, x.rec.Cluster, calls.ErrPosition)
		}
		return i, nil
	}
	if state != transitions[c.Op].from {
		why := ""
		if state == model.Failed {
			why = because(p.lastError(x))
		}
		return 0, fmt.Errorf("%s machine %q in state %s%s: %w", c.Op, c.Machine, state, why, calls.ErrPosition)
	}
	// The slots of all offers together may be more than a limit that they share leaves.
	if c.Op == shard.OpCreate && !x.offer.pool.Owned && p.account.room(x.offer, p.quotas) == 0 {
		return 0, fmt.Errorf("create machine %q: pool %q has as many machines as its limits allow: %w", c.Machine, x.offer.Pool, calls.ErrPosition)
	}
	p.begin(i, c)
	return i, nil
}

// lastError returns what a Failed row is listed with.
func (p *Provider) lastError(x *row) string {
	switch {
	case x.rec != nil && x.rec.State == model.Failed:
		return x.rec.LastError
	case x.freeKind() == freeHeld:
		return x.offer.stock.says()
	}
	return fmt.Sprintf("pool %q has as many machines as its limits allow", x.offer.Pool)
}

// begin starts a transition, or makes it when nothing has to be done.
func (p *Provider) begin(i int32, c *calls.Call) {
	now := p.cfg.Now()
	p.books.Operation++
	p.pending.books = true
	x := &p.table.rows[i]
	x.missing, x.tries, x.retry, x.trouble = 0, 0, time.Time{}, ""
	if c.Op == shard.OpConfigure {
		x.blob = append([]byte{}, c.Blob...)
		p.pending.blobs[x.id] = true
	}
	p.change(i, func(r *record) {
		r.Op, r.Operation = c.Op, p.books.Operation
		r.Owner = driver.Owner{Shard: c.Shard, Epoch: c.Token.Epoch, Sequence: c.Token.Sequence}
		switch c.Op {
		case shard.OpCreate:
			r.Driver, r.LateBound = x.offer.pool.Driver, x.offer.pool.LateBound
			if r.LateBound { // it is made when it is bound
				r.move(model.Idle, now)
				return
			}
			r.Generation++
			r.move(model.Creating, now)
		case shard.OpConfigure:
			if r.LateBound {
				r.Generation++
			}
			r.move(model.Configuring, now)
			r.Cluster, r.Metadata = c.Cluster, maps.Clone(c.Metadata)
		case shard.OpDrain:
			r.move(model.Draining, now)
			r.Deadline = now.Add(min(c.Grace, graceMax))
		case shard.OpDelete:
			if r.LateBound {
				r.move(model.Speculative, now)
				return
			}
			r.move(model.Deleting, now)
		}
	})
}

// Stats implements calls.Backend.
func (p *Provider) Stats() calls.Stats {
	p.mu.RLock()
	defer p.mu.RUnlock()
	out := p.stats.Stats
	out.Tokens = p.fence.Len()
	return out
}
