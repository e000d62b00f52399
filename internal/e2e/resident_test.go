package e2e

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/tonnage/tonnage/alloc"
	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/api/frames"
	"github.com/tonnage/tonnage/internal/freeport"
	"github.com/tonnage/tonnage/internal/processtest"
	"github.com/tonnage/tonnage/internal/workload"
	"github.com/tonnage/tonnage/shard/session"
)

var (
	residentRung   = flag.String("resident-rung", "tiny", "calibrated workload of the shard whose memory is looked at")
	residentCycles = flag.Int("resident-cycles", 5, "cycles that it makes with all of the demand before and between two looks")
	residentEvery  = flag.Duration("resident-cycle-interval", 100*time.Millisecond, "time between two of them")
	residentWait   = flag.Duration("resident-wait", 2*time.Minute, "how long the shard may take to read its machines and the demand")
	residentFull   = flag.Bool("resident-full", false, "list all machines in every cycle")
	residentHeap   = flag.String("resident-heap", "", "file for a profile of its heap; empty = none")
)

// residentAim is what the whole process of a shard with 500,000 machines and
// 1,000 sessions should not exceed, bytes.
const residentAim = 512 << 20

// TestResident tells how much memory the process of a shard takes: a rung's
// machines from a provider in a process of its own, a session for each of its
// clusters, and each cluster's own roll-up. Every machine is bound already that
// can be, so that it is the memory of a fleet at work, not of one that is set up.
func TestResident(t *testing.T) {
	t.Parallel()
	r, err := workload.ByName(*residentRung)
	if err != nil {
		t.Fatal(err)
	}
	fleet := workload.Build(r, 1)
	dir := t.TempDir()
	at, sessions := freeport.Take(t), freeport.Take(t)
	processtest.Start(t, "provider", "--listen="+at, "--metrics-addr=0", "--data-dir="+filepath.Join(dir, "provider"), "--latency=1s",
		"--seed-rung="+r.Name, "--seed-start=steady", "--seed=1")
	s := processtest.Start(t, "shard", "--provider-addr="+at, "--listen="+sessions, "--metrics-addr="+freeport.Take(t), "--data-dir="+filepath.Join(dir, "shard"),
		fmt.Sprint("--incremental-reconcile=", !*residentFull), "--cycle-interval="+residentEvery.String())
	processtest.Eventually(t, *residentWait, "the shard lists", func() bool { return s.Get("/readyz") != "" })
	t.Logf("%s: %d machines, %d clusters, %d rows; listed: %s", r.Name, r.Machines(), r.Clusters, fleet.Rows(), residentOf(s))
	holdSessions(t, sessions, fleet)
	t.Logf("every roll-up is acknowledged: %s", residentOf(s))
	for _, when := range []string{"with all of the demand", "later"} {
		from := s.Metric("bigfleet_shard_cycle_duration_seconds_count")
		processtest.Eventually(t, *residentWait, "the shard makes cycles", func() bool {
			return s.Metric("bigfleet_shard_cycle_duration_seconds_count") >= from+float64(*residentCycles)
		})
		t.Logf("%d cycles %s: %s; cycles in all: %.0f full, %.0f checked, %.0f incremental", *residentCycles, when, residentOf(s),
			s.Metric("tonnage_shard_cycles_total", "full"), s.Metric("tonnage_shard_cycles_total", "checked"), s.Metric("tonnage_shard_cycles_total", "incremental"))
	}
	t.Logf("%s of listings were read in %.0f cycles", megabytes(s.Metric("tonnage_shard_provider_list_bytes_total")), s.Metric("bigfleet_shard_cycle_duration_seconds_count"))
	for _, line := range residentSplit(s) {
		t.Log(line)
	}
	if *residentHeap != "" {
		if err := os.WriteFile(*residentHeap, []byte(s.Get("/debug/pprof/heap?gc=1")), 0o644); err != nil {
			t.Error(err)
		}
	}
}

