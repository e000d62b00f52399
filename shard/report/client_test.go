package report_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	tonnage "github.com/tonnage/tonnage/api/tonnage/v1alpha1"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/report"
)

// fakeShard is what reports tell of.
type fakeShard struct {
	mu         sync.Mutex
	term       int64
	domains    []shard.Domain
	unassigned []shard.Domain
	fail       error
	unkept     error // of the next time
	shortfalls []shard.Shortfall
}

func (f *fakeShard) Summary() shard.Summary {
	return shard.Summary{Total: 5, Idle: 2, Speculative: 1, ByType: map[string]int{"t": 5}, ByZone: map[string]int{"a": 3, "b": 2}}
}

func (f *fakeShard) Shortfalls() []shard.Shortfall { return f.shortfalls }

func (f *fakeShard) HearTerm(term int64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if term < f.term {
		return false
	}
	f.term = term
	return true
}

func (f *fakeShard) AssignDomain(d shard.Domain) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return f.fail
	}
	f.domains = append(f.domains, d)
	return nil
}

func (f *fakeShard) UnassignDomain(d shard.Domain) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unassigned = append(f.unassigned, d)
	return nil
}

func (f *fakeShard) Kept(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.unkept
	f.unkept = nil
	return err
}

// coordinator answers reports as a test says, one after the other; the last
// answer stays.
type coordinator struct {
	pb.UnimplementedCoordinatorServer
	tonnage.UnimplementedFleetServer
	address string
	offers  chan *tonnage.OfferRequest

	mu      sync.Mutex
	answers []func(*pb.ShardReport) (*pb.ReportAck, error)
	reports chan *pb.ShardReport
}

func (c *coordinator) ReportShard(_ context.Context, r *pb.ShardReport) (*pb.ReportAck, error) {
	c.mu.Lock()
	answer := c.answers[0]
	if len(c.answers) > 1 {
		c.answers = c.answers[1:]
	}
	c.mu.Unlock()
	select {
	case c.reports <- r:
	default:
	}
	return answer(r)
}

func answer(term int64, instructions ...*pb.CoordinatorInstruction) func(*pb.ShardReport) (*pb.ReportAck, error) {
	return func(*pb.ShardReport) (*pb.ReportAck, error) {
		return &pb.ReportAck{CoordinatorTerm: term, Acknowledged: true, Instructions: instructions}, nil
	}
}

func follower(leader string) func(*pb.ShardReport) (*pb.ReportAck, error) {
	return func(*pb.ShardReport) (*pb.ReportAck, error) {
		s := status.New(codes.FailedPrecondition, "not leader")
		if leader != "" {
			s, _ = s.WithDetails(&errdetails.ErrorInfo{Reason: "NOT_LEADER", Metadata: map[string]string{"leader": leader}})
		}
		return nil, s.Err()
	}
}

func serve(t *testing.T, answers ...func(*pb.ShardReport) (*pb.ReportAck, error)) *coordinator {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &coordinator{address: l.Addr().String(), answers: answers, reports: make(chan *pb.ShardReport, 100), offers: make(chan *tonnage.OfferRequest, 100)}
	s := grpc.NewServer()
	pb.RegisterCoordinatorServer(s, c)
	tonnage.RegisterFleetServer(s, c)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return c
}

func (c *coordinator) Offer(_ context.Context, r *tonnage.OfferRequest) (*tonnage.OfferReply, error) {
	select {
	case c.offers <- r:
	default:
	}
	return &tonnage.OfferReply{Acknowledged: true}, nil
}

// giver has nothing to give.
type giver struct{ report.Owner }

func (giver) HandOvers(context.Context) ([]shard.HandOver, error) { return nil, nil }
func (giver) Offers() []shard.Offer                               { return nil }
func (giver) Settle([]string)                                     {}

// TestFreeMachines: a report counts Idle and Speculative ones, as the protocol says; the
// offer after it counts the Idle ones.
func TestFreeMachines(t *testing.T) {
	c := serve(t, answer(1))
	start(t, report.Options{Shard: &fakeShard{}, Owner: giver{}}, c.address)
	if n := c.next(t).GetSummary().GetFreeMachines(); n != 3 {
		t.Errorf("the report has %d free machines, want 3", n)
	}
	select {
	case o := <-c.offers:
		if o.IdleMachines == nil || o.GetIdleMachines() != 2 {
			t.Errorf("the offer has %v Idle machines, want 2", o.IdleMachines)
		}
	case <-time.After(10 * time.Second):
		t.Error("no offer came")
	}
}

// next waits for a report.
func (c *coordinator) next(t *testing.T) *pb.ShardReport {
	t.Helper()
	select {
	case r := <-c.reports:
		return r
	case <-time.After(10 * time.Second):
		t.Fatal("no report comes")
		return nil
	}
}

