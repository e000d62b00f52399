package faults

import (
	"context"
	"flag"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	tonnage "github.com/tonnage/tonnage/api/tonnage/v1alpha1"
	"github.com/tonnage/tonnage/internal/freeport"
)

var (
	domains = flag.Int("domains", 1000, "domains that are assigned before reports are timed")
	writes  = flag.Int("writes", 10, "commands a second that change something while reports are timed")
)

// The fleet that a coordinator is sized for.
const (
	shardsTimed     = 200
	reportEvery     = 10 * time.Second
	shortfallsTimed = 100
	offersTimed     = 64
	machinesTimed   = 20
)

// BenchmarkReports has 200 shards report and offer every ten seconds to three
// replicas on loopback, and tells how long each call took: by the caller's clock,
// where the caller, the other replicas and the leader share the processor, and by
// the leader's own, from the head of the call to the end of its answer. It takes
// b.N reports: -benchtime 400x is twenty seconds.
func BenchmarkReports(b *testing.B) {
	g := &group{t: b, dial: plaintext()}
	ports := freeport.TakeN(b, 9)
	for i := range 3 {
		g.nodes = append(g.nodes, &node{id: fmt.Sprintf("c-%d", i), listen: ports[i], raft: ports[3+i], metrics: ports[6+i], dir: b.TempDir()})
	}
	g.startAll()
	conn, err := grpc.NewClient(g.leader(g.nodes...).listen, g.dial...)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	for i := range shardsTimed {
		report(b, conn, i, 1)
	}
	assignMany(b, conn)
	for cycle := range int64(2) { // they learn of their domains, and say so
		for i := range shardsTimed {
			report(b, conn, i, 2+cycle)
		}
	}
	leader := g.leader(g.nodes...)
	before := leader.get("/metrics")
	var mu sync.Mutex
	var took [2][]time.Duration
	b.ResetTimer()
	stop := change(b, conn)
	tick := time.NewTicker(reportEvery / shardsTimed)
	defer tick.Stop()
	var all sync.WaitGroup
	for n := range b.N {
		<-tick.C
		all.Go(func() {
			r, o := report(b, conn, n%shardsTimed, int64(4+n/shardsTimed))
			mu.Lock()
			defer mu.Unlock()
			took[0], took[1] = append(took[0], r), append(took[1], o)
		})
	}
	all.Wait()
	b.StopTimer()
	stop()
	after := leader.get("/metrics")
	for i, name := range []string{"report", "offer"} {
		slices.Sort(took[i])
		at := func(q float64) float64 { return float64(took[i][int(q*float64(len(took[i])-1))].Microseconds()) / 1000 }
		b.ReportMetric(at(0.5), name+"-p50-ms")
		b.ReportMetric(at(0.99), name+"-p99-ms")
		b.ReportMetric(1000*histogramQuantile(before, after, "tonnage_coordinator_handling_seconds", `call="`+name+`"`, 0.99), name+"-leader-p99-ms")
	}
}

// histogramQuantile reads a quantile off a histogram, of what came between two
// pages of metrics: within a bucket it takes the times to be spread evenly.
func histogramQuantile(before, after, name, label string, q float64) float64 {
	line := regexp.MustCompile(`(?m)^` + name + `_bucket\{` + label + `,le="([^"]+)"\} (\d+)$`)
	read := func(page string) (ends, counts []float64) {
		for _, m := range line.FindAllStringSubmatch(page, -1) {
			end, _ := strconv.ParseFloat(m[1], 64)
			n, _ := strconv.ParseFloat(m[2], 64)
			ends, counts = append(ends, end), append(counts, n)
		}
		return ends, counts
	}
	_, old := read(before)
	ends, counts := read(after)
	if len(ends) == 0 || len(old) != len(ends) {
		return math.NaN()
	}
	rank := q * (counts[len(counts)-1] - old[len(old)-1])
	low, below := 0.0, 0.0
	for i, end := range ends {
		n := counts[i] - old[i]
		if n >= rank {
			return low + (end-low)*(rank-below)/max(n-below, 1)
		}
		low, below = end, n
	}
	return math.NaN()
}

