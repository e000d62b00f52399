package demandclient

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/engine/model"
)

// shard ends the first session after the greeting; in the second it asks for everything that a shard may ask.
type shard struct {
	bigfleet.UnimplementedShardServer
	mu       sync.Mutex
	sessions int
	heard    chan *bigfleet.OperatorMessage
}

func (s *shard) Session(stream bigfleet.Shard_SessionServer) error {
	s.mu.Lock()
	s.sessions++
	number := s.sessions
	s.mu.Unlock()
	if m, err := stream.Recv(); err != nil || m.GetHello().GetClusterId() != "c" || m.GetHello().GetProtocolVersion() != protocolVersion {
		return errors.New("no hello")
	}
	ack := func(echo string) error {
		return stream.Send(&bigfleet.ShardMessage{Payload: &bigfleet.ShardMessage_Ack{Ack: &bigfleet.Acknowledgement{Echo: echo}}})
	}
	if err := ack(echoHello); err != nil || number == 1 {
		return err
	}
	for _, m := range []*bigfleet.ShardMessage{
		{Payload: &bigfleet.ShardMessage_BootstrapRequest{BootstrapRequest: &bigfleet.BootstrapRequest{RequestId: "r"}}},
		{Payload: &bigfleet.ShardMessage_ReclaimInstruction{ReclaimInstruction: &bigfleet.ReclaimInstruction{InstructionId: "i", Nodes: []string{"m-1", "m-2"}}}},
		{Payload: &bigfleet.ShardMessage_NodeStateUpdate{NodeStateUpdate: &bigfleet.NodeStateUpdate{MachineId: "m-3", State: bigfleet.MachineState_MACHINE_STATE_CONFIGURED}}},
		{Payload: &bigfleet.ShardMessage_AvailableCapacity{}},
	} {
		if err := stream.Send(m); err != nil {
			return err
		}
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		s.heard <- m
		if m.GetRollup() != nil {
			if err := ack(echoRollup); err != nil {
				return err
			}
		}
	}
}

