package session

import (
	"context"
	"sync"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/operator/telemetry"
)

// repliesMax is how many replies may wait.
const repliesMax = 256

// due says whether a roll-up is to be sent.
type due uint8

const (
	notDue due = iota
	dueEarly
	dueNow
)

// outbox is what waits to be sent: replies in their order, and whether a
// roll-up is due. A roll-up goes first: it is what the shard decides by.
type outbox struct {
	metrics *telemetry.Metrics

	mu      sync.Mutex
	due     due
	replies []reply
	wake    chan struct{} // holds one token when there may be something to send
}

type reply struct {
	key     string
	message *bigfleet.OperatorMessage
}

func newOutbox(m *telemetry.Metrics) *outbox {
	return &outbox{metrics: m, wake: make(chan struct{}, 1)}
}

// rollup says that a roll-up is due.
func (o *outbox) rollup(d due) {
	o.mu.Lock()
	o.due = max(o.due, d)
	o.mu.Unlock()
	o.signal()
}

// reply queues a message. It replaces one of the same key that still waits.
func (o *outbox) reply(key string, message *bigfleet.OperatorMessage) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range o.replies {
		if o.replies[i].key == key {
			o.replies[i].message = message
			return
		}
	}
	if len(o.replies) == repliesMax {
		o.metrics.Dropped()
		return
	}
	o.replies = append(o.replies, reply{key, message})
	o.signal()
}

func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// next waits for what to send: a message, or that a roll-up is due. ok is
// false when ctx has ended.
func (o *outbox) next(ctx context.Context) (message *bigfleet.OperatorMessage, rollup due, ok bool) {
	for {
		o.mu.Lock()
		switch {
		case o.due != notDue:
			rollup, o.due = o.due, notDue
			o.mu.Unlock()
			return nil, rollup, true
		case len(o.replies) > 0:
			message = o.replies[0].message
			o.replies = append(o.replies[:0], o.replies[1:]...)
			o.mu.Unlock()
			return message, notDue, true
		}
		o.mu.Unlock()
		select {
		case <-o.wake:
		case <-ctx.Done():
			return nil, notDue, false
		}
	}
}
