package session

import (
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/shard/policy"
)

// Why sessions end, as operators are told.
var (
	errReplaced = status.Error(codes.Aborted, "a newer session of the cluster has taken over")
	errBehind   = status.Error(codes.ResourceExhausted, "the session reads too slowly; connect again to hear how things are")
	errDraining = status.Error(codes.Unavailable, "the shard is ending; connect again")
	errPolicy   = status.Error(codes.Unavailable, "the policy for the cluster has changed; connect again to hear of it")
	errNoHello  = status.Error(codes.DeadlineExceeded, "no hello came")
)

// link is one session, from its first frame to its end.
type link struct {
	server  *Server
	peer    string
	began   time.Time
	cluster string        // set before named is closed
	version string        // of the protocol, as the operator says
	limits  policy.Limits // that the operator is told; set before greeted is closed

	out     *outbox
	named   chan struct{} // closed with the first hello
	greeted chan struct{} // closed when the session is its cluster's
	done    chan struct{} // closed with the end; cause is set then
	once    sync.Once
	cause   error

	// sending is when the message was begun that is being sent, Unix
	// nanoseconds; 0 = none is.
	sending   atomic.Int64
	sent      atomic.Uint64
	received  atomic.Uint64
	resyncing atomic.Bool

	waits  waiters[*pb.BootstrapBlobResponse] // by request id
	drains waiters[*pb.ReclaimAck]            // by instruction id

	mu     sync.Mutex
	rollup RollupInfo
}

func newLink(s *Server, peer string) *link {
	return &link{
		server: s, peer: peer, began: s.clock(), out: newOutbox(), named: make(chan struct{}), greeted: make(chan struct{}), done: make(chan struct{}),
	}
}

// end ends the session; the first cause counts, nil is a regular end.
func (l *link) end(cause error) {
	l.once.Do(func() {
		l.cause = cause
		l.out.end()
		close(l.done)
	})
}

// links are the sessions that have greeted, by cluster: the newest of each.
type links struct {
	mu        sync.RWMutex
	byCluster map[string]*link
}

// current returns the cluster's session, nil when it has none.
func (x *links) current(cluster string) *link {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.byCluster[cluster]
}

// install makes a session its cluster's, and returns the one before. False
// when there are as many clusters as there may be.
func (x *links) install(l *link) (before *link, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	before = x.byCluster[l.cluster]
	if before == nil && len(x.byCluster) >= SessionsMax {
		return nil, false
	}
	x.byCluster[l.cluster] = l
	return before, true
}

// remove takes a session out; false when it is not its cluster's any more.
func (x *links) remove(l *link) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.byCluster[l.cluster] != l {
		return false
	}
	delete(x.byCluster, l.cluster)
	return true
}

// all returns the sessions in no order.
func (x *links) all() []*link {
	x.mu.RLock()
	defer x.mu.RUnlock()
	out := make([]*link, 0, len(x.byCluster))
	for _, l := range x.byCluster {
		out = append(out, l)
	}
	return out
}

func (x *links) count() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.byCluster)
}
