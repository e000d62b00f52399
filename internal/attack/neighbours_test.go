package attack_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/internal/freeport"
	"github.com/tonnage/tonnage/internal/processtest"
)

// What a tenant may cost its neighbours: 99 of 100 acknowledgements take at most
// neighboursTimesMax times as long beside it as without it, where both were measured
// in turns in one run.
const (
	neighboursTimesMax = 5
	// neighboursFloor is how long they may take whatever the factor is. Alone, an
	// acknowledgement takes about a millisecond, and one that finds every core at work
	// waits for one or two time slices of 10 ms: that of the Go scheduler, whose poller
	// then looks at connections every 10 ms too, and that of the kernel. So the factor
	// says something only where the machine is slow for others' sake.
	neighboursFloor = 50 * time.Millisecond
	// neighboursTurns is how often each is measured, so that what else the machine
	// does weighs on both.
	neighboursTurns = 3
)

const (
	// The tenant's roll-up: as many gangs and rows as a cluster may have.
	tenantGangs = 4_096
	tenantRows  = 32_768
	// The machines: fewer than the gangs ask for, so that they contend.
	tenantRacks, tenantMachines = 64, 2_048
	// The neighbours that are watched.
	neighbours = 20
)

// encoded sends messages that are encoded already, so that the attack costs little
// beside the shard that is looked at.
type encoded struct{ encoding.CodecV2 }

func (c encoded) Marshal(v any) (mem.BufferSlice, error) {
	if b, ok := v.([]byte); ok {
		return mem.BufferSlice{mem.SliceBuffer(b)}, nil
	}
	return c.CodecV2.Marshal(v)
}

func encodedFrame(t testing.TB, m *pb.OperatorMessage) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func helloFrame(cluster string) *pb.OperatorMessage {
	return &pb.OperatorMessage{Payload: &pb.OperatorMessage_Hello{Hello: &pb.Hello{ClusterId: cluster, ProtocolVersion: "v1alpha1"}}}
}

func rollupOf(cluster string, needs []*pb.CapacityNeed) *pb.OperatorMessage {
	return &pb.OperatorMessage{Payload: &pb.OperatorMessage_Rollup{Rollup: &pb.ClusterCapacityNeeds{ClusterId: cluster, TimestampUnixNanos: 1, Needs: needs}}}
}

func cpus(n int) map[string]string { return map[string]string{"cpu": fmt.Sprint(n)} }

// contendedFleet writes machines in racks; a bystander has every other one.
func contendedFleet(t testing.TB) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(`{"machines":[`)
	for i := range tenantMachines {
		if i > 0 {
			b.WriteByte(',')
		}
		state := `"Idle"`
		if i%2 == 0 {
			state = `"Configured","cluster":"bystander"`
		}
		fmt.Fprintf(&b, `{"id":"m-%05d","state":%s,"instanceType":"type-%d","capacityType":"BareMetal","zone":"z%d","pricePerHour":1,"resources":{"cpu":"16"},"labels":{"rack":"r%d"}}`,
			i, state, i/2%8, i/2%4, i/2%tenantRacks)
	}
	b.WriteString(`],"needs":[]}`)
	path := filepath.Join(t.TempDir(), "world.json")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// tenantNeeds is the largest roll-up that a cluster may report: gangs that no rack can
// hold all of, at many priorities, and plain rows of many sizes. Variants differ in
// every row.
func tenantNeeds(variant int) []*pb.CapacityNeed {
	needs := make([]*pb.CapacityNeed, 0, tenantRows)
	for i := range tenantGangs {
		needs = append(needs, &pb.CapacityNeed{
			Requirements: []*pb.NodeSelectorRequirement{
				{Key: "rack", Operator: pb.NodeSelectorRequirement_OPERATOR_SAME},
				{Key: "node.kubernetes.io/instance-type", Operator: pb.NodeSelectorRequirement_OPERATOR_IN, Values: []string{fmt.Sprint("type-", i%8), fmt.Sprint("type-", (i+1+i/8)%8)}},
			},
			Spread:             []*pb.TopologySpread{{TopologyKey: "topology.kubernetes.io/zone", MaxSkew: 1, WhenUnsatisfiable: pb.TopologySpread_WHEN_UNSATISFIABLE_DO_NOT_SCHEDULE}},
			AggregateResources: cpus(16 * (2 + (i+variant)%6)), MinUnit: cpus(16), Group: fmt.Sprint("gang-", i), Priority: int32(1000 + (i+variant)%64),
			InterruptionPenaltyBucket: pb.PenaltyBucket_PENALTY_BUCKET_1, ReclamationPenaltyBucket: pb.PenaltyBucket_PENALTY_BUCKET_1,
		})
	}
	for i := tenantGangs; i < tenantRows; i++ {
		needs = append(needs, &pb.CapacityNeed{
			Requirements: []*pb.NodeSelectorRequirement{
				{Key: "topology.kubernetes.io/zone", Operator: pb.NodeSelectorRequirement_OPERATOR_IN, Values: []string{fmt.Sprint("z", i%4), fmt.Sprint("none-", i%900)}},
			},
			AggregateResources: cpus(1 + (i+variant)%48), MinUnit: cpus(1 + i%16), Group: fmt.Sprint("job-", i), Priority: int32(1 + (i*7+variant)%900),
			InterruptionPenaltyBucket: pb.PenaltyBucket_PENALTY_BUCKET_1, ReclamationPenaltyBucket: pb.PenaltyBucket_PENALTY_BUCKET_1,
		})
	}
	return needs
}