// holdSessions opens a session for each cluster, reports its demand once, waits
// until that is acknowledged, and keeps all sessions until the test is over.
func holdSessions(t *testing.T, address string, fleet *workload.Fleet) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	acks := make(chan error, len(fleet.Clusters()))
	ended := make(chan struct{}, len(fleet.Clusters()))
	for c, name := range fleet.Clusters() {
		rollup := session.AppendRollup(nil, name, 1, fleet.Needs(workload.Steady, c))
		go func() {
			defer func() { ended <- struct{}{} }()
			holdSession(ctx, address, name, rollup, acks)
		}()
	}
	t.Cleanup(func() {
		cancel()
		for range fleet.Clusters() {
			<-ended
		}
	})
	late := time.After(*residentWait)
	for n := range fleet.Clusters() {
		select {
		case err := <-acks:
			if err != nil {
				t.Fatal(err)
			}
		case <-late:
			t.Fatalf("%d of %d roll-ups are acknowledged after %v", n, len(fleet.Clusters()), *residentWait)
		}
	}
}

// holdSession is one operator, whose first and only roll-up is its demand. It
// sends one error or nil on acks.
func holdSession(ctx context.Context, address, cluster string, rollup []byte, acks chan<- error) {
	told := false
	if err := func() error {
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return err
		}
		defer conn.Close()
		stream, err := pb.NewShardClient(conn).Session(ctx, grpc.ForceCodecV2(frames.Codec()))
		if err != nil {
			return err
		}
		var demand pb.ClusterCapacityNeeds
		if err := proto.Unmarshal(rollup, &demand); err != nil {
			return err
		}
		for _, m := range []*pb.OperatorMessage{
			{Payload: &pb.OperatorMessage_Hello{Hello: &pb.Hello{ClusterId: cluster, ProtocolVersion: "v1alpha1"}}},
			{Payload: &pb.OperatorMessage_Rollup{Rollup: &demand}},
		} {
			if err := stream.Send(m); err != nil {
				return err
			}
		}
		x := &operator{all: &operators{}, cluster: cluster, states: map[string]pb.MachineState{}, epochs: map[string]int64{}}
		for {
			m, err := stream.Recv()
			if err != nil || !x.answer(stream, m) {
				return err
			}
			if x.acked > 0 && !told {
				told = true
				acks <- nil
			}
		}
	}(); !told {
		acks <- fmt.Errorf("cluster %s: the session ended: %w", cluster, err)
	}
}

// residentOf is the memory of a process in a line: what the system counts, and
// what the Go runtime says of its own part.
func residentOf(p *processtest.Process) string {
	return fmt.Sprintf("resident %s (aim at the ceiling: %s), at most %s so far; Go heap in use %s, idle and not given back %s, stacks %s; mapped outside the Go heap %s",
		megabytes(float64(p.ResidentBytes())), megabytes(residentAim), megabytes(float64(p.PeakBytes())), megabytes(p.Metric("go_memstats_heap_inuse_bytes")),
		megabytes(max(0, p.Metric("go_memstats_heap_idle_bytes")-p.Metric("go_memstats_heap_released_bytes"))),
		megabytes(p.Metric("go_memstats_stack_inuse_bytes")), megabytes(p.Metric("tonnage_shard_memory_mapped_bytes")))
}

// residentSplit is what the tables and the engine hold, by purpose, largest
// first.
func residentSplit(p *processtest.Process) (out []string) {
	type part struct {
		purpose        string
		used, reserved float64
	}
	var parts []part
	for purpose := range alloc.NumPurposes {
		name := `purpose="` + alloc.Purpose(purpose).String() + `"`
		parts = append(parts, part{alloc.Purpose(purpose).String(), p.Metric("tonnage_shard_memory_bytes", name, `kind="used"`), p.Metric("tonnage_shard_memory_bytes", name, `kind="reserved"`)})
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(b.reserved, a.reserved) })
	for _, x := range parts {
		out = append(out, fmt.Sprintf("%-14s %9s used, %9s reserved", x.purpose, megabytes(x.used), megabytes(x.reserved)))
	}
	return out
}

func megabytes(bytes float64) string { return fmt.Sprintf("%.1f MiB", bytes/(1<<20)) }