// change gives a domain to a shard and takes it again, until it is stopped: each
// is a commit, and reports come in between.
func change(b *testing.B, conn grpc.ClientConnInterface) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		if *writes == 0 {
			return
		}
		k := bigfleet.NewCoordinatorClient(conn)
		tick := time.NewTicker(time.Second / time.Duration(*writes))
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			var err error
			if n%2 == 0 {
				_, err = k.AssignDomain(ctx, &bigfleet.AssignDomainRequest{TopologyKey: "rack", TopologyValue: "changes", ShardId: "s-0"})
			} else {
				_, err = k.UnassignDomain(ctx, &bigfleet.UnassignDomainRequest{TopologyKey: "rack", TopologyValue: "changes"})
			}
			if err != nil && ctx.Err() == nil {
				b.Error(err)
			}
		}
	})
	return func() {
		cancel()
		done.Wait()
	}
}

// toldTo are the instructions that a shard was told and has yet to acknowledge.
var toldTo sync.Map

// report makes one report and one offer, and acknowledges what it was told last.
func report(b *testing.B, conn grpc.ClientConnInterface, shard int, cycle int64) (reported, offered time.Duration) {
	r := &bigfleet.ShardReport{ShardId: fmt.Sprintf("s-%d", shard), ShardEpoch: 1, Cycle: cycle, TimestampUnixNanos: cycle, Summary: &bigfleet.ShardSummary{ProviderAddress: "p:1"}}
	for k := range shortfallsTimed {
		r.Shortfalls = append(r.Shortfalls, &bigfleet.Shortfall{
			Requirements: []*bigfleet.NodeSelectorRequirement{{Key: "node.kubernetes.io/instance-type", Operator: bigfleet.NodeSelectorRequirement_OPERATOR_IN, Values: []string{fmt.Sprintf("type-%d", k)}}},
			Deficit:      &bigfleet.Resources{Resources: map[string]string{"cpu": "1000", "memory": "4Ti"}}, Priority: int32(k), AgeCycles: int32(cycle),
		})
	}
	o := &tonnage.OfferRequest{ShardId: r.GetShardId(), ShardEpoch: 1}
	for k := range offersTimed {
		x := &tonnage.Offer{
			State: bigfleet.MachineState_MACHINE_STATE_IDLE, InstanceType: fmt.Sprintf("kind-%d", k), Zone: "zone-a", Count: machinesTimed,
			Allocatable: &bigfleet.Resources{Resources: map[string]string{"cpu": "4", "memory": "16Gi"}},
		}
		for m := range machinesTimed {
			x.MachineIds = append(x.MachineIds, fmt.Sprintf("machine-%d-%d-%d", shard, k, m))
		}
		o.Offers = append(o.Offers, x)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if ids, told := toldTo.LoadAndDelete(shard); told {
		for _, id := range ids.([]string) {
			r.InstructionAcks = append(r.InstructionAcks, &bigfleet.InstructAck{InstructionId: id, Outcome: bigfleet.InstructAck_OUTCOME_ACCEPTED})
		}
	}
	began := time.Now()
	ack, err := bigfleet.NewCoordinatorClient(conn).ReportShard(ctx, r)
	if err != nil {
		b.Error(err)
	}
	reported = time.Since(began)
	var ids []string
	for _, i := range ack.GetInstructions() {
		ids = append(ids, i.GetInstructionId())
	}
	if len(ids) > 0 {
		toldTo.Store(shard, ids)
	}
	began = time.Now()
	if _, err := tonnage.NewFleetClient(conn).Offer(ctx, o); err != nil {
		b.Error(err)
	}
	return reported, time.Since(began)
}

// assignMany assigns the domains, many at a time.
func assignMany(b *testing.B, conn grpc.ClientConnInterface) {
	var all sync.WaitGroup
	for w := range 64 {
		all.Go(func() {
			for i := w; i < *domains; i += 64 {
				ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
				_, err := bigfleet.NewCoordinatorClient(conn).AssignDomain(ctx, &bigfleet.AssignDomainRequest{
					TopologyKey: "rack", TopologyValue: fmt.Sprintf("rack-%06d", i), ShardId: fmt.Sprintf("s-%d", i%shardsTimed),
				})
				cancel()
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}
