package session_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/simulated"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/session"
)

// fleet is a real shard behind a server, with machines that change at once.
type fleet struct {
	*fixture
	shard     *shard.Shard
	decisions *session.Decisions
	woken     sync.WaitGroup

	mu  sync.Mutex // one cycle at a time
	now int64
}

// late is a shard that is made after its server.
type late struct{ *shard.Shard }

func newFleet(t *testing.T, machines int) *fleet {
	t.Helper()
	now := time.Unix(1e9, 0).UnixNano()
	var ms []model.Machine
	for i := range machines {
		ms = append(ms, model.Machine{
			ID: fmt.Sprintf("m-%d", i), State: model.Idle, Host: fmt.Sprintf("host-%d", i), InstanceType: "t", Zone: "a", CapacityType: model.BareMetal,
			PricePerHour: 1, Resources: model.NewResources(model.Amount{Name: "cpu", Value: 4000}), Labels: map[string]string{"kubernetes.io/hostname": fmt.Sprintf("node-%d", i), "rack": fmt.Sprintf("r%d", i%2)},
		})
	}
	fl, err := simulated.New(simulated.Config{Machines: ms, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	x := &fleet{now: now}
	core := &late{}
	x.decisions = session.NewDecisions(func() { x.woken.Go(func() { x.step(t) }) },
		func(plan *engine.Plan, i int) shard.Ages { return core.AgesOf(plan, i) })
	x.fixture = serve(t, session.Deps{Core: core, Needs: x.decisions.Needs})
	cfg := shard.DefaultConfig()
	cfg.Unbounded()
	cfg.Concurrency = 0
	if x.shard, err = shard.New(cfg, shard.Deps{Provider: fl, Operators: x.server, Decided: x.decisions.Decided}); err != nil {
		t.Fatal(err)
	}
	core.Shard = x.shard
	t.Cleanup(func() {
		x.woken.Wait()
		x.shard.Close()
	})
	return x
}

func (x *fleet) step(t *testing.T) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.now += int64(10 * time.Second)
	if _, err := x.shard.Step(context.Background(), x.now); err != nil {
		t.Error(err)
	}
}

// kept is what an operator that answers everything has heard.
type kept struct {
	mu        sync.Mutex
	nodes     map[string]*pb.NodeStateUpdate
	acks      int
	cordoned  []string
	capacity  int
	bootstrap int
}

// obey answers what an operator is asked, until the test is over.
func (k *kept) obey(ctx context.Context, o *operator) {
	for {
		var m *pb.ShardMessage
		select {
		case m = <-o.got:
		case <-ctx.Done():
			return
		}
		k.mu.Lock()
		switch p := m.GetPayload().(type) {
		case *pb.ShardMessage_Ack:
			k.acks++
		case *pb.ShardMessage_NodeStateUpdate:
			k.nodes[p.NodeStateUpdate.GetMachineId()] = p.NodeStateUpdate
		case *pb.ShardMessage_BootstrapRequest:
			k.bootstrap++
			o.respond(&pb.BootstrapBlobResponse{RequestId: p.BootstrapRequest.GetRequestId(), UserData: []byte("join")})
		case *pb.ShardMessage_ReclaimInstruction:
			k.cordoned = append(k.cordoned, p.ReclaimInstruction.GetNodes()...)
			o.send(&pb.OperatorMessage{Payload: &pb.OperatorMessage_ReclaimAck{ReclaimAck: &pb.ReclaimAck{InstructionId: p.ReclaimInstruction.GetInstructionId()}}})
		case *pb.ShardMessage_AvailableCapacity:
			k.capacity++
		}
		k.mu.Unlock()
	}
}

func (k *kept) has(holds func() bool) func() bool {
	return func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return holds()
	}
}

func (k *kept) configured() (n int) {
	for _, u := range k.nodes {
		if u.GetState() == pb.MachineState_MACHINE_STATE_CONFIGURED {
			n++
		}
	}
	return n
}

// machinesWanted is a roll-up of one row that asks for so many machines.
func machinesWanted(cluster string, machines int) *pb.OperatorMessage {
	m := rollup(cluster, 1)
	m.GetRollup().Needs[0].AggregateResources["cpu"] = fmt.Sprint(4 * machines)
	m.GetRollup().Needs[0].MinUnit["cpu"] = "4"
	return m
}

