package session

import (
	"sync"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
)

// Limits of what waits for one operator.
const (
	// RepliesMax is how many acknowledgements, requests and instructions may wait.
	RepliesMax = 1 << 12
	// UpdatesMax is how many updates may wait, each of another machine or shape:
	// as many as there can be machines.
	UpdatesMax = 1 << 21
)

// topic is what an update is about. A later one of the same topic says all
// that an earlier one did.
type topic struct {
	machine string
	shape   uint64 // fingerprint, when it is not about a machine
}

// update is news that can wait, not yet in the form of the wire: those who
// have news have no time.
type update interface{ message() *pb.ShardMessage }

// outbox is what waits for one operator: replies in their order, and after
// them updates, each topic once. Putting something in never waits.
type outbox struct {
	wake chan struct{} // something is there, or ended

	mu      sync.Mutex
	replies []*pb.ShardMessage
	topics  []topic // in the order in which they first had news
	latest  map[topic]update
	most    int  // topics that waited at a time since there were none
	ended   bool // nothing more is put in
}

func newOutbox() *outbox {
	return &outbox{wake: make(chan struct{}, 1), latest: map[topic]update{}}
}

// reply adds what goes before all updates; false when nothing more is taken,
// or too much waits.
func (o *outbox) reply(m *pb.ShardMessage) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended || len(o.replies) >= RepliesMax {
		return false
	}
	o.replies = append(o.replies, m)
	o.poke()
	return true
}

// put adds news, in the place of older news of the same topic if that has not
// gone out; false when too much waits. After the end news is nobody's.
func (o *outbox) put(t topic, u update) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return true
	}
	if _, waits := o.latest[t]; !waits {
		if len(o.latest) >= UpdatesMax {
			return false
		}
		o.topics = append(o.topics, t)
	}
	o.latest[t] = u
	o.most = max(o.most, len(o.latest))
	o.poke()
	return true
}

// end lets nothing more in. What is there still goes out.
func (o *outbox) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	o.poke()
}

func (o *outbox) poke() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// slackTopics is from where on memory of past news is given back. An operator that
// connects hears of all of its machines at once, and afterwards of a few at a time;
// a thousand of them would hold tens of megabytes.
const slackTopics = 1 << 6

// next takes the message that goes out next. Without one, over tells whether
// none will come any more.
func (o *outbox) next() (m *pb.ShardMessage, over bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.replies) > 0 {
		m = o.replies[0]
		o.replies[0] = nil
		if o.replies = o.replies[1:]; len(o.replies) == 0 {
			o.replies = nil
		}
		return m, false
	}
	if len(o.topics) == 0 {
		return nil, o.ended
	}
	t := o.topics[0]
	o.topics[0] = topic{}
	o.topics = o.topics[1:]
	u := o.latest[t]
	delete(o.latest, t)
	if len(o.topics) == 0 {
		if o.most > slackTopics {
			o.topics, o.latest = nil, map[topic]update{}
		}
		o.most = 0
	}
	return u.message(), false
}

// waiting returns how many messages wait.
func (o *outbox) waiting() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.replies) + len(o.topics)
}
