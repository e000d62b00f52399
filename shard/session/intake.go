package session

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/internal/inbound"
	"github.com/tonnage/tonnage/shard"
)

// WaitingBytesMax is how long the roll-ups of all clusters may be together
// that wait to be read. Beyond it, sessions are not read until there is room.
const WaitingBytesMax = inbound.WaitingBytesMax

// intake reads roll-ups and hands them to the shard. For each cluster at most one
// roll-up waits, the newest, and at most one is being read, so that a later one
// never overtakes it. Clusters take turns. A cluster whose roll-up was read has
// its next turn when the interval has passed, whatever became of it and whichever
// session sends it.
type intake struct {
	server  *Server
	readers int
	room    *semaphore.Weighted // bytes of roll-ups that wait or are read
	waiting atomic.Int64        // how many of them are taken
	reading atomic.Int64        // bytes of what readers read with and into
	uses    uses
	least   time.Duration // between two roll-ups of a cluster
	rowsMax int

	mu    sync.Mutex
	wake  *sync.Cond
	lanes map[string]*lane // those with something to do, and those that rest
	turns []*lane
	ended bool
}

// lane is what is to be read of one cluster.
type lane struct {
	cluster string
	waiting *rollup // nil = none
}

type rollup struct {
	link  *link
	frame frame
	bytes int64
	at    time.Time // when it came
}

func newIntake(s *Server, readers int, limits ClusterLimits, least time.Duration) *intake {
	x := &intake{
		server: s, readers: readers, room: semaphore.NewWeighted(WaitingBytesMax), uses: newUses(limits), least: least, rowsMax: limits.Rows,
		lanes: map[string]*lane{},
	}
	x.wake = sync.NewCond(&x.mu)
	return x
}

// start reads until stop is closed.
func (x *intake) start(work *sync.WaitGroup, stop <-chan struct{}) {
	for range x.readers {
		work.Go(x.read)
	}
	work.Go(func() {
		<-stop
		x.mu.Lock()
		defer x.mu.Unlock()
		x.ended = true
		x.wake.Broadcast()
	})
}

// offer queues a roll-up in the place of one that waits. It waits for room; the
// error is that the session ended meanwhile.
func (x *intake) offer(ctx context.Context, l *link, f frame) error {
	r := &rollup{link: l, frame: f, bytes: int64(len(f.body)), at: l.server.clock()}
	if err := x.room.Acquire(ctx, r.bytes); err != nil {
		f.free()
		return err
	}
	x.waiting.Add(r.bytes)
	x.mu.Lock()
	defer x.mu.Unlock()
	at := x.lanes[l.cluster]
	if at == nil {
		at = &lane{cluster: l.cluster}
		x.lanes[l.cluster] = at
		x.turns = append(x.turns, at)
		x.wake.Signal()
	}
	if at.waiting != nil {
		x.done(at.waiting)
	}
	at.waiting = r
	return nil
}

// done gives back what a roll-up holds.
func (x *intake) done(r *rollup) {
	r.frame.free()
	x.waiting.Add(-r.bytes)
	x.room.Release(r.bytes)
}

// read is one reader.
func (x *intake) read() {
	decoder, builder := NewDecoder(), demand.NewBuilder()
	decoder.rowsMax = x.rowsMax
	counted := int64(0)
	for {
		at, r := x.take()
		if r == nil {
			return
		}
		read := x.handle(decoder, builder, r)
		held := decoder.Bytes() + builder.Bytes()
		x.reading.Add(held - counted)
		counted = held
		x.done(r)
		if read && x.least > 0 {
			time.AfterFunc(x.least, func() { x.release(at) })
		} else {
			x.release(at)
		}
	}
}

// take waits for the next turn; nil when there are no more.
func (x *intake) take() (*lane, *rollup) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for len(x.turns) == 0 && !x.ended {
		x.wake.Wait()
	}
	if x.ended {
		return nil, nil
	}
	at := x.turns[0]
	x.turns[0] = nil
	x.turns = x.turns[1:]
	r := at.waiting
	at.waiting = nil
	return at, r
}

// release lets a cluster have another turn if it has more.
func (x *intake) release(at *lane) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if at.waiting == nil {
		delete(x.lanes, at.cluster)
		return
	}
	if x.ended {
		return
	}
	x.turns = append(x.turns, at)
	x.wake.Signal()
}

// handle reads one roll-up and says what became of it; false when it was not
// read. That of a session which another has replaced is nobody's.
func (x *intake) handle(decoder *Decoder, builder *demand.Builder, r *rollup) bool {
	l, s := r.link, x.server
	if s.links.current(l.cluster) != l {
		return false
	}
	decoder.Limit(s.policy(l.cluster))
	var use usage
	if err := decoder.Decode(l.cluster, r.frame.body, builder); err == nil {
		if use, err = x.uses.reserve(decoder, builder); err != nil {
			_ = builder.Refuse(err) // TakeRollup says so
		}
	}
	rows := builder.Len()
	outcome, err := s.core.TakeRollup(builder, r.at.UnixNano())
	x.uses.settle(l.cluster, use, outcome == shard.RollupAccepted)
	l.note(RollupInfo{At: s.clock(), Rows: rows, Outcome: outcome, Err: err, Lowered: decoder.Lowered()})
	if outcome == shard.RollupAccepted {
		s.metrics.lower(l.cluster, decoder.Lowered())
	}
	if outcome != shard.RollupRefused {
		l.acknowledge(echoRollup)
	}
	return true
}
