package service

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	tonnage "github.com/tonnage/tonnage/api/tonnage/v1alpha1"
	"github.com/tonnage/tonnage/coordinator"
	"github.com/tonnage/tonnage/coordinator/replica"
	"github.com/tonnage/tonnage/coordinator/store"
	"github.com/tonnage/tonnage/internal/inbound"
	"github.com/tonnage/tonnage/internal/mtls"
)

// The detail of FailedPrecondition.
const (
	DetailDomain    = "coordinator.tonnage"
	DetailReason    = "NOT_LEADER"
	DetailLeader    = "leader" // host:port, left out when no leader is known
	DetailTerm      = "term"
	coordinatorName = "bigfleet.v1alpha1.Coordinator"
)

// healthEvery is how often it is looked whether a leader is known.
const healthEvery = time.Second

// RequestBytesMax is the longest request. A report of a shard has at most 100
// shortfalls and, for each instance type, a few numbers: some 100 KB with a
// thousand types.
const RequestBytesMax = 4 << 20

// rules say who may call what; handlers look more closely.
var rules = []inbound.Rule{
	{Method: bigfleet.Coordinator_ReportShard_FullMethodName, Roles: []string{"shard"}},
	{Method: tonnage.Fleet_Offer_FullMethodName, Roles: []string{"shard"}},
	{Method: "/" + coordinatorName + "/", Roles: []string{"readonly", "admin"}},
	{Method: "/" + tonnage.Fleet_ServiceDesc.ServiceName + "/", Roles: []string{"readonly", "admin"}},
}

// Replica is what answers; *replica.Replica is one.
type Replica interface {
	Do(ctx context.Context, e coordinator.Event, then func(*coordinator.Core, int64)) (coordinator.Effects, error)
	Hear(ctx context.Context, e coordinator.Event, then func(*coordinator.Core, int64) bool) (coordinator.Effects, error)
	Read(ctx context.Context, then func(*coordinator.Core, int64)) error
	Leads() bool
	Confirmed(ctx context.Context) error
	Hint() (store.Leader, bool)
	Look(then func(c *coordinator.Core, leads bool, term int64))
}

// Group is the Raft group of a replica and its snapshots; *store.Store is one.
type Group interface {
	Peers(ctx context.Context) ([]store.Peer, error)
	Join(ctx context.Context, replica, peerURL string, hasState bool) error
	Remove(ctx context.Context, replica string) error
	HandOver() error
	Snapshot(ctx context.Context, dir string, term int64) (string, store.Meta, error)
}

// Config is one replica's service.
type Config struct {
	Name    string // of the replica
	TempDir string // for snapshots on their way out
	TLS     *mtls.Material
	Secure  bool // between members of the Raft group
	Alone   bool // there is no Raft port, and no other member can join
	Mode    coordinator.Mode
	Log     *slog.Logger
	Metrics *Metrics
	Inbound inbound.Settings
}

// Service answers calls. Its zero value is of no use; see New.
type Service struct {
	bigfleet.UnimplementedCoordinatorServer
	fleet
	config Config
	health *health.Server
	gate   *inbound.Gate
	// droppedLines limits what is logged of reports and offers out of order.
	droppedLines inbound.Lines
	slot         slot
}

// fleet keeps the two embedded servers apart.
type fleet struct {
	tonnage.UnimplementedFleetServer
}

// New returns the service of one replica. It has no replica until Attach: until
// then it says that no leader is known.
func New(c Config) *Service {
	s := &Service{config: c, health: health.NewServer()}
	s.gate = inbound.New(inbound.Options{
		Rules: rules, TLS: c.TLS, MessageBytesMax: RequestBytesMax, Log: c.Log,
		Settings: c.Inbound, Refusal: s.refusal,
	})
	return s
}

// refusal is what a caller hears that may not call: on a follower the same as
// everybody, by protocol.
func (s *Service) refusal(denied error) error {
	if err := s.lead(); err != nil {
		return err
	}
	return denied
}

