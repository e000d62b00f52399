package main

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"iter"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	tonnage "github.com/tonnage/tonnage/api/tonnage/v1alpha1"
	"github.com/tonnage/tonnage/coordinator"
	"github.com/tonnage/tonnage/coordinator/client"
	"github.com/tonnage/tonnage/coordinator/node"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/fleetview"
	"github.com/tonnage/tonnage/internal/mtls"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/report"
	"github.com/tonnage/tonnage/web"
)

// Several shards and a coordinator in one process. Machines are dealt out by a
// label of their own, rack by rack, clusters by hash; a machine that is bound at
// the start goes where its cluster is. The machines live in memory, so nothing of an earlier run
// is true any more: the coordinator begins anew with each.

const (
	upShardsMax = 8
	// upPoolKey is the topology key by which machines are dealt out.
	upPoolKey = "tonnage.dev/pool"
	upRackKey = "topology.kubernetes.io/rack"
	// upReportGap is the time between reports, upRebalanceGap between passes.
	upReportGap    = time.Second
	upRebalanceGap = 5 * time.Second
	upProviderName = "built-in"
	upCoordinator  = "coordinator" // its folder
	upCallLimit    = 2 * time.Second
)

func upShardName(i int) string { return fmt.Sprintf("shard-%d", i) }

// shardOf returns the number of the shard that something is dealt to.
func shardOf(name string, shards int) int {
	h := fnv.New32a()
	h.Write([]byte(name))
	return int(h.Sum32() % uint32(shards))
}

// dealt gives each machine the label that says whose it is at the start.
func dealt(ms iter.Seq[*model.Machine], shards int) iter.Seq[*model.Machine] {
	return func(yield func(*model.Machine) bool) {
		ms(func(m *model.Machine) bool {
			name := cmp.Or(m.Cluster, m.Labels[upRackKey], m.ID) // racks stay whole
			own := *m
			own.Labels = maps.Clone(m.Labels)
			if own.Labels == nil {
				own.Labels = map[string]string{}
			}
			own.Labels[upPoolKey] = upShardName(shardOf(name, shards))
			return yield(&own)
		})
	}
}

// region is the coordinator of a process with several shards.
type region struct {
	x         *process
	registers []prometheus.Registerer
	ready     chan string // its address
	page      *regionPage
}

// buildRegion makes the shards beside the first, and the page of all.
func (x *process) buildRegion(registry *prometheus.Registry, cfg shard.Config) error {
	n := x.plan.shards
	x.region = &region{x: x, ready: make(chan string, 1), page: newRegionPage(x.feed, n)}
	for i := range n {
		r := prometheus.WrapRegistererWith(prometheus.Labels{"shard": upShardName(i)}, registry)
		x.region.registers = append(x.region.registers, r)
		watch := fleetview.Config{Publish: x.region.page.of(i), Failed: func() int64 { return 0 }, Album: &x.album, HistoryBytes: fleetview.HistoryBytesMax / n}
		if i == 0 {
			watch.Failed, watch.Progress = x.fleet.failed.Load, x.sayProgress
		}
		page := fleetview.NewRecorder(watch)
		x.pages = append(x.pages, page)
		s, err := shard.New(cfg, shard.Deps{
			Provider: x.fleet, Switches: x.switches(), Registerer: r, Log: x.log.With("shard", upShardName(i)), Clock: clock,
			Observer: page.Observe, Running: page.Running, Decided: page.Decided, Differed: x.keepDiffering,
		})
		if err != nil {
			return err
		}
		if err := s.AssignDomain(shard.Domain{Key: upPoolKey, Value: upShardName(i)}); err != nil {
			return err
		}
		x.shards = append(x.shards, s)
	}
	return nil
}

// coordinate runs the coordinator.
func (g *region) coordinate(ctx context.Context) error {
	dir := filepath.Join(g.x.plan.dataDir, upCoordinator)
	if err := os.RemoveAll(dir); err != nil {
		return badInput(fmt.Errorf("--data-dir: %w; name a folder that can be written", err))
	}
	raft, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	bind := raft.Addr().String()
	raft.Close() // the member listens itself
	c := node.DefaultConfig()
	c.Listen, c.MetricsAddr, c.RaftBind, c.DataDir, c.Bootstrap = "127.0.0.1:0", metricsOff, bind, dir, true
	c.Rebalance, c.RebalanceInterval = string(coordinator.RebalanceOn), g.x.plan.rebalanceGap
	return node.Run(ctx, c, g.x.log.With("part", "coordinator"), func(at node.Started) { g.ready <- at.Address })
}

