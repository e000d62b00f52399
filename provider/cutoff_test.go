package provider_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/pools"
	"github.com/tonnage/tonnage/provider/simulated/rack"
	"github.com/tonnage/tonnage/shard"
)

const owned = `pools: [{name: p, driver: sim, initial: idle, hosts: [h1], zones: [a], types: [{name: small, resources: {cpu: 2}, prices: [{capacityType: BareMetal, pricePerHour: 0.1}]}]}]
`

// only returns the id of the only machine that is listed.
func (r *rig) only() string {
	r.t.Helper()
	all := r.list()
	if len(all) != 1 {
		r.t.Fatalf("%d machines and slots, want one", len(all))
	}
	for id := range all {
		return id
	}
	return ""
}

// A verb that was cut off after any of its requests is called again, whatever phase shows by then: within the
// process, and after a restart that leaves open how the verb ended.
func TestAVerbThatIsCutOff(t *testing.T) {
	for n := range int64(5) {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprintf("after %d requests, restart %t", n, restart), func(t *testing.T) {
				hosts := rack.NewRack("h1")
				var left atomic.Int64 // requests of verbs that pass
				hosts.Before = func(request string) error {
					if request != "List" && left.Add(-1) < 0 {
						return errors.New("503 Service Unavailable")
					}
					return nil
				}
				left.Store(n)
				inBubbleOf(t, owned, func() driver.Driver { return rack.New(hosts) }, func(t *testing.T, r *rig) {
					through := func(want pb.MachineState) {
						t.Helper()
						r.pass(2 * time.Second)
						left.Store(0)
						if restart {
							r.end()
							r.start()
						}
						left.Store(1 << 40)
						r.pass(2 * time.Minute)
						r.want(r.only(), want)
						left.Store(n)
					}
					through(idle)
					id := r.only()
					r.must(shard.OpConfigure, id, "c")
					through(configured)
					if h := hosts.Look("h1"); !h.On || h.Cluster != "c" {
						t.Errorf("a Configured host is %+v", h)
					}
					r.must(shard.OpDrain, id, "")
					through(idle)
					r.must(shard.OpDelete, id, "")
					through(speculative)
					if h := hosts.Look("h1"); h.On || h.Cluster != "" || h.Claim != "" {
						t.Errorf("a free host is %+v", h)
					}
				})
			})
		}
	}
}

// What is left of a Failed machine is removed by a Delete that may be cut off too.
func TestADeleteOfAFailedMachineThatIsCutOff(t *testing.T) {
	for n := range int64(4) {
		hosts := rack.NewRack("h1")
		var left atomic.Int64
		left.Store(1 << 40)
		hosts.Before = func(request string) error {
			if request != "List" && left.Add(-1) < 0 {
				return errors.New("503 Service Unavailable")
			}
			return nil
		}
		inBubbleOf(t, owned, func() driver.Driver { return rack.New(hosts) }, func(t *testing.T, r *rig) {
			id := r.only()
			r.must(shard.OpConfigure, id, "c")
			r.pass(10 * time.Second)
			r.want(id, configured)
			left.Store(n)
			if err := hosts.ByHand("h1", func(h *rack.Host) { h.On = false }); err != nil {
				t.Fatal(err)
			}
			r.pass(30 * time.Second)
			r.want(id, failed)
			left.Store(1 << 40)
			r.pass(2 * time.Minute)
			if h := hosts.Look("h1"); h.Claim != "" || h.Cluster != "" {
				t.Errorf("after %d requests: what is left of a Failed machine is %+v", n, h)
			}
			r.pass(pools.KeepFailedDefault)
			r.want(r.only(), idle) // made anew
		})
	}
}

// A host that somebody else takes is Failed and left alone, however long; when they are done with it, it comes back.
func TestAHostThatIsTaken(t *testing.T) {
	hosts := rack.NewRack("h1")
	inBubbleOf(t, owned, func() driver.Driver { return rack.New(hosts) }, func(t *testing.T, r *rig) {
		byHand := func(on bool, cluster string) {
			if err := hosts.ByHand("h1", func(h *rack.Host) { h.On, h.Cluster = on, cluster }); err != nil {
				t.Fatal(err)
			}
		}
		id := r.only()
		r.want(id, idle)
		byHand(true, "theirs")
		r.pass(time.Hour)
		if m := r.want(id, failed); !strings.Contains(m.GetLastError(), `assigned to cluster "theirs" by somebody else`) {
			t.Errorf("failed with %q", m.GetLastError())
		}
		r.end()
		r.start()
		r.pass(time.Hour)
		r.want(id, failed)
		before := hosts.Look("h1")
		if !before.On || before.Cluster != "theirs" || before.Claim == "" {
			t.Fatalf("somebody's host was changed: %+v", before)
		}
		byHand(true, "")
		r.pass(time.Minute)
		if h := hosts.Look("h1"); h.On || h.Claim != "" {
			t.Errorf("given back, it is %+v", h)
		}
		// Taken again before the claim is renewed: Create is refused, and nothing else is called.
		byHand(true, "theirs")
		r.pass(pools.KeepFailedDefault + time.Minute)
		next := r.only()
		if m := r.want(next, failed); next == id || !strings.Contains(m.GetLastError(), "used by somebody else") {
			t.Errorf("machine %s failed with %q", next, m.GetLastError())
		}
		r.pass(time.Hour)
		if h := hosts.Look("h1"); !h.On || h.Cluster != "theirs" || h.Claim != "" {
			t.Errorf("somebody's host was changed: %+v", h)
		}
		byHand(false, "")
		r.pass(pools.KeepFailedDefault + time.Minute)
		r.want(r.only(), idle)
	})
}

// The pace of a driver begins with a full burst.
func TestTheFirstBurst(t *testing.T) {
	names := make([]string, 40)
	for i := range names {
		names[i] = fmt.Sprintf("h%d", i)
	}
	file := strings.Replace(owned, "[h1]", "["+strings.Join(names, ", ")+"]", 1)
	hosts := rack.NewRack(names...)
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, dir: dir, open: func() driver.Driver { return rack.New(hosts) }}
		r.file = "drivers: [{name: sim, kind: simulated, launchesPerMinute: 1, launchBurst: 20}]\n" + file
		r.start()
		defer func() { r.end() }()
		if n := len(r.in(idle)); n != 20 {
			t.Errorf("%d machines are made in the first 5 s, want the burst of 20", n)
		}
		r.pass(10 * time.Minute)
		if n := len(r.in(idle)); n < 28 || n > 31 {
			t.Errorf("%d machines after 10 min, want the burst and one a minute", n)
		}
	})
}
