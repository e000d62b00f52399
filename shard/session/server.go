package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/inbound"
	"github.com/tonnage/tonnage/internal/mtls"
	"github.com/tonnage/tonnage/internal/steady"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/policy"
)

// Limits of sessions.
const (
	// SessionsMax is how many clusters may have a session: as many as may have
	// demand.
	SessionsMax = demand.ClustersMax
	// HelloWaitMax is how long a stream may be silent at its beginning.
	HelloWaitMax = 30 * time.Second
	// SendStallMax is how long one message may take to go out before its
	// operator is given up as not reading.
	SendStallMax = time.Minute
	// stallCheckEvery is how often that is looked at.
	stallCheckEvery = 10 * time.Second
)

// readersMin is how many roll-ups are read at a time at least where nothing else is
// set: one that takes long does not hold up those of all other clusters.
const readersMin = 2

// readBufferBytes is how much of a connection is read at a time. There is such
// a buffer for each session, and thousands of sessions.
const readBufferBytes = 16 << 10

// rules say who may call what. A session's connection is proven by its hello.
var rules = []inbound.Rule{
	{Method: pb.Shard_Session_FullMethodName, Roles: []string{"cluster"}, Hello: true},
	{Method: "/" + pb.ShardRead_ServiceDesc.ServiceName + "/", Roles: []string{"readonly", "admin", "cluster"}}, // an operator about its own cluster: mayInspect
}

// Core is the shard, as sessions see it.
type Core interface {
	// TakeRollup remembers what a cluster demands for the next cycle, or refuses
	// it with the error that the builder holds or one of its own. It waits for no
	// cycle. The builder is the caller's again afterwards, without its rows. now
	// is when the roll-up came, Unix nanoseconds.
	TakeRollup(b *demand.Builder, now int64) (shard.RollupOutcome, error)
	// Resync calls NodeState for every machine that is bound to the cluster. It
	// may wait for a cycle.
	Resync(cluster string) int
}

// Deps is what a server is made with. Core is needed.
type Deps struct {
	Core Core
	// Limits bound what one cluster may report.
	Limits ClusterLimits
	// ClusterInterval is the least time between two roll-ups of a cluster that
	// are read, and between two replays of its machines, over all of its sessions;
	// 0 = ClusterIntervalDefault, below 0 = none.
	ClusterInterval time.Duration
	// Epoch returns the shard's, as it is acknowledged; nil = 0. It waits for no
	// cycle.
	Epoch func() int64
	// Term returns the highest term of the coordinator that the shard has heard
	// of; nil = 0. It waits for no cycle.
	Term func() int64
	// Offered returns of every resource that machines offer the largest amount that one
	// has; false when that is not known yet. nil = it never is. It waits for no cycle.
	Offered func() ([]model.Amount, bool)
	// Needs is asked for what the last cycle decided; nil = nothing was yet.
	Needs Needs
	// Policy returns what a cluster's rows are lowered to; nil = no row is. It is
	// called for every roll-up. Call Server.PolicyChanged after it has changed.
	Policy func(cluster string) policy.Limits
	// TLS is nil for plaintext.
	TLS        *mtls.Material
	Clock      func() time.Time // the shard's; nil = one of its own
	Log        *slog.Logger     // nil = none
	Registerer Registerer       // nil = no metrics
	// Readers is how many roll-ups are read at a time; 0 = one a processor, but
	// at least readersMin.
	Readers int
	// Inbound is what may arrive.
	Inbound inbound.Settings

	helloWait time.Duration // 0 = HelloWaitMax; tests are less patient
}

// Server serves the sessions of a shard's operators, and says what the shard
// decided about their needs. It implements shard.Operators.
type Server struct {
	pb.UnimplementedShardServer
	pb.UnimplementedShardReadServer

	core        Core
	epoch       func() int64
	term        func() int64
	offered     func() ([]model.Amount, bool)
	helloWait   time.Duration
	needs       Needs
	inspections inspections
	policy      func(cluster string) policy.Limits
	clock       func() time.Time
	log         *slog.Logger
	metrics     *metrics
	grpc        *grpc.Server
	gate        *inbound.Gate

	links    links
	intake   *intake
	blobs    blobs
	streams  atomic.Int64
	resync   resync
	lines    struct{ began, ended, refused, stalled inbound.Lines }
	draining atomic.Bool
	stop     chan struct{} // closed when Serve is over
	stopOnce sync.Once
}

// resync is when operators are told of all their machines.
type resync struct {
	turn    chan struct{} // holds one while an operator is told
	replays intervals     // between two replays of a cluster's machines
}

var _ shard.Operators = (*Server)(nil)

