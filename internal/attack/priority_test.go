package attack_test

import (
	"context"
	"fmt"
	"math"
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

// asksAt reports one row of one machine with a priority.
func (x *resourceTenant) asksAt(priority int32) {
	x.t.Helper()
	r := map[string]string{"cpu": "8"}
	x.send(&pb.OperatorMessage{Payload: &pb.OperatorMessage_Rollup{Rollup: &pb.ClusterCapacityNeeds{
		ClusterId: x.cluster, TimestampUnixNanos: time.Now().UnixNano(),
		Needs: []*pb.CapacityNeed{{Group: "g0", Priority: priority, AggregateResources: r, MinUnit: r, InterruptionPenaltyBucket: 27}},
	}}})
}

// TestPriorityIsCapped: a tenant that says the highest priority there is preempts
// nobody where the policy puts it below its victim; it is told of its limit, and a
// change of the file reaches it while the shard runs.
func TestPriorityIsCapped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	world, limits := filepath.Join(dir, "world.json"), filepath.Join(dir, "policy.yaml")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(world, `{"machines":[{"id":"m-1","state":"Idle","instanceType":"x","capacityType":"BareMetal","zone":"z","pricePerHour":1,"resources":{"cpu":"8"}}],"needs":[]}`)
	write(limits, "default: {maxPriority: 100}\nclusters:\n  victim: {maxPriority: 1000}\n")
	at, sessions := freeport.Take(t), freeport.Take(t)
	processtest.Start(t, "provider", "--listen="+at, "--metrics-addr=0", "--data-dir="+filepath.Join(dir, "provider"), "--latency=1ms", "--seed-file="+world)
	shard := processtest.Start(t, "shard", "--provider-addr="+at, "--listen="+sessions, "--metrics-addr="+freeport.Take(t), "--data-dir="+filepath.Join(dir, "shard"),
		"--cycle-interval=200ms", "--local-bootstrap", "--policy="+limits)
	processtest.Eventually(t, resourcesWait, "the shard lists", func() bool { return shard.Get("/readyz") != "" })
	victim := newResourceTenant(t, sessions, "victim")
	victim.asksAt(500)
	processtest.Eventually(t, resourcesWait, "the victim is served", func() bool { n := victim.needs()["g0"]; return n != nil && n.GetSatisfied() })

	greedy := newResourceTenant(t, sessions, "greedy")
	greedy.asksAt(math.MaxInt32)
	processtest.Eventually(t, resourcesWait, "the greedy row is decided about for two cycles", func() bool {
		n := greedy.needs()["g0"]
		return n != nil && n.GetNeed().GetPriority() == 100 && n.GetAgeCyclesUnmet() >= 2
	})
	if n := victim.needs()["g0"]; !n.GetSatisfied() || n.GetNeed().GetPriority() != 500 {
		t.Errorf("the victim has lost its machine, or is lowered too: %v", n)
	}
	if n := shard.Metric("tonnage_shard_rows_lowered_total", `cluster="greedy"`); n < 1 {
		t.Errorf("%v rows of the greedy cluster are counted", n)
	}
	if says := headerOf(t, sessions, "greedy"); says != "100" {
		t.Errorf("the operator is told %q", says)
	}

	write(limits, "default: {maxPriority: oops}\n")
	processtest.Eventually(t, resourcesWait, "a file at fault is noticed", func() bool { return shard.Metric("tonnage_shard_policy_healthy") == 0 })
	if says := headerOf(t, sessions, "greedy"); says != "100" || !strings.Contains(shard.Log(), "the one before stays in force") {
		t.Errorf("with a file at fault the operator is told %q", says)
	}
	write(limits, "default: {maxPriority: 70}\n")
	processtest.Eventually(t, resourcesWait, "the new limit is told", func() bool { return headerOf(t, sessions, "greedy") == "70" })
	code, _, says := processtest.Run(t, "shard", "--policy="+world, "--listen="+freeport.Take(t), "--metrics-addr=0", "--data-dir="+filepath.Join(dir, "other"))
	if code == 0 || !strings.Contains(says, "--policy") || !strings.Contains(says, "machines") {
		t.Errorf("a file that is no policy: exit code %d, %s", code, says)
	}
}

// headerOf opens a session and returns the limit of priority that its header tells.
func headerOf(t *testing.T, address, cluster string) string {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), resourcesWait)
	defer cancel()
	stream, err := pb.NewShardClient(conn).Session(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&pb.OperatorMessage{Payload: &pb.OperatorMessage_Hello{Hello: &pb.Hello{ClusterId: cluster, ProtocolVersion: "v1alpha1"}}}); err != nil {
		t.Fatal(err)
	}
	header, err := stream.Header()
	if err != nil {
		return fmt.Sprint(err)
	}
	return strings.Join(header.Get("tonnage-max-priority"), " ")
}
