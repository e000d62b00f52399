package replica

import (
	"context"
	"errors"
	"fmt"

	"github.com/tonnage/tonnage/coordinator"
	"github.com/tonnage/tonnage/coordinator/store"
)

// entriesMax bounds the events of one reign that wait to be committed; one more
// is refused.
const entriesMax = 4096

// keeper is what keeps the state; *store.Store is one.
type keeper interface {
	Load(ctx context.Context, c *store.Claim, add func(key string, value []byte) error) error
	Commit(ctx context.Context, c *store.Claim, writes []store.Write) error
	Confirm(ctx context.Context, c *store.Claim) error
}

// reign is what one claim has decided and not committed yet. The replica's mutex
// guards it, but for the claim's head, which belongs to whoever commits.
type reign struct {
	claim *store.Claim
	// queue are the entries that no transaction has been begun for, oldest first.
	queue []*entry
	last  *entry // that was added, committed or not; nil before the first
	// committing says that a goroutine takes entries off the queue.
	committing bool
}

// entry is one event's writes. They are in the core already.
type entry struct {
	writes []coordinator.Write
	done   chan struct{} // closed when err is set
	err    error         // nil: committed, and all entries before it
}

// wait returns once the entry is committed, or is not going to be; nil is an
// entry that always was.
func (e *entry) wait(ctx context.Context) error {
	if e == nil {
		return nil
	}
	select {
	case <-e.done:
		return e.err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrUnavailable, context.Cause(ctx))
	}
}

func finish(entries []*entry, err error) {
	for _, e := range entries {
		e.err = err
		close(e.done)
	}
}

// add takes over an event's writes in memory and has them committed. The caller
// holds the mutex.
func (r *Replica) add(g *reign, writes []coordinator.Write) error {
	for _, w := range writes {
		if n := len(w.Key) + len(w.Value); n > store.BytesMax {
			return fmt.Errorf("%w: record %.64q would have %d bytes, at most %d can be kept", coordinator.ErrFull, w.Key, n, store.BytesMax)
		}
	}
	if err := r.core.Apply(writes); err != nil {
		r.reign = nil // what is in memory is half of it
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	g.last = &entry{writes: writes, done: make(chan struct{})}
	g.queue = append(g.queue, g.last)
	if !g.committing {
		g.committing = true
		go r.commit(g)
	}
	return nil
}

// commit makes all entries durable, in order, until there are none.
func (r *Replica) commit(g *reign) {
	for {
		r.mu.Lock()
		entries, writes := g.next()
		g.committing = len(entries) > 0
		r.mu.Unlock()
		if len(entries) == 0 {
			return
		}
		// A caller that goes away must not leave the commit's fate unknown.
		if err := r.keeper.Commit(context.Background(), g.claim, writes); err != nil {
			r.fail(g, entries, err)
			return
		}
		for range entries {
			r.config.Metrics.Applied("success")
		}
		finish(entries, nil)
	}
}

// next takes as many entries off the queue as one transaction holds, and at
// least one when there is any: one that is larger is committed in several. Of a
// key that several entries set, the last value is written.
func (g *reign) next() (entries []*entry, writes []store.Write) {
	at := map[string]int{}
	bytes := 0
	for _, e := range g.queue {
		fresh := 0
		for _, w := range e.writes {
			bytes += len(w.Key) + len(w.Value) + store.WriteOverhead
			if _, known := at[w.Key]; !known {
				fresh++
			}
		}
		if len(entries) > 0 && (len(writes)+fresh > store.OpsMax || bytes > store.BytesMax) {
			break
		}
		entries = append(entries, e)
		for _, w := range e.writes {
			if i, known := at[w.Key]; known {
				writes[i] = store.Write(w)
				continue
			}
			at[w.Key] = len(writes)
			writes = append(writes, store.Write(w))
		}
	}
	g.queue = g.queue[len(entries):]
	return entries, writes
}

// fail ends a reign whose commit failed: memory is ahead of what is durable. When
// it is certain that nothing was written, what is durable is read again and the
// claim goes on; else Run claims anew.
func (r *Replica) fail(g *reign, entries []*entry, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	entries = append(entries, g.queue...)
	g.queue, g.committing = nil, false
	unknown := errors.Is(err, store.ErrUnknown)
	deposed := errors.Is(err, store.ErrDeposed) && !unknown
	outcome := fmt.Errorf("%w: %w", ErrUnavailable, err)
	if deposed {
		outcome = ErrNotLeader
	} else {
		for range entries {
			r.config.Metrics.Applied("error")
		}
	}
	// Nobody sees the state in between: the mutex is held.
	defer finish(entries, outcome)
	if r.reign != g {
		return
	}
	r.reign = nil
	if unknown || deposed {
		return
	}
	loader := r.core.Load(g.claim.Floor)
	if err := r.keeper.Load(context.Background(), g.claim, loader.Add); err != nil {
		r.config.Log.Warn("cannot read the state again after the store refused a commit", "error", err)
		return
	}
	r.reign = &reign{claim: g.claim}
}
