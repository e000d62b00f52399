package server

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/internal/inbound"
	"github.com/tonnage/tonnage/internal/mtls"
	"github.com/tonnage/tonnage/provider/calls"
	"github.com/tonnage/tonnage/provider/wire"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/provider/epoch"
)

// StopLimit is how long calls under way may take when a server stops.
const StopLimit = 3 * time.Second

// Server answers calls from a store. Safe for concurrent use.
type Server struct {
	pb.UnimplementedCapacityProviderServer
	backend calls.Backend
	log     *slog.Logger
	trouble trouble
	calls   counts
	fenced  seldom
	gate    atomic.Pointer[inbound.Gate] // of the last gRPC server; nil = there was none

	// Inbound is what may arrive. It is set before Serve or GRPC is called.
	Inbound inbound.Settings
	// OwnProcess has the collector of the process keep garbage small while much
	// arrives; see inbound.Gate.LimitGarbage.
	OwnProcess bool
}

// RequestBytesMax is the longest request: a Configure with as much bootstrap data
// and metadata as it may have, and room for names.
const RequestBytesMax = BlobBytesMax + 1<<20

// rules say who may call what; handlers look more closely.
var rules = []inbound.Rule{
	{Method: pb.CapacityProvider_Get_FullMethodName, Roles: []string{"shard", "admin", "readonly"}},
	{Method: pb.CapacityProvider_List_FullMethodName, Roles: []string{"shard", "admin", "readonly"}, AtOnce: 4},
	{Method: "/" + pb.CapacityProvider_ServiceDesc.ServiceName + "/", Roles: []string{"shard", "admin"}},
}

// New returns a server of the store. log may be nil.
func New(b calls.Backend, log *slog.Logger) *Server {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Server{backend: b, log: log}
}