// Server returns a gRPC server with all services.
func (s *Service) Server() *grpc.Server {
	g := grpc.NewServer(append(s.gate.ServerOptions(), grpc.UnknownServiceHandler(s.removed), grpc.StatsHandler(handling{s.config.Metrics}))...)
	bigfleet.RegisterCoordinatorServer(g, s)
	tonnage.RegisterFleetServer(g, s)
	healthpb.RegisterHealthServer(g, s.health)
	s.health.SetServingStatus("", healthpb.HealthCheckResponse_SERVING)
	s.health.SetServingStatus(coordinatorName, healthpb.HealthCheckResponse_NOT_SERVING)
	return g
}

// LimitGarbage is that of inbound.Gate.
func (s *Service) LimitGarbage(percent func(live uint64) int) { s.gate.LimitGarbage(percent) }

// WatchHealth keeps the health service up to date until ctx ends.
func (s *Service) WatchHealth(ctx context.Context) {
	t := time.NewTicker(healthEvery)
	defer t.Stop()
	for {
		state := healthpb.HealthCheckResponse_NOT_SERVING
		if s.Ready() {
			state = healthpb.HealthCheckResponse_SERVING
		}
		s.health.SetServingStatus(coordinatorName, state)
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// Ready tells whether a leader is known.
func (s *Service) Ready() bool {
	r, _ := s.attached()
	if r == nil {
		return false
	}
	_, known := r.Hint()
	return known
}

// lead is the first check of each call.
func (s *Service) lead() error {
	r, _ := s.attached()
	if r == nil || !r.Leads() {
		return s.notLeader()
	}
	return nil
}

// admit checks leadership, then who calls.
func (s *Service) admit(ctx context.Context, allowed ...mtls.Identity) error {
	if err := s.lead(); err != nil {
		return err
	}
	return mtls.Require(ctx, allowed...)
}

func (s *Service) change(ctx context.Context) error { return s.admit(ctx, mtls.Admin()) }
func (s *Service) view(ctx context.Context) error {
	return s.admit(ctx, mtls.ReadOnly(), mtls.Admin())
}

func (s *Service) notLeader() error {
	st := status.New(codes.FailedPrecondition, "not leader")
	detail := &errdetails.ErrorInfo{Reason: DetailReason, Domain: DetailDomain, Metadata: map[string]string{}}
	if r, _ := s.attached(); r != nil {
		if l, known := r.Hint(); known && l.Replica != s.config.Name && l.Address != "" {
			detail.Metadata[DetailLeader] = l.Address
		}
	}
	if with, err := st.WithDetails(detail); err == nil {
		st = with
	}
	return st.Err()
}

// failed turns an error of the replica into one of the wire.
func (s *Service) failed(err error) error {
	for _, c := range []struct {
		is   error
		code codes.Code
	}{
		{coordinator.ErrInvalid, codes.InvalidArgument}, {coordinator.ErrNotFound, codes.NotFound},
		{coordinator.ErrExists, codes.AlreadyExists}, {coordinator.ErrFull, codes.ResourceExhausted},
	} {
		if errors.Is(err, c.is) {
			return status.Error(c.code, err.Error())
		}
	}
	if err == nil || errors.Is(err, replica.ErrNotLeader) {
		if err == nil {
			return nil
		}
		return s.notLeader()
	}
	return status.Error(codes.Unavailable, err.Error())
}

// do gives the replica an event of which only the outcome matters.
func (s *Service) do(ctx context.Context, e coordinator.Event) error {
	r, _ := s.attached()
	_, err := r.Do(ctx, e, nil)
	return s.failed(err)
}

// removed answers calls of methods that the protocol no longer has: old tools
// get an empty list.
func (s *Service) removed(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	switch method {
	case "/" + coordinatorName + "/ListQuotas", "/" + coordinatorName + "/ListProviders":
	default:
		return status.Errorf(codes.Unimplemented, "no method %s", method)
	}
	if err := s.view(stream.Context()); err != nil {
		return err
	}
	var request emptypb.Empty
	if err := stream.RecvMsg(&request); err != nil {
		return err
	}
	return stream.SendMsg(&emptypb.Empty{})
}
