package attack_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/internal/freeport"
	"github.com/tonnage/tonnage/internal/processtest"
)

// resourcesWait is how long a shard may take to do what this file waits for.
const resourcesWait = 30 * time.Second

// resourceTenant is a cluster's operator that sends roll-ups and reads answers.
type resourceTenant struct {
	t       *testing.T
	cluster string
	conn    *grpc.ClientConn
	stream  pb.Shard_SessionClient
}

func newResourceTenant(t *testing.T, address, cluster string) *resourceTenant {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	x := &resourceTenant{t: t, cluster: cluster, conn: conn}
	if x.stream, err = pb.NewShardClient(conn).Session(ctx); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			if _, err := x.stream.Recv(); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-ended; conn.Close() })
	x.send(&pb.OperatorMessage{Payload: &pb.OperatorMessage_Hello{Hello: &pb.Hello{ClusterId: cluster, ProtocolVersion: "v1alpha1"}}})
	return x
}

func (x *resourceTenant) send(m *pb.OperatorMessage) {
	x.t.Helper()
	if err := x.stream.Send(m); err != nil {
		x.t.Fatal(err)
	}
}

// asks reports rows of one machine each, one for each map of resources.
func (x *resourceTenant) asks(rows ...map[string]string) {
	x.t.Helper()
	rollup := &pb.ClusterCapacityNeeds{ClusterId: x.cluster, TimestampUnixNanos: time.Now().UnixNano()}
	for i, r := range rows {
		rollup.Needs = append(rollup.Needs, &pb.CapacityNeed{Group: fmt.Sprint("g", i), AggregateResources: r, MinUnit: r})
	}
	x.send(&pb.OperatorMessage{Payload: &pb.OperatorMessage_Rollup{Rollup: rollup}})
}

// needs returns what the shard says of the cluster's rows, by group.
func (x *resourceTenant) needs() map[string]*pb.NeedView {
	ctx, cancel := context.WithTimeout(context.Background(), resourcesWait)
	defer cancel()
	out := map[string]*pb.NeedView{}
	stream, err := pb.NewShardReadClient(x.conn).InspectNeeds(ctx, &pb.InspectNeedsRequest{ClusterId: x.cluster})
	for err == nil {
		var frame *pb.InspectNeedsResponse
		if frame, err = stream.Recv(); err == nil && frame.GetNeed() != nil {
			out[frame.GetNeed().GetNeed().GetGroup()] = frame.GetNeed()
		}
	}
	if !errors.Is(err, io.EOF) {
		x.t.Logf("InspectNeeds: %v", err)
	}
	return out
}

// madeUpNames returns rows with so many made-up names, a few in each.
func madeUpNames(tenant string, n int) (rows []map[string]string) {
	for i := range n {
		rows = append(rows, map[string]string{"cpu": "1", fmt.Sprintf("made.up/%s-%03d", tenant, i): "1"})
	}
	return rows
}

// TestMadeUpResources: tenants that make up names of resources, as many as they like,
// do not keep another one from the resources that machines offer; and a tenant that
// asks for one keeps the machine that it has.
func TestMadeUpResources(t *testing.T) {
	dir := t.TempDir()
	world := filepath.Join(dir, "world.json")
	machine := func(id, resource string) string {
		return fmt.Sprintf(`{"id":%q,"state":"Idle","instanceType":"x","capacityType":"BareMetal","zone":"z","pricePerHour":1,"resources":{"cpu":"8",%q:"8"}}`, id, resource)
	}
	text := `{"machines":[` + strings.Join([]string{machine("gpu-1", "nvidia.com/gpu"), machine("plain-1", "pods"), machine("plain-2", "pods")}, ",") + `],"needs":[]}`
	if err := os.WriteFile(world, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	at, sessions := freeport.Take(t), freeport.Take(t)
	processtest.Start(t, "provider", "--listen="+at, "--metrics-addr=0", "--data-dir="+filepath.Join(dir, "provider"), "--latency=1ms", "--seed-file="+world)
	shard := processtest.Start(t, "shard", "--provider-addr="+at, "--listen="+sessions, "--metrics-addr="+freeport.Take(t), "--data-dir="+filepath.Join(dir, "shard"),
		"--cycle-interval=200ms", "--local-bootstrap")
	processtest.Eventually(t, resourcesWait, "the shard lists", func() bool { return shard.Get("/readyz") != "" })

	served := func(x *resourceTenant, group string) bool { n := x.needs()[group]; return n != nil && n.GetSatisfied() }
	holder := newResourceTenant(t, sessions, "holder")
	holder.asks(map[string]string{"cpu": "8", "pods": "1"})
	processtest.Eventually(t, resourcesWait, "the holder is served", func() bool { return served(holder, "g0") })

	// The attack: four tenants of 16 names, and one of 64, which is refused. The one
	// that has a machine adds a name to what it has been served with.
	for i := range 4 {
		greedy := newResourceTenant(t, sessions, fmt.Sprint("greedy-", i))
		greedy.asks(madeUpNames(fmt.Sprint(i), 16)...)
		processtest.Eventually(t, resourcesWait, "the greedy tenant's rows are there", func() bool { return len(greedy.needs()) == 16 })
	}
	newResourceTenant(t, sessions, "greedier").asks(madeUpNames("all", 64)...)
	processtest.Eventually(t, resourcesWait, "the roll-up of 64 names is refused", func() bool {
		return strings.Contains(shard.Log(), "64 resources that no machine offers")
	})
	holder.asks(map[string]string{"cpu": "8", "pods": "1", "made.up/holder": "1"})
	processtest.Eventually(t, resourcesWait, "the holder's row waits, with its machine", func() bool {
		n := holder.needs()["g0"]
		return n != nil && !n.GetSatisfied() && n.GetClaimedMachineCount() == 1 &&
			n.GetUnmetReason() == pb.UnmetReason_UNMET_REASON_NO_MATCHING_SUPPLY && len(n.GetResidualDeficit().GetResources()) == 1
	})

	victim := newResourceTenant(t, sessions, "victim")
	victim.asks(map[string]string{"cpu": "4", "nvidia.com/gpu": "8"})
	processtest.Eventually(t, resourcesWait, "the victim is served", func() bool { return served(victim, "g0") })
	if n := shard.Metric("tonnage_shard_unoffered_rows"); n != 65 {
		t.Errorf("%v rows ask for what no machine offers, want 65", n)
	}
	if n := holder.needs()["g0"].GetClaimedMachineCount(); n != 1 {
		t.Errorf("the holder has %d machines, want the one that it had", n)
	}
}