// Serve answers calls on a listener until the context ends, over plaintext when
// material is nil. Calls under way then have StopLimit to end.
func (s *Server) Serve(ctx context.Context, l net.Listener, material *mtls.Material) error {
	g := s.GRPC(material)
	ended := make(chan error, 1)
	go func() { ended <- g.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	over := time.AfterFunc(StopLimit, g.Stop)
	defer over.Stop()
	g.GracefulStop()
	if err := <-ended; !errors.Is(err, grpc.ErrServerStopped) { // it was stopped before it began
		return err
	}
	return nil
}

// GRPC registers the server with a new gRPC server.
func (s *Server) GRPC(material *mtls.Material) *grpc.Server {
	gate := inbound.New(inbound.Options{
		Rules: rules, TLS: material, MessageBytesMax: RequestBytesMax, Log: s.log,
		Settings: s.Inbound,
	})
	s.gate.Store(gate)
	if s.OwnProcess {
		gate.LimitGarbage(nil)
	}
	g := grpc.NewServer(append(gate.ServerOptions(), grpc.ChainUnaryInterceptor(s.count))...)
	pb.RegisterCapacityProviderServer(g, s)
	return g
}

// Create starts turning a quota slot into a machine.
func (s *Server) Create(ctx context.Context, r *pb.CreateRequest) (*pb.TransitionAck, error) {
	return s.do(ctx, &calls.Call{Op: shard.OpCreate, Machine: r.GetMachineId(), Shard: r.GetShardId(), Token: token(r)}, r)
}

// Configure starts binding an idle machine to a cluster.
func (s *Server) Configure(ctx context.Context, r *pb.ConfigureRequest) (*pb.TransitionAck, error) {
	return s.do(ctx, &calls.Call{
		Op: shard.OpConfigure, Machine: r.GetMachineId(), Cluster: r.GetClusterId(), Metadata: r.GetShardMetadata(),
		Blob: r.GetBootstrapBlob(), Shard: r.GetShardId(), Token: token(r),
	}, r)
}

// Drain starts taking a machine out of its cluster.
func (s *Server) Drain(ctx context.Context, r *pb.DrainRequest) (*pb.TransitionAck, error) {
	return s.do(ctx, &calls.Call{Op: shard.OpDrain, Machine: r.GetMachineId(), Grace: grace(r), Shard: r.GetShardId(), Token: token(r)}, r)
}

// Delete starts giving an idle machine back.
func (s *Server) Delete(ctx context.Context, r *pb.DeleteRequest) (*pb.TransitionAck, error) {
	return s.do(ctx, &calls.Call{Op: shard.OpDelete, Machine: r.GetMachineId(), Shard: r.GetShardId(), Token: token(r)}, r)
}

func token(r interface {
	GetShardEpoch() int64
	GetSequenceNumber() int64
}) epoch.Token {
	return epoch.Token{Epoch: r.GetShardEpoch(), Sequence: r.GetSequenceNumber()}
}

// grace is what pods are given to end. What time.Duration cannot hold is cut off.
func grace(r *pb.DrainRequest) time.Duration {
	return time.Duration(min(r.GetGracePeriodSeconds(), int64(math.MaxInt64/time.Second))) * time.Second
}

// do checks a call and carries it out.
func (s *Server) do(ctx context.Context, c *calls.Call, req proto.Message) (*pb.TransitionAck, error) {
	if err := mayChange(ctx, c); err != nil {
		return nil, err
	}
	if err := checkToken(c); err != nil {
		return nil, err
	}
	c.Invalid, c.WholeShard = checkArguments(req), fencesWholeShard(ctx)
	now := s.trouble.meet(c.Op.String(), c.Machine)
	if err := now.before(ctx); err != nil {
		return nil, err
	}
	answer, err := s.backend.Do(ctx, c)
	if err != nil {
		if errors.Is(err, shard.ErrFenced) {
			if n, ok := s.fenced.next(time.Now()); ok {
				s.log.Warn("call of a replaced process is refused", "error", err, "more", n)
			}
		}
		return nil, statusOf(err)
	}
	if err := now.after(); err != nil {
		return nil, err
	}
	out := &pb.TransitionAck{}
	out.ProtoReflect().SetUnknown(wire.AppendAck(nil, answer.Operation, answer.Machine))
	return out, nil
}

// Get returns one machine.
func (s *Server) Get(ctx context.Context, r *pb.MachineRef) (*pb.Machine, error) {
	if err := mayLook(ctx); err != nil {
		return nil, err
	}
	if err := checkName("id", r.GetId(), true); err != nil {
		return nil, err
	}
	now := s.trouble.meet(MethodGet, r.GetId())
	if err := now.before(ctx); err != nil {
		return nil, err
	}
	machine, err := s.backend.Get(r.GetId())
	if err := errors.Join(err, now.after()); err != nil {
		return nil, statusOf(err)
	}
	out := &pb.Machine{}
	out.ProtoReflect().SetUnknown(machine)
	return out, nil
}

// List returns the machines that changed since a cursor, or all of them.
func (s *Server) List(ctx context.Context, r *pb.ListFilter) (*pb.MachineList, error) {
	if err := mayLook(ctx); err != nil {
		return nil, err
	}
	filter, err := filterOf(r)
	if err != nil {
		return nil, err
	}
	now := s.trouble.meet(MethodList, "")
	if err := now.before(ctx); err != nil {
		return nil, err
	}
	msg, full, err := s.backend.List(filter)
	if err := errors.Join(err, now.after()); err != nil {
		return nil, statusOf(err)
	}
	s.calls.listed(len(msg), full)
	out := &pb.MachineList{}
	out.ProtoReflect().SetUnknown(msg)
	return out, nil
}

// mayChange tells whether the caller is the shard that the call names. Without
// a name, as tools call, only an administrator may.
func mayChange(ctx context.Context, c *calls.Call) error {
	if c.Shard == "" {
		return mtls.Require(ctx, mtls.Admin())
	}
	return mtls.Require(ctx, mtls.Shard(c.Shard))
}

// mayLook lets everybody look who has a name, but for clusters: they must not
// see each other's machines.
func mayLook(ctx context.Context) error {
	id, secured := mtls.Peer(ctx)
	if secured && (id == mtls.Identity{} || strings.HasPrefix(id.String(), mtls.Cluster("").String())) {
		return status.Errorf(codes.PermissionDenied, "the certificate shown is of %s, and must be of a shard, an administrator or a reader", id)
	}
	return nil
}

// statusOf returns an error of the store as the protocol says it.
func statusOf(err error) error {
	code := codes.Internal
	switch {
	case errors.Is(err, shard.ErrFenced):
		code = codes.FailedPrecondition
	case errors.Is(err, calls.ErrNotFound):
		code = codes.NotFound
	case errors.Is(err, calls.ErrFull):
		code = codes.ResourceExhausted
	case errors.Is(err, calls.ErrBroken), errors.Is(err, calls.ErrClosed):
		code = codes.Unavailable
	case errors.Is(err, context.Canceled):
		code = codes.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		code = codes.DeadlineExceeded
	default:
		if s, ok := status.FromError(err); ok {
			return s.Err()
		}
	}
	return status.Error(code, err.Error())
}

// fencedEvery is how often a line is written of calls that the fence refuses. A process that was replaced goes on calling, and one line
// says what there is to say; how many calls were refused is counted by their code.
const fencedEvery = time.Minute

// seldom limits log lines of one kind to one in fencedEvery. The zero value is ready. Safe for concurrent use.
type seldom struct {
	mu   sync.Mutex
	last time.Time
	more uint64
}

// next tells whether a line may be written now, and how many could not be since the last one.
func (l *seldom) next(now time.Time) (more uint64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.last.IsZero() && now.Sub(l.last) < fencedEvery {
		l.more++
		return 0, false
	}
	more, l.more, l.last = l.more, 0, now
	return more, true
}
