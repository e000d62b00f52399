package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/mtls"
	"github.com/tonnage/tonnage/provider/simulated"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/provider/client"
	"github.com/tonnage/tonnage/shard/report"
)

// seedLatency is how long machines in memory take over a change.
const seedLatency = 100 * time.Millisecond

// provider returns what drives the machines.
func (x *shardProcess) provider() (shard.Provider, error) {
	if x.plan.provider == "" {
		return x.plan.seed.fleet()
	}
	return x.dialProvider()
}

// createLatencyVariable says how long machines in memory take over Create, as
// scripts of the public project set it.
const createLatencyVariable = "BIGFLEET_FAKE_CREATE_LATENCY"

// fleet makes the machines in memory.
func (f *seedFlags) fleet() (shard.Provider, error) {
	at := simulated.Latency{Min: seedLatency, Max: seedLatency}
	create := at
	if text := os.Getenv(createLatencyVariable); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return nil, badInput(fmt.Errorf("%s must be a time such as 2s, got %q", createLatencyVariable, text))
		}
		create = simulated.Latency{Min: d, Max: d}
	}
	cfg := simulated.Config{
		Latencies: simulated.Latencies{Create: create, Configure: at, Drain: at, Delete: at},
		Seed:      1, Now: clock().UnixNano(), Machines: f.list(),
	}
	if f.failures > 0 {
		cfg.Faults = []simulated.Fault{{Op: shard.OpAny, Probability: f.failures}}
	}
	fleet, err := simulated.New(cfg)
	if err != nil {
		return nil, err
	}
	return &clockedFleet{Fleet: fleet, now: clock}, nil
}

// list makes the records of the machines in memory.
func (f *seedFlags) list() (out []model.Machine) {
	add := func(n int, prefix string, m model.Machine) {
		for i := range n {
			m.ID, m.Zone = fmt.Sprintf("%s-%06d", prefix, i), string(rune('a'+i%3))
			out = append(out, m)
		}
	}
	m := model.Machine{
		InstanceType: "standard-16", CapacityType: model.OnDemand, PricePerHour: 0.80,
		Resources: model.NewResources(model.Amount{Name: "cpu", Value: 16_000}, model.Amount{Name: "memory", Value: 64 << 30}),
	}
	idle, slot, spot, bound := m, m, m, m
	idle.State, slot.State, spot.State, bound.State = model.Idle, model.Speculative, model.Speculative, model.Configured
	spot.CapacityType, spot.PricePerHour, spot.InterruptionProbability = model.Spot, 0.25, 0.05
	add(f.machines, "idle", idle)
	add(f.speculative, "slot", slot)
	add(f.spot, "spot", spot)
	for c := range f.clusters {
		bound.Cluster = fmt.Sprintf("cluster-%d", c*max(f.stride, 1))
		add(f.configured, bound.Cluster, bound)
	}
	return out
}

// operators returns what asks the clusters' operators.
func (x *shardProcess) operators() shard.Operators {
	if x.plan.local {
		return localBootstrap{x.sessions}
	}
	return x.sessions
}

// localBootstrap binds machines without asking anybody how they join.
type localBootstrap struct{ shard.Operators }

// localBlob is what such a machine is told.
const localBlob = "#cloud-config\n"

func (localBootstrap) Connected(string) bool { return true }

func (localBootstrap) Bootstrap(context.Context, string, *model.Profile) (shard.Blob, error) {
	return shard.Blob{Data: []byte(localBlob)}, nil
}

// keepDiffering keeps the input of a cycle that gave two answers.
func (x *shardProcess) keepDiffering(cycle uint64, in engine.Input) (string, error) {
	dir := dataDir{path: x.plan.dataDir}
	return dir.keepInput(cycle, in, x.plan.shard.Engine)
}

// dialProvider makes the client of a provider in another process. It connects
// when it is called, and anew whenever the provider was not there.
func (x *shardProcess) dialProvider() (shard.Provider, error) {
	c, err := client.New(client.Options{
		Address: x.plan.provider, Shard: x.plan.id, Epoch: x.epoch, TLS: x.tls, Server: x.plan.providerServer, Cursors: !x.plan.shard.AlwaysFull,
		CallTimeout: x.plan.shard.CallTimeout, ListTimeout: x.plan.shard.ListTimeout, Log: x.log, Metrics: client.NewMetrics(x.registry),
	})
	if err != nil {
		return nil, err
	}
	x.later(c.Close)
	x.renew = c.Renew
	return c, nil
}

// newReports makes what reports to the coordinator; nil when there is none.
func (x *shardProcess) newReports() (*report.Client, error) {
	if len(x.plan.coordinators) == 0 {
		return nil, nil
	}
	return report.New(report.Options{
		Shard: x.shard, Owner: x.shard, Domains: &keptDomains{x.shard, x.journal}, ID: x.plan.id, Epoch: x.epoch.Epoch, Addresses: x.plan.coordinators, Advertise: x.plan.advertise,
		Provider: x.plan.provider, Interval: x.plan.heartbeat, Clock: clock, Replaced: x.newest.Store, Dial: x.tls.DialOptionsTo(mtls.CoordinatorServer()), Log: x.log, Metrics: report.NewMetrics(x.registry),
	})
}