// An operator asks for machines, gets them, and gives some back; another
// connection of it hears what it has.
func TestAShardServesAnOperator(t *testing.T) {
	x := newFleet(t, 5)
	connect := func() (*operator, *kept) {
		o := x.connect(t, "a")
		k := &kept{nodes: map[string]*pb.NodeStateUpdate{}}
		go k.obey(t.Context(), o)
		return o, k
	}
	o, k := connect()
	o.send(machinesWanted("a", 3))
	until(t, "the roll-up is acknowledged", k.has(func() bool { return k.acks == 1 }))
	x.step(t)
	x.step(t)
	until(t, "three machines are the cluster's", k.has(func() bool { return k.configured() == 3 && k.bootstrap == 3 && k.capacity > 0 }))
	k.mu.Lock()
	nodes := maps.Clone(k.nodes)
	k.mu.Unlock()
	for id, u := range nodes {
		if u.GetClusterId() != "a" || u.GetNodeName() != "node-"+id[2:] || u.GetProviderId() != "host-"+id[2:] || u.GetLabels()[model.KeyZone] != "a" {
			t.Errorf("told %v", u)
		}
	}

	frames, err := inspect(t, x.fixture, nil, &pb.InspectNeedsRequest{})
	if err != nil || len(frames) != 2 {
		t.Fatalf("%v, %v; want a header and a need", frames, err)
	}
	need := frames[1].GetNeed()
	if header := frames[0].GetHeader(); header.GetTotalNeeds() != 1 || header.GetCycle() < 3 || header.GetComputedAtUnixNanos() == 0 ||
		!need.GetSatisfied() || need.GetClaimedMachineCount() != 3 || need.GetNeed().GetAggregateResources()["cpu"] != "12" || need.GetMatchingSupply() != nil {
		t.Errorf("inspected %v", frames)
	}
	// The roll-up says 1970.
	if arrived := time.Unix(0, need.GetArrivalUnixNanos()); time.Since(arrived) > time.Hour || time.Until(arrived) > 0 {
		t.Errorf("the need arrived at %v, want when the shard heard of it", arrived)
	}

	_, again := connect()
	until(t, "the machines are told anew", again.has(func() bool { return again.configured() == 3 }))
	until(t, "one session is left", func() bool { return x.server.Streams() == 1 })
}

// What is not satisfied says why, and in which order needs come.
func TestInspectingAShard(t *testing.T) {
	x := newFleet(t, 2)
	if frames, err := inspect(t, x.fixture, nil, &pb.InspectNeedsRequest{}); err != nil || len(frames) != 1 || frames[0].GetHeader().GetCycle() != 0 {
		t.Fatalf("before the first cycle: %v, %v; want one empty header", frames, err)
	}
	row := func(cluster, zone string, priority int32, arrival int64) {
		t.Helper()
		p, err := model.NewProfile(model.ProfileSpec{Priority: priority, Requirements: []model.Requirement{{Key: model.KeyZone, Operator: model.In, Values: []string{zone}}}})
		if err != nil {
			t.Fatal(err)
		}
		four := model.NewResources(model.Amount{Name: "cpu", Value: 12_000})
		outcome, err := x.shard.ApplyRollup(cluster, []model.Need{{Profile: p, Aggregate: four, MinUnit: model.NewResources(model.Amount{Name: "cpu", Value: 4000}), Arrival: arrival}}, x.now)
		if err != nil || outcome != shard.RollupAccepted {
			t.Fatalf("%v, %v", outcome, err)
		}
	}
	row("c", "a", 5, 3)
	row("b", "a", 5, 3)
	row("d", "a", 5, 2)
	row("e", "a", 9, 9)
	row("a", "nowhere", 1, 1)
	x.step(t)
	frames, err := inspect(t, x.fixture, nil, &pb.InspectNeedsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range frames[1:] {
		got = append(got, f.GetNeed().GetClusterId())
	}
	if want := []string{"e", "d", "b", "c", "a"}; !slices.Equal(got, want) {
		t.Errorf("needs come as %q, want %q: by priority, then by arrival, then by cluster", got, want)
	}
	last := frames[5].GetNeed()
	if last.GetUnmetReason() != pb.UnmetReason_UNMET_REASON_NO_MATCHING_SUPPLY || last.GetResidualDeficit().GetResources()["cpu"] != "12" || last.GetMatchingSupply().GetIdle() != 0 {
		t.Errorf("a need that nothing matches: %v", last)
	}
	frames, err = inspect(t, x.fixture, nil, &pb.InspectNeedsRequest{Limit: 2})
	if err != nil || len(frames) != 3 || frames[0].GetHeader().GetTotalNeeds() != 5 || frames[2].GetNeed().GetClusterId() != "d" {
		t.Errorf("with a limit of 2: %v, %v; want five counted, and e and d", frames, err)
	}
	frames, err = inspect(t, x.fixture, nil, &pb.InspectNeedsRequest{ClusterId: "b", Limit: 7})
	if err != nil || len(frames) != 2 || frames[0].GetHeader().GetTotalNeeds() != 1 || frames[1].GetNeed().GetClusterId() != "b" {
		t.Errorf("of one cluster: %v, %v", frames, err)
	}
}
