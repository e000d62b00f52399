package e2e

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/freeport"
	"github.com/tonnage/tonnage/internal/processtest"
	"github.com/tonnage/tonnage/provider"
	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/pools"
	"github.com/tonnage/tonnage/provider/server"
	"github.com/tonnage/tonnage/provider/simulated/cloud"
)

const latePools = `drivers: [{name: sim, kind: simulated, launchesPerMinute: 6000, launchBurst: 100}]
pools:
- {name: large, driver: sim, lateBound: true, machines: 4, freeSlots: 4, zones: [a], types: [{name: large, resources: {cpu: 96}, prices: [{capacityType: OnDemand, pricePerHour: 4.608}]}]}
- {name: small, driver: sim, lateBound: true, machines: 4, freeSlots: 4, zones: [a], types: [{name: small, resources: {cpu: 2}, prices: [{capacityType: OnDemand, pricePerHour: 0.096}]}]}
`

// pooled is a provider of pools with simulated machines, in this process.
type pooled struct {
	t        *testing.T
	address  string
	provider *provider.Provider
	cloud    *cloud.Cloud
}

func startPools(t *testing.T, file string) *pooled {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "pools.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	read, err := pools.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	x := &pooled{t: t}
	takes := cloud.Span(200 * time.Millisecond)
	x.provider, err = provider.Open(provider.Config{
		Dir: dir, Pools: read, Every: 100 * time.Millisecond, Least: 10 * time.Millisecond,
		Driver: func(*pools.Driver) (driver.Driver, error) {
			x.cloud, err = cloud.Open(cloud.Config{File: filepath.Join(dir, "cloud.db"), Create: takes, Configure: takes, Drain: takes, Delete: takes}, 1, time.Now)
			return x.cloud, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	x.address = l.Addr().String()
	g := server.New(x.provider, nil).GRPC(nil)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- x.provider.Run(ctx) }()
	go func() { ended <- g.Serve(l) }()
	t.Cleanup(func() {
		cancel()
		g.Stop()
		if err := errors.Join(<-ended, <-ended, x.provider.Close()); err != nil {
			t.Error(err)
		}
	})
	processtest.Eventually(t, patience, "the provider is ready", func() bool { return x.provider.Ready() == nil })
	return x
}

// objects returns the clusters of what exists, by id.
func (x *pooled) objects() map[string]string {
	x.t.Helper()
	out := map[string]string{}
	if err := x.cloud.Observe(context.Background(), func(o *driver.Observation) { out[o.ID] = o.Cluster }); err != nil {
		x.t.Fatal(err)
	}
	return out
}

// get returns what the provider says of a machine.
func (x *pooled) get(id string) *pb.Machine {
	x.t.Helper()
	b, err := x.provider.Get(id)
	m := &pb.Machine{}
	if err == nil {
		err = proto.Unmarshal(b, m)
	}
	if err != nil {
		x.t.Fatal(err)
	}
	return m
}

// TestLateBoundPool: demand of one core has the small machine made for its cluster within seconds; what a withdrawn
// demand leaves is given back at once.
func TestLateBoundPool(t *testing.T) {
	t.Parallel()
	x := startPools(t, latePools)
	sessions := freeport.Take(t)
	s := processtest.Start(t, "shard", "--provider-addr="+x.address, "--listen="+sessions, "--metrics-addr="+freeport.Take(t), "--data-dir="+t.TempDir(),
		"--cycle-interval=2s", "--cluster-rollup-interval=0")
	processtest.Eventually(t, patience, "the shard lists", func() bool { return s.Get("/readyz") != "" })
	clusters := connect(t, sessions, time.Hour, []string{"red", "blue"}).clusters
	one := &pb.CapacityNeed{Priority: 10, AggregateResources: map[string]string{"cpu": "1"}, MinUnit: map[string]string{"cpu": "1"}}
	began := time.Now()
	for _, c := range clusters {
		c.demands(one)
	}
	for _, c := range clusters {
		processtest.Eventually(t, 10*time.Second, c.cluster+" has its machine", func() bool { return len(c.serves()) == 1 })
	}
	t.Logf("both clusters have their machine after %v", time.Since(began).Round(10*time.Millisecond))
	made := x.objects()
	for _, c := range clusters {
		id := c.serves()[0]
		m := x.get(id)
		if m.GetInstanceType() != "small" || made[id] != c.cluster || m.GetLabels()[model.LabelLateBound] != "true" {
			t.Errorf("%s has %s, a %s made for %q", c.cluster, id, m.GetInstanceType(), made[id])
		}
	}
	if len(made) != 2 {
		t.Errorf("these exist: %v", made)
	}
	// blue needs nothing any more: its machine is drained, and the slot given back without the ten minutes that an owned
	// machine of this type would be kept for.
	gone := clusters[1].serves()[0]
	clusters[1].demands()
	processtest.Eventually(t, 20*time.Second, "the slot of blue is given back", func() bool { return x.get(gone).GetState() == pb.MachineState_MACHINE_STATE_SPECULATIVE })
	if left := x.objects(); len(left) != 1 || left[clusters[0].serves()[0]] != "red" {
		t.Errorf("these are left: %v", left)
	}
}
