package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/tonnage/tonnage/coordinator"
	"github.com/tonnage/tonnage/coordinator/node"
)

func newCoordinator(s streams) *cobra.Command {
	c := node.DefaultConfig()
	var logLevel string
	cmd := &cobra.Command{
		Use:   "coordinator",
		Short: "Run a replica of the coordinator: it assigns domains to shards and moves machines between them",
		Long: `Coordinator keeps what concerns several shards: which of them are there, which
domains they have, and what they are short of. With --rebalance=on it lets machines
that one shard can spare change to another that is short. Shards never wait for it.

One, three or five replicas form a group and keep everything on each of their disks
(--data-dir). Start all alike, with --bootstrap and --join-addr: the one whose --id
ends in -0 starts the group when no other has state, the others join. Or use an etcd
that is there (--etcd-endpoints).

All three --tls flags turn mutual TLS on; none leaves it off. Several replicas then
need the three --raft-tls flags too, with a CA that signs nothing else: whoever has a
certificate of it can stop the group. A replica without them opens no Raft port. In
the same way the three --etcd-tls flags are for --etcd-endpoints.`,
		Example: `  tonnage coordinator --bootstrap
  tonnage coordinator --id coordinator-1 --bootstrap --join-addr coordinator:7790 --raft-advertise coordinator-1.coordinator:7791
  tonnage coordinator --etcd-endpoints 10.0.0.1:2379,10.0.0.2:2379 --rebalance on`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runCoordinator(cmd.Context(), s, c, logLevel)
		},
	}
	registerCoordinator(cmd, &c, &logLevel)
	return cmd
}

func registerCoordinator(cmd *cobra.Command, c *node.Config, logLevel *string) {
	flags := cmd.Flags()
	flags.StringVar(&c.Listen, "listen", c.Listen, listenUsage+hereMark+"for shards and tools")
	flags.StringVar(&c.MetricsAddr, "metrics-addr", c.MetricsAddr, "address of /metrics, /healthz and /readyz; 0 = none")
	flags.StringVar(&c.RaftBind, "raft-bind", c.RaftBind, "address for the other replicas")
	flags.StringVar(&c.RaftAdvertise, "raft-advertise", c.RaftAdvertise, raftAdvertiseUsage+hereMark+"empty = --raft-bind")
	flags.StringVar(&c.Advertise, "advertise-addr", c.Advertise, advertiseUsage+hereMark+"empty = the host of --raft-advertise with the port of --listen")
	flags.StringVar(&c.ID, "id", c.ID, idUsage)
	flags.StringVar(&c.DataDir, "data-dir", c.DataDir, dataDirUsage+hereMark+"it is created")
	flags.BoolVar(&c.Bootstrap, "bootstrap", c.Bootstrap, "start a group when there is none; with --join-addr only the replica whose --id ends in -0 does, and only while no other has state")
	flags.StringVar(&c.JoinAddr, "join-addr", c.JoinAddr, "where other replicas listen for shards and tools; several with commas between, or a name that stands for all")
	flags.StringSliceVar(&c.EtcdEndpoints, "etcd-endpoints", nil, "keep everything in this etcd, instead of a group of the replicas' own; host:port, with commas between")
	flags.StringVar(&c.Rebalance, "rebalance", c.Rebalance, "let machines change shards: off, dry-run (decide and explain only) or on")
	flags.DurationVar(&c.RebalanceInterval, "rebalance-interval", c.RebalanceInterval, "time between two passes; about five reports of a shard")
	flags.StringVar(&c.SnapshotExportDir, "snapshot-export-dir", "", "folder in which the leader keeps snapshots; empty = none")
	flags.DurationVar(&c.SnapshotExportInterval, "snapshot-export-interval", 0, fmt.Sprintf("time between two of them; 0 = %v", node.ExportIntervalDefault))
	flags.IntVar(&c.SnapshotExportKeep, "snapshot-export-keep", c.SnapshotExportKeep, "how many of them are kept; older ones are removed")
	inboundFlags(cmd, &c.Inbound)
	flags.StringVar(logLevel, "log-level", "info", "what is logged to standard error: debug, info, warn or error")
	tlsFlags(cmd, &c.TLS)
	privateFlags(cmd, &c.RaftTLS, "the Raft port and for dialling the other replicas there", "the replicas' certificates for the Raft port; it signs nothing else; read at the start")
	privateFlags(cmd, &c.EtcdTLS, "--etcd-endpoints", "the etcd of --etcd-endpoints; read at the start")
	_ = cmd.MarkFlagDirname("data-dir")
	_ = cmd.MarkFlagDirname("snapshot-export-dir")
	modes := []string{string(coordinator.RebalanceOff), string(coordinator.RebalanceDryRun), string(coordinator.RebalanceOn)}
	_ = cmd.RegisterFlagCompletionFunc("rebalance", cobra.FixedCompletions(modes, cobra.ShellCompDirectiveNoFileComp))
}

// When garbage is collected. A collection takes tens of milliseconds on both of
// two cores, and the reports that come meanwhile wait for it. With 200 shards the
// state is some 30 MB, so that there is room for collecting a quarter as often as
// Go does by itself. It collects as often as Go does when more is alive than half
// of the heap's floor, so that a flood of requests does not take five times the
// memory that they hold.
const (
	coordinatorGCPercent    = 400
	coordinatorGCPercentMin = 100
	coordinatorHeapFloor    = 128 << 20 // bytes that the heap may have before garbage is collected
	coordinatorMemoryTarget = 768 << 20 // bytes; the chart grants 1 GiB
)

// coordinatorPercent returns how much may be allocated until the next collection,
// in percent of what is alive.
func coordinatorPercent(live uint64) int {
	percent := 100*coordinatorHeapFloor/max(int(live), 1) - 100
	return min(max(percent, coordinatorGCPercentMin), coordinatorGCPercent)
}

// collectSeldom sets both, unless GOGC or GOMEMLIMIT do.
func collectSeldom() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(coordinatorGCPercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(coordinatorMemoryTarget)
	}
}

func runCoordinator(ctx context.Context, s streams, c node.Config, logLevel string) error {
	var level slog.Level
	faults := []error{c.Validate()}
	if err := level.UnmarshalText([]byte(logLevel)); err != nil {
		faults = append(faults, fmt.Errorf("--log-level must be debug, info, warn or error, got %q", logLevel))
	}
	faults = append(faults, c.CheckTLS())
	if err := errors.Join(faults...); err != nil {
		return badInput(err)
	}
	if len(c.EtcdEndpoints) == 0 { // two of them may have one folder: they keep nothing there
		dir, err := openDataDir(c.DataDir)
		if err != nil {
			return err
		}
		defer dir.close()
	}
	collectSeldom()
	c.GCPercent = coordinatorPercent
	log := slog.New(slog.NewTextHandler(s.err, &slog.HandlerOptions{Level: level}))
	err := node.Run(ctx, c, log, func(at node.Started) {
		log.Info("listening", "replica", c.ID, "address", at.Address, "metrics", at.MetricsAddr, "rebalance", c.Rebalance)
	})
	if fault, ok := errors.AsType[*node.FlagError](err); ok {
		if op, ok := errors.AsType[*net.OpError](fault.Err); ok {
			return listenFault(fault.Flag, fault.Value, op)
		}
		return badInput(fault)
	}
	return err
}