func start(t *testing.T, o report.Options, addresses ...string) {
	t.Helper()
	o.ID, o.Addresses, o.Interval = "shard-7", addresses, 5*time.Millisecond
	o.Dial = []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	c, err := report.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = c.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
}

func assign(id string, term int64, value string) *pb.CoordinatorInstruction {
	return &pb.CoordinatorInstruction{CoordinatorTerm: term, InstructionId: id, Payload: &pb.CoordinatorInstruction_AssignDomain{
		AssignDomain: &pb.AssignDomain{TopologyKey: "zone", TopologyValue: value}}}
}

func TestReportTellsHowTheShardStands(t *testing.T) {
	p, err := model.NewProfile(model.ProfileSpec{Priority: 9, Interruption: 3, Requirements: []model.Requirement{
		{Key: "gpu", Operator: model.In, Values: []string{"h100"}}, {Key: "rack", Operator: model.Same}}})
	if err != nil {
		t.Fatal(err)
	}
	s := &fakeShard{shortfalls: []shard.Shortfall{{Profile: p, Deficit: model.NewResources(model.Amount{Name: "cpu", Value: 2500}), AgeCycles: 4}}}
	c := serve(t, answer(1))
	start(t, report.Options{Shard: s, Epoch: func() int64 { return 6 }, Advertise: "here:7780", Provider: "there:9"}, c.address)
	for cycle := int64(1); cycle <= 2; cycle++ {
		r := c.next(t)
		if r.ShardId != "shard-7" || r.Cycle != cycle || r.ShardEpoch != 6 || r.ShardAddress != "here:7780" || r.TimestampUnixNanos == 0 {
			t.Fatalf("got %v", r)
		}
		if m := r.Summary; m.TotalMachines != 5 || m.FreeMachines != 3 || m.PerInstanceTypeCounts["t"] != 5 || m.PerZoneCounts["b"] != 2 || m.ProviderAddress != "there:9" {
			t.Fatalf("summary %v", m)
		}
		x := r.Shortfalls[0]
		if x.Priority != 9 || x.AgeCycles != 4 || x.InterruptionPenaltyBucket != 3 || x.Deficit.Resources["cpu"] != "2500m" || len(x.Requirements) != 2 {
			t.Fatalf("shortfall %v", x)
		}
		if same := x.Requirements[1]; same.Operator != pb.NodeSelectorRequirement_OPERATOR_SAME || same.Key != "rack" {
			t.Fatalf("requirements %v", x.Requirements)
		}
	}
}

// TestTheLeaderIsFound: behind a replica that is down and one that names it.
func TestTheLeaderIsFound(t *testing.T) {
	leader := serve(t, answer(3))
	second := serve(t, follower(leader.address))
	lost := serve(t, follower(""))
	start(t, report.Options{Shard: &fakeShard{}}, "127.0.0.1:1", lost.address, second.address)
	leader.next(t)
	second.next(t)
}

// TestInstructionsAreAcknowledgedOnce: what was carried out is not carried out
// again when it comes again, and what could not be delivered is said again.
func TestInstructionsAreAcknowledgedOnce(t *testing.T) {
	s := &fakeShard{}
	one := assign("i-1", 5, "a")
	c := serve(t, answer(5, one), follower(""), answer(5, one), answer(5))
	start(t, report.Options{Shard: s}, c.address)
	if r := c.next(t); len(r.InstructionAcks) != 0 {
		t.Fatalf("first report: %v", r.InstructionAcks)
	}
	for range 2 { // the second one was not taken
		r := c.next(t)
		if len(r.InstructionAcks) != 1 || r.InstructionAcks[0].InstructionId != "i-1" || r.InstructionAcks[0].Outcome != pb.InstructAck_OUTCOME_ACCEPTED || r.InstructionAcks[0].Reason != "" {
			t.Fatalf("got %v", r.InstructionAcks)
		}
	}
	if r := c.next(t); len(r.InstructionAcks) != 1 || r.InstructionAcks[0].Reason != "duplicate-redelivery" {
		t.Fatalf("the repeat: %v", r.InstructionAcks)
	}
	if r := c.next(t); len(r.InstructionAcks) != 0 {
		t.Fatalf("said again: %v", r.InstructionAcks)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.domains, []shard.Domain{{Key: "zone", Value: "a"}}) {
		t.Errorf("domains %v", s.domains)
	}
}

// TestDomainsAreAcknowledgedWhenOnDisk: another shard may be given what this one
// says it has lost, so it is said when it is certain, and carried out anew till
// then.
func TestDomainsAreAcknowledgedWhenOnDisk(t *testing.T) {
	s := &fakeShard{unkept: errors.New("disk full")}
	one := assign("i-1", 5, "a")
	c := serve(t, answer(5, one), answer(5, one), answer(5))
	start(t, report.Options{Shard: s}, c.address)
	c.next(t)
	for _, want := range []pb.InstructAck_Outcome{pb.InstructAck_OUTCOME_FAILED, pb.InstructAck_OUTCOME_ACCEPTED} {
		if r := c.next(t); len(r.InstructionAcks) != 1 || r.InstructionAcks[0].Outcome != want {
			t.Fatalf("got %v, want %v", r.InstructionAcks, want)
		}
	}
}