// TestASessionAnswersAndComesAgain: the newest demand is sent in each session, questions are answered, and a
// session that ended is followed by another.
func TestASessionAnswersAndComesAgain(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	fake := &shard{heard: make(chan *bigfleet.OperatorMessage, 16)}
	server := grpc.NewServer()
	bigfleet.RegisterShardServer(server, fake)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var said []string
	s := New(Config{Cluster: "c", Conn: conn, UserData: []byte("data"), Now: time.Now, Say: func(line string) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, line)
	}})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { s.Run(ctx); close(ended) }()
	t.Cleanup(func() {
		cancel()
		<-ended
		conn.Close()
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	s.Offer([]*bigfleet.CapacityNeed{{Priority: 1}})
	s.Offer([]*bigfleet.CapacityNeed{{Priority: 2}, {Priority: 3}})
	var rollup *bigfleet.ClusterCapacityNeeds
	var blob *bigfleet.BootstrapBlobResponse
	var reclaim *bigfleet.ReclaimAck
	for rollup == nil || blob == nil || reclaim == nil {
		m := <-fake.heard
		switch p := m.Payload.(type) {
		case *bigfleet.OperatorMessage_Rollup:
			rollup = p.Rollup
		case *bigfleet.OperatorMessage_BootstrapResponse:
			blob = p.BootstrapResponse
		case *bigfleet.OperatorMessage_ReclaimAck:
			reclaim = p.ReclaimAck
		}
	}
	<-s.Taken()
	if len(rollup.Needs) != 2 || rollup.Needs[0].Priority != 2 || rollup.ClusterId != "c" || rollup.TimestampUnixNanos == 0 {
		t.Errorf("the demand is %v", rollup)
	}
	if blob.RequestId != "r" || string(blob.UserData) != "data" || blob.Error != "" {
		t.Errorf("the answer is %v", blob)
	}
	if reclaim.InstructionId != "i" || reclaim.NodesStarted != 2 {
		t.Errorf("the reclaim is answered by %v", reclaim)
	}
	s.Offer(nil)
	for m := range fake.heard {
		if m.GetRollup() != nil && len(m.GetRollup().Needs) == 0 {
			break
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for _, want := range []string{"c: the session has begun", "c: gives back 2 machines: [m-1 m-2]", "c: machine m-3 is Configured"} {
		if !slices.Contains(said, want) {
			t.Errorf("it does not say %q: %q", want, said)
		}
	}
	if !slices.ContainsFunc(said, func(line string) bool { return strings.HasPrefix(line, "c: the session has ended: ") }) {
		t.Errorf("it does not say that the session ended: %q", said)
	}
}

// TestRowsOfNeeds: all that a Need says is in its row, or it is refused.
func TestRowsOfNeeds(t *testing.T) {
	need := func(spec model.ProfileSpec) *model.Need {
		profile, err := model.NewProfile(spec)
		if err != nil {
			t.Fatal(err)
		}
		return &model.Need{
			Cluster: "c", Profile: profile, Group: "g",
			Aggregate: model.NewResources(model.Amount{Name: "cpu", Value: 1500}, model.Amount{Name: "memory", Value: 16 << 30}),
			MinUnit:   model.NewResources(model.Amount{Name: "cpu", Value: 500}),
		}
	}
	row, err := Row(need(model.ProfileSpec{
		Priority: -7, Interruption: model.BucketForDollars(64), Reclamation: model.BucketPinned,
		Requirements: []model.Requirement{{Key: "a", Operator: model.In, Values: []string{"x", "y"}}, {Key: "b", Operator: model.Exists}, {Key: "c", Operator: model.Same}},
		Spread:       []model.Spread{{Key: "zone", MaxSkew: 2, WhenUnsatisfiable: model.DoNotSchedule}},
	}))
	if err != nil {
		t.Fatal(err)
	}
	if row.Priority != -7 || row.Group != "g" || row.AggregateResources["cpu"] != "1500m" || row.AggregateResources["memory"] != "16Gi" || row.MinUnit["cpu"] != "500m" {
		t.Errorf("row %v", row)
	}
	if row.InterruptionPenaltyBucket != bigfleet.PenaltyBucket_PENALTY_BUCKET_64 || row.ReclamationPenaltyBucket != bigfleet.PenaltyBucket_PENALTY_BUCKET_PINNED {
		t.Errorf("penalties %v %v", row.InterruptionPenaltyBucket, row.ReclamationPenaltyBucket)
	}
	var operators []string
	for _, q := range row.Requirements {
		operators = append(operators, q.Key+" "+q.Operator.String())
	}
	if !slices.Equal(operators, []string{"a OPERATOR_IN", "b OPERATOR_EXISTS", "c OPERATOR_SAME"}) || len(row.Requirements[0].Values) != 2 {
		t.Errorf("requirements %v", row.Requirements)
	}
	if len(row.Spread) != 1 || row.Spread[0].MaxSkew != 2 || row.Spread[0].WhenUnsatisfiable != bigfleet.TopologySpread_WHEN_UNSATISFIABLE_DO_NOT_SCHEDULE {
		t.Errorf("spread %v", row.Spread)
	}
	for operator := model.In; operator <= model.Lt; operator++ {
		spec := model.ProfileSpec{Requirements: []model.Requirement{{Key: "a", Operator: operator}}}
		if operator == model.In || operator == model.NotIn || operator == model.Gt || operator == model.Lt {
			spec.Requirements[0].Values = []string{"1"}
		}
		if _, err := Row(need(spec)); (err != nil) != (operator == model.Gt || operator == model.Lt) {
			t.Errorf("%s: %v", operator, err)
		}
	}
	elastic := need(model.ProfileSpec{})
	elastic.MinAggregate = elastic.MinUnit
	if _, err := Row(elastic); err == nil {
		t.Error("an elastic gang has a row")
	}
}