// takePart lets the shards report, tells the coordinator what each has, and
// keeps the page's view of it.
func (g *region) takePart(ctx context.Context) error {
	var address string
	select {
	case address = <-g.ready:
	case <-ctx.Done():
		return nil
	}
	g.x.console.print("coordinator at %s  (tonnage ctl --coordinator %s rebalance --why)", address, address)
	dial := append((*mtls.Material)(nil).DialOptions(), grpc.WithNoProxy())
	c, err := client.New(address, dial...)
	if err != nil {
		return err
	}
	defer c.Close()
	ended := make(chan error, len(g.x.shards))
	for i, s := range g.x.shards {
		r, err := report.New(report.Options{
			Shard: s, Owner: s, ID: upShardName(i), Addresses: []string{address}, Advertise: upShardName(i), Provider: upProviderName,
			Interval: g.x.plan.reportGap, Dial: dial, Log: slog.New(slog.DiscardHandler), Metrics: report.NewMetrics(g.registers[i]),
		})
		if err != nil {
			return err
		}
		go func() { ended <- r.Run(ctx) }()
	}
	tick := time.NewTicker(g.x.plan.reportGap)
	defer tick.Stop()
	for assigned := 0; ; {
		if assigned < len(g.x.shards) && g.assign(ctx, c, assigned) {
			assigned++
			continue
		}
		g.look(ctx, c)
		select {
		case <-ctx.Done():
			for range g.x.shards {
				if err := <-ended; err != nil {
					g.x.log.Debug("a shard's reports have ended", "error", err)
				}
			}
			return nil
		case <-tick.C:
		}
	}
}

// call makes one call on the coordinator; it is made again in a moment anyway.
func (g *region) call(ctx context.Context, c *client.Client, do func(context.Context, grpc.ClientConnInterface) error) error {
	ctx, cancel := context.WithTimeout(ctx, upCallLimit)
	defer cancel()
	return c.Call(ctx, do)
}

// assign tells the coordinator what a shard has; not before it has registered.
func (g *region) assign(ctx context.Context, c *client.Client, i int) bool {
	return g.call(ctx, c, func(ctx context.Context, conn grpc.ClientConnInterface) error {
		_, err := bigfleet.NewCoordinatorClient(conn).AssignDomain(ctx, &bigfleet.AssignDomainRequest{
			TopologyKey: upPoolKey, TopologyValue: upShardName(i), ShardId: upShardName(i),
		})
		return err
	}) == nil
}

// look asks what the coordinator decided.
func (g *region) look(ctx context.Context, c *client.Client) {
	var got *tonnage.RebalancingReply
	err := g.call(ctx, c, func(ctx context.Context, conn grpc.ClientConnInterface) (err error) {
		got, err = tonnage.NewFleetClient(conn).Rebalancing(ctx, &tonnage.RebalancingRequest{})
		return err
	})
	if err != nil {
		return
	}
	moves := got.GetMoves()
	shown := make([]web.RegionMove, 0, web.MaxMoves)
	total := 0
	for i := len(moves) - 1; i >= 0; i-- {
		m := moves[i]
		if p := coordinator.Phase(m.GetPhase()); p == coordinator.Adopted || p == coordinator.Settled {
			total += len(m.GetMachineIds())
		}
		kind, _, _ := strings.Cut(m.GetMachineKind(), " ") // its labels are for the tools
		if len(shown) < web.MaxMoves {
			shown = append(shown, web.RegionMove{
				At: m.GetBeganUnixNanos() / 1e6, From: m.GetDonor(), To: m.GetReceiver(), Kind: kind,
				Count: len(m.GetMachineIds()), Tier: coordinator.Tier(m.GetTier()).String(), Phase: m.GetPhase(),
			})
		}
	}
	g.page.moved(shown, total)
}