// TestAfterAnOutageReportsAreTakenAtOnce: the first report after the coordinator
// has come back is taken, however long gRPC would wait by now.
func TestAfterAnOutageReportsAreTakenAtOnce(t *testing.T) {
	coordinator := serve(t, answer(5))
	var back atomic.Bool
	reg := prometheus.NewRegistry()
	o := report.Options{Shard: &fakeShard{}, ID: "shard-7", Addresses: []string{"passthrough:///" + coordinator.address}, Metrics: report.NewMetrics(reg)}
	o.Dial = []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: time.Hour, Multiplier: 1, MaxDelay: time.Hour}}),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			if !back.Load() {
				return nil, errors.New("nobody is there")
			}
			return (&net.Dialer{}).DialContext(ctx, "tcp", address)
		}),
	}
	c, err := report.New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.Exchange(t.Context())
	c.Exchange(t.Context())
	if n := unanswered(t, reg); n != 2 {
		t.Errorf("%v reports in a row have no answer, want 2", n)
	}
	back.Store(true)
	c.Exchange(t.Context())
	if n := unanswered(t, reg); n != 0 {
		t.Errorf("after an answer %v reports have none", n)
	}
	if r := coordinator.next(t); r.Cycle != 3 {
		t.Errorf("the coordinator took report %d first, want 3", r.Cycle)
	}
}

// unanswered returns the number of reports in a row without an answer.
func unanswered(t *testing.T, reg *prometheus.Registry) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "tonnage_shard_reports_unanswered" {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatal("there is no such series")
	return 0
}

// TestEachReportTriesToConnect: a connection that could not be made is tried
// with each report.
func TestEachReportTriesToConnect(t *testing.T) {
	dialled := make(chan struct{}, 1)
	o := report.Options{Shard: &fakeShard{}, ID: "shard-7", Addresses: []string{"passthrough:///nobody"}}
	o.Dial = []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: time.Hour, Multiplier: 1, MaxDelay: time.Hour}}),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			dialled <- struct{}{}
			return nil, errors.New("nobody is there")
		}),
	}
	c, err := report.New(o)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		c.Exchange(t.Context())
		select {
		case <-dialled:
		case <-time.After(10 * time.Second):
			t.Fatalf("report %d does not try to connect", i+1)
		}
	}
	c.Close()
}

// TestOutcomes: of what is stale, unknown, impossible or fails.
func TestOutcomes(t *testing.T) {
	s := &fakeShard{fail: errors.New("disk full")}
	move := &pb.CoordinatorInstruction{CoordinatorTerm: 5, InstructionId: "move", Payload: &pb.CoordinatorInstruction_TransferOwnership{TransferOwnership: &pb.TransferOwnership{}}}
	unassign := &pb.CoordinatorInstruction{CoordinatorTerm: 5, InstructionId: "un", Payload: &pb.CoordinatorInstruction_UnassignDomain{UnassignDomain: &pb.UnassignDomain{TopologyKey: "k", TopologyValue: "v"}}}
	c := serve(t, answer(5, assign("old", 4, "a"), &pb.CoordinatorInstruction{CoordinatorTerm: 5, InstructionId: "empty"}, assign("fails", 5, "b"), move, unassign), answer(5))
	start(t, report.Options{Shard: s}, c.address)
	c.next(t)
	got := map[string]pb.InstructAck_Outcome{}
	for _, a := range c.next(t).InstructionAcks {
		got[a.InstructionId] = a.Outcome
	}
	want := map[string]pb.InstructAck_Outcome{
		"old": pb.InstructAck_OUTCOME_REJECTED_STALE, "empty": pb.InstructAck_OUTCOME_REJECTED_INVALID,
		"fails": pb.InstructAck_OUTCOME_FAILED, "move": pb.InstructAck_OUTCOME_REJECTED_INVALID, "un": pb.InstructAck_OUTCOME_ACCEPTED,
	}
	for id, outcome := range want {
		if got[id] != outcome {
			t.Errorf("%s: %v, want %v", id, got[id], outcome)
		}
	}
}

// TestAReplacedLeaderIsNotListenedTo: nothing of its answer is acknowledged.
func TestAReplacedLeaderIsNotListenedTo(t *testing.T) {
	s := &fakeShard{term: 9}
	c := serve(t, answer(8, assign("i", 8, "a")))
	start(t, report.Options{Shard: s}, c.address)
	for range 3 {
		if r := c.next(t); len(r.InstructionAcks) != 0 {
			t.Fatalf("acknowledged %v", r.InstructionAcks)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.domains) != 0 {
		t.Errorf("carried out: %v", s.domains)
	}
}