// bystander reports rows of low priority that keep its machines, which the tenant's
// gangs would preempt.
func bystander(t *testing.T, address string) {
	t.Helper()
	var needs []*pb.CapacityNeed
	for i := range tenantMachines / 2 {
		needs = append(needs, &pb.CapacityNeed{AggregateResources: cpus(16), MinUnit: cpus(16), Priority: 10, Group: fmt.Sprint("pod-", i)})
	}
	s, err := openSession(t.Context(), address, "bystander")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.conn.Close() })
	if err := s.stream.SendMsg(encodedFrame(t, rollupOf("bystander", needs))); err != nil {
		t.Fatal(err)
	}
	if err := s.acknowledged(); err != nil {
		t.Fatal(err)
	}
}

// operatorSession is a session over a connection of its own.
type operatorSession struct {
	conn   *grpc.ClientConn
	stream grpc.BidiStreamingClient[pb.OperatorMessage, pb.ShardMessage]
}

func openSession(ctx context.Context, address, cluster string) (*operatorSession, error) {
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	stream, err := pb.NewShardClient(conn).Session(ctx, grpc.ForceCodecV2(encoded{encoding.GetCodecV2(protocodec.Name)}))
	if err == nil {
		err = stream.SendMsg(helloFrame(cluster))
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &operatorSession{conn, stream}, nil
}

// acknowledged reads on until a roll-up is acknowledged.
func (s *operatorSession) acknowledged() error {
	for {
		m, err := s.stream.Recv()
		if err != nil || m.GetAck().GetEcho() == "rollup" {
			return err
		}
	}
}

// watchNeighbours has clusters report for a while, each about once a second, and
// returns how long the acknowledgements took.
func watchNeighbours(t *testing.T, address, name string, rounds int) []time.Duration {
	t.Helper()
	const every = 1100 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var mu sync.Mutex
	var took []time.Duration
	var all sync.WaitGroup
	for i := range neighbours {
		cluster := fmt.Sprintf("%s-%02d", name, i)
		frames := make([][]byte, rounds)
		for round := range frames {
			need := &pb.CapacityNeed{AggregateResources: cpus(16 + round), MinUnit: cpus(16), Priority: 5000}
			frames[round] = encodedFrame(t, rollupOf(cluster, []*pb.CapacityNeed{need}))
		}
		all.Go(func() {
			s, err := openSession(ctx, address, cluster)
			if err != nil {
				t.Error(err)
				return
			}
			defer s.conn.Close()
			tick := time.NewTimer(time.Duration(i) * every / neighbours)
			defer tick.Stop()
			for _, frame := range frames {
				<-tick.C
				tick.Reset(every)
				began := time.Now()
				if err := s.stream.SendMsg(frame); err != nil {
					t.Error(err)
					return
				}
				if err := s.acknowledged(); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				took = append(took, time.Since(began))
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return took
}

// attackAsTenant reports the largest roll-up again and again, another one each time, over
// ever new sessions, and answers nothing that it is asked. It tells of each that was
// acknowledged.
func attackAsTenant(ctx context.Context, address string, frames [][]byte, acked func()) {
	for n := 0; ctx.Err() == nil; {
		s, err := openSession(ctx, address, "tenant")
		if err != nil {
			return
		}
		for range 4 {
			if s.stream.SendMsg(frames[n%len(frames)]) != nil || s.acknowledged() != nil {
				break
			}
			acked()
			n++
		}
		s.conn.Close()
	}
}

// besideTenant runs watch while the tenant attacks, from its first acknowledgement on,
// then has it report nothing, and returns how many of its roll-ups were acknowledged.
func besideTenant(t *testing.T, address string, frames [][]byte, watch func()) (acks int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := make(chan struct{})
	var attacker sync.WaitGroup
	attacker.Go(func() {
		attackAsTenant(ctx, address, frames, func() {
			if acks++; acks == 1 {
				close(first)
			}
		})
	})
	select {
	case <-first:
	case <-time.After(time.Minute):
		t.Fatal("the tenant's roll-up is not acknowledged")
	}
	watch()
	cancel()
	attacker.Wait()
	s, err := openSession(t.Context(), address, "tenant")
	if err != nil {
		t.Fatal(err)
	}
	defer s.conn.Close()
	if err := s.stream.SendMsg(encodedFrame(t, rollupOf("tenant", nil))); err != nil {
		t.Fatal(err)
	}
	if err := s.acknowledged(); err != nil {
		t.Fatal(err)
	}
	return acks
}

// TestNoisyNeighbour: a tenant that does the worst that its limits allow does not
// make the shard's answers to others slow.
func TestNoisyNeighbour(t *testing.T) {
	if processtest.Race {
		t.Skip("measures times, which the race detector makes longer")
	}
	rounds := 3
	if *soak {
		rounds = 30
	}
	dir := t.TempDir()
	provider, sessions := freeport.Take(t), freeport.Take(t)
	source := processtest.Start(t, "provider", "--listen="+provider, "--metrics-addr=0", "--data-dir="+filepath.Join(dir, "provider"), "--latency=5ms", "--seed-file="+contendedFleet(t))
	shard := processtest.Start(t, "shard", "--provider-addr="+provider, "--listen="+sessions, "--metrics-addr="+freeport.Take(t), "--data-dir="+filepath.Join(dir, "shard"), "--log-level=error")
	processtest.Eventually(t, time.Minute, "the shard lists", func() bool { return shard.Get("/readyz") != "" })
	frames := [][]byte{encodedFrame(t, rollupOf("tenant", tenantNeeds(0))), encodedFrame(t, rollupOf("tenant", tenantNeeds(1)))}
	cycles := func() float64 { return shard.Metric("bigfleet_shard_cycle_duration_seconds_count") }

	bystander(t, sessions)
	watchNeighbours(t, sessions, "warm", 1)
	var alone, beside []time.Duration
	acks, began := 0, processorsNow(t, source, shard)
	for range neighboursTurns {
		calm := cycles() + 2 // the first of them may have begun with the tenant's rows
		processtest.Eventually(t, time.Minute, "the shard has decided without the tenant", func() bool { return cycles() >= calm })
		alone = append(alone, watchNeighbours(t, sessions, "alone", rounds)...)
		acks += besideTenant(t, sessions, frames, func() {
			beside = append(beside, watchNeighbours(t, sessions, "beside", rounds)...)
		})
	}
	if acks <= neighboursTurns {
		t.Errorf("%d of the tenant's roll-ups were acknowledged in %d turns: it does not attack", acks, neighboursTurns)
	}
	p99 := func(took []time.Duration) time.Duration {
		slices.Sort(took)
		return took[len(took)*99/100]
	}
	without, with, others := p99(alone), p99(beside), processorsNow(t, source, shard).othersSince(began)
	t.Logf("acknowledged after, %d of each: alone %v (median), %v (99 of 100); beside the tenant %v, %v, %.1f times as long; the tenant sent %d bytes %d times; %v cycles of %.0f ms on average; others used %.2f of %d processors",
		len(alone), alone[len(alone)/2], without, beside[len(beside)/2], with, float64(with)/float64(without), len(frames[0]), acks,
		cycles(), 1000*shard.Metric("bigfleet_shard_cycle_duration_seconds_sum")/max(cycles(), 1), others, runtime.NumCPU())
	switch limit := max(neighboursTimesMax*without, neighboursFloor); {
	case with <= limit:
	case others > othersShareMax*float64(runtime.NumCPU()):
		t.Logf("not judged, since others kept the machine busy: it would be at most %v", limit)
	default:
		t.Errorf("beside the tenant 99 of 100 acknowledgements take %v, want at most %v: %d times the %v without it, or %v", with, limit, neighboursTimesMax, without, neighboursFloor)
	}
}