// NewServer returns a server that serves nothing yet. The shard and its server
// know each other: Deps.Core may be one that learns of the shard before Serve.
// The error is that metrics cannot be registered, or that a limit is out of its
// range.
func NewServer(deps Deps) (*Server, error) {
	if err := deps.Limits.Validate(); err != nil {
		return nil, err
	}
	least := max(cmp.Or(deps.ClusterInterval, ClusterIntervalDefault), 0)
	m, err := newMetrics(deps.Registerer)
	if err != nil {
		return nil, err
	}
	s := &Server{
		core: deps.Core, epoch: deps.Epoch, term: deps.Term, offered: deps.Offered, needs: deps.Needs, clock: deps.Clock, log: deps.Log, metrics: m,
		links: links{byCluster: map[string]*link{}}, stop: make(chan struct{}),
		resync: resync{turn: make(chan struct{}, 1), replays: newIntervals(least)}, helloWait: cmp.Or(deps.helloWait, HelloWaitMax),
	}
	if s.clock == nil {
		s.clock = steady.Clock()
	}
	zero := func() int64 { return 0 }
	if s.term == nil {
		s.term = zero
	}
	if s.epoch == nil {
		s.epoch = zero
	}
	if s.policy = deps.Policy; s.policy == nil {
		s.policy = func(string) policy.Limits { return policy.None() }
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	readers := deps.Readers
	if readers <= 0 {
		readers = max(runtime.GOMAXPROCS(0), readersMin)
	}
	s.intake = newIntake(s, readers, deps.Limits.orDefaults(), least)
	gate := inbound.New(inbound.Options{
		Rules: rules, TLS: deps.TLS, MessageBytesMax: MessageBytesMax, Log: s.log,
		Settings: deps.Inbound, Denied: s.denied,
	})
	if deps.Registerer != nil {
		if err := deps.Registerer.Register(gate); err != nil {
			return nil, fmt.Errorf("metrics of arrivals: %w", err)
		}
	}
	s.gate = gate
	s.grpc = grpc.NewServer(append(gate.ServerOptions(), grpc.ForceServerCodecV2(newCodec()), grpc.ReadBufferSize(readBufferBytes))...)
	pb.RegisterShardServer(s.grpc, s)
	pb.RegisterShardReadServer(s.grpc, s)
	return s, nil
}

// LimitGarbage is inbound.Gate.LimitGarbage with the default percentage.
func (s *Server) LimitGarbage() { s.gate.LimitGarbage(nil) }

// denied counts sessions that are refused before their hello is read.
func (s *Server) denied(method string) {
	if method == pb.Shard_Session_FullMethodName {
		s.metrics.identityRejected()
	}
}

// Serve serves a listener until Drain, and closes it. It is called once. After Drain it
// serves nothing, without an error: a process may be stopped while it starts.
func (s *Server) Serve(listener net.Listener) error {
	var work sync.WaitGroup
	defer work.Wait()
	defer s.stopOnce.Do(func() { close(s.stop) })
	s.intake.start(&work, s.stop)
	work.Go(s.watch)
	if err := s.grpc.Serve(listener); !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// watch ends sessions whose operator does not read.
func (s *Server) watch() {
	ticker := time.NewTicker(stallCheckEvery)
	defer ticker.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-ticker.C:
		}
		s.endStalled(s.clock())
	}
}

func (s *Server) endStalled(now time.Time) {
	for _, l := range s.links.all() {
		if began := l.sending.Load(); began != 0 && now.UnixNano()-began > int64(SendStallMax) {
			if n, ok := s.lines.stalled.Next(now); ok {
				s.log.Warn("session ended: its operator does not read", "cluster", l.cluster, "waiting", l.out.waiting(), "unreported", n)
			}
			l.end(errBehind)
		}
	}
}

// Drain ends all sessions, each when what waits for it has gone out, and then
// Serve. Calls and sessions that have not ended when ctx has are cut off; the
// error is ctx's then.
func (s *Server) Drain(ctx context.Context) error {
	s.draining.Store(true)
	for _, l := range s.links.all() {
		l.out.end()
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.grpc.GracefulStop()
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		s.grpc.Stop()
		<-ended
		return ctx.Err()
	}
}

// Session serves one operator.
func (s *Server) Session(stream pb.Shard_SessionServer) error {
	if s.draining.Load() {
		return errDraining
	}
	if s.streams.Add(1) > 2*SessionsMax {
		s.streams.Add(-1)
		return errFull
	}
	defer s.streams.Add(-1)
	l := newLink(s, peerOf(stream.Context()))
	go l.read(stream)
	hello := time.NewTimer(s.helloWait)
	defer hello.Stop()
	select {
	case <-l.named:
	case <-l.done:
		return l.cause
	case <-hello.C:
		l.end(errNoHello)
		return l.cause
	}
	defer s.leave(l)
	if err := l.begin(stream); err != nil {
		l.end(err)
		return l.cause
	}
	go l.send(stream)
	<-l.done
	return l.cause
}

// leave forgets a session that is over.
func (s *Server) leave(l *link) {
	s.blobs.forget(l)
	if !s.links.remove(l) {
		return
	}
	s.metrics.removed()
	why := "the operator is done"
	if l.cause != nil {
		why = status.Convert(l.cause).Message()
	}
	if n, ok := s.lines.ended.Next(s.clock()); ok {
		s.log.Info("session ended", "cluster", l.cluster, "peer", l.peer, "why", why, "unreported", n)
	}
}

func peerOf(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		return p.Addr.String()
	}
	return "unknown"
}
