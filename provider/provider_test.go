package provider_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tonnage/tonnage/provider"
	"github.com/tonnage/tonnage/provider/calls"
	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/pools"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/provider/epoch"
)

func sorted(ids []string) []string {
	slices.Sort(ids)
	return ids
}

const (
	early = `pools: [{name: p, driver: sim, machines: 3, freeSlots: 4, zones: [a], labels: {team: x}, ` + small + `}]
`
	late = `pools: [{name: p, driver: sim, lateBound: true, machines: 5, freeSlots: 4, zones: [a], ` + small + `}]
`
)

// An early-bound machine goes through its states as its object does.
func TestAnEarlyBoundLife(t *testing.T) {
	inBubble(t, early, func(t *testing.T, r *rig) {
		id := r.in(speculative)[0]
		if slot := r.list()[id]; slot.GetHost() != nil || slot.GetLabels()["team"] != "x" || slot.GetLabels()[pools.LabelPool] != "p" || slot.GetLabels()[pools.LabelLateBound] != "" {
			t.Errorf("slot %v", slot)
		}
		if m := r.must(shard.OpCreate, id, ""); m.GetState() != creating {
			t.Errorf("Create answers %v", m)
		}
		r.pass(5 * time.Second)
		r.want(id, creating)
		r.pass(10 * time.Second)
		if m := r.want(id, idle); m.GetHost().GetRef() == "" || m.GetCluster() != "" {
			t.Errorf("idle %v", m)
		}
		if m := r.must(shard.OpConfigure, id, "c"); m.GetState() != configuring || m.GetCluster() != "c" {
			t.Errorf("Configure answers %v", m)
		}
		r.pass(15 * time.Second)
		m := r.want(id, configured)
		if name := driver.ObjectName(id, 1); m.GetHost().GetRef() != "simulated://"+name || m.GetLabels()["kubernetes.io/hostname"] != name || m.GetShardMetadata()["k"] != "c" {
			t.Errorf("configured %v", m)
		}
		r.must(shard.OpDrain, id, "")
		r.pass(15 * time.Second)
		if m := r.want(id, idle); m.GetCluster() != "" || m.GetShardMetadata() != nil || m.GetLabels()["kubernetes.io/hostname"] != "" {
			t.Errorf("drained %v", m)
		}
		r.must(shard.OpDelete, id, "")
		r.want(id, deleting)
		r.pass(20 * time.Second)
		r.want(id, speculative)
		if n := len(r.driver.objects(t)); n != 0 {
			t.Errorf("%d objects are left", n)
		}
		r.must(shard.OpCreate, id, "")
		r.pass(5 * time.Second)
		if objects := r.driver.objects(t); len(objects) != 1 || objects[id+"/2"].ID == "" {
			t.Errorf("the second making is %v", objects)
		}
		// Each verb was called once: nothing is asked for twice that can be seen.
		if verbs := r.driver.count(""); verbs != 5 {
			t.Errorf("%d verbs: %q", verbs, r.driver.verbs)
		}
	})
}

// A late-bound slot is Idle at once, exists only while it is bound, and is labelled.
func TestALateBoundLife(t *testing.T) {
	inBubble(t, late, func(t *testing.T, r *rig) {
		id := r.in(speculative)[0]
		if m := r.must(shard.OpCreate, id, ""); m.GetState() != idle || m.GetHost().GetRef() == "" || m.GetLabels()[pools.LabelLateBound] != "true" {
			t.Errorf("Create answers %v", m)
		}
		r.pass(time.Minute)
		if n := len(r.driver.objects(t)); n != 0 {
			t.Errorf("%d objects exist before anything is bound", n)
		}
		if m := r.must(shard.OpDelete, id, ""); m.GetState() != speculative {
			t.Errorf("Delete answers %v", m)
		}
		r.must(shard.OpCreate, id, "")
		r.must(shard.OpConfigure, id, "c")
		r.pass(30 * time.Second)
		r.want(id, configured)
		r.must(shard.OpDrain, id, "")
		r.pass(5 * time.Second)
		r.want(id, draining)
		r.pass(20 * time.Second)
		r.want(id, idle)
		if n := len(r.driver.objects(t)); n != 0 {
			t.Errorf("%d objects are left", n)
		}
		r.must(shard.OpConfigure, id, "d")
		r.pass(30 * time.Second)
		if m := r.want(id, configured); m.GetHost().GetRef() != "simulated://"+driver.ObjectName(id, 2) {
			t.Errorf("the second making is %v", m)
		}
		if n := r.driver.count("Create") + r.driver.count("Delete"); n != 0 {
			t.Errorf("Create and Delete were called %d times", n)
		}
	})
}

// A machine that somebody removed is out of the listing within ten seconds, and its id does not
// come back, though the machine does.
func TestAMachineThatVanishes(t *testing.T) {
	inBubble(t, early, func(t *testing.T, r *rig) {
		id := r.in(speculative)[0]
		r.bind(id, "c")
		r.driver.set(func() { r.driver.alter = func(o *driver.Observation) bool { return o.ID != id } })
		r.pass(10 * time.Second)
		if _, err := r.provider.Get(id); !errors.Is(err, calls.ErrNotFound) {
			t.Fatalf("Get of what is gone: %v", err)
		}
		if n := len(r.in(speculative)); n != 3 {
			t.Errorf("%d slots, want 3", n)
		}
		r.driver.set(func() { r.driver.alter = nil })
		r.pass(10 * time.Second)
		if r.list()[id] != nil {
			t.Error("the id came back")
		}
		if o := r.provider.Orphans(); len(o) != 1 || o[0].ID != id || o[0].Cluster != "c" || !strings.Contains(o[0].Why, "given up") {
			t.Errorf("orphans %+v", o)
		}
		if n := r.driver.count("Delete"); n != 0 {
			t.Errorf("the orphan was deleted %d times", n)
		}
	})
}

// While a driver cannot be observed, nothing is gone and nothing has ended.
func TestADriverThatCannotBeObserved(t *testing.T) {
	inBubble(t, early, func(t *testing.T, r *rig) {
		id := r.in(speculative)[0]
		r.bind(id, "c")
		r.driver.set(func() { r.driver.blind = errors.New("no route") })
		r.must(shard.OpDrain, id, "")
		r.pass(time.Hour)
		if m := r.list()[id]; m.GetState() != failed || !strings.Contains(m.GetLastError(), "DRAINING") && !strings.Contains(m.GetLastError(), "Draining") {
			t.Errorf("after an hour: %v", m)
		}
		r.driver.set(func() { r.driver.blind = nil })
		r.pass(30 * time.Second)
		if n := len(r.driver.objects(t)); n != 0 {
			t.Errorf("%d objects are left", n)
		}
	})
}

// Without the file everything is found again: machines with owners, clusters and metadata; a
// replaced process stays fenced off; no slot has the id of an old one.
func TestTheFileIsLost(t *testing.T) {
	for name, file := range map[string]string{"early": early, "late": late} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, file, func(t *testing.T, r *rig) {
				slots := r.in(speculative)
				bound, going := slots[0], slots[1]
				r.bind(bound, "c")
				r.bind(going, "d")
				r.must(shard.OpDrain, going, "")
				r.pass(5 * time.Second)
				before := r.list()[bound]
				r.end()
				if err := os.Remove(filepath.Join(r.dir, provider.FileName)); err != nil {
					t.Fatal(err)
				}
				r.start()
				m := r.want(bound, configured)
				if m.GetCluster() != "c" || m.GetShardMetadata()["k"] != "c" || m.GetHost().GetRef() != before.GetHost().GetRef() || m.GetInstanceType() != "small" || m.GetPricePerHour() != 0.1 {
					t.Errorf("found again as %v", m)
				}
				_, err := r.provider.Do(t.Context(), &calls.Call{Op: shard.OpDrain, Machine: bound, Shard: "s", Token: epoch.Token{Epoch: 1, Sequence: 1}})
				if !errors.Is(err, shard.ErrFenced) {
					t.Errorf("an old token passes: %v", err)
				}
				if name == "early" {
					r.pass(10 * time.Second)
					r.want(going, idle)
				}
				for _, id := range r.in(speculative) {
					if slices.Contains(slots, id) {
						t.Errorf("id %q is used again", id)
					}
				}
				if o := r.provider.Orphans(); len(o) != 0 {
					t.Errorf("orphans %+v", o)
				}
				r.must(shard.OpDrain, bound, "")
				r.pass(30 * time.Second)
				r.want(bound, idle)
			})
		})
	}
}

// A restart goes on with everything, also with what was under way and not yet asked for.
func TestARestart(t *testing.T) {
	inBubble(t, early, func(t *testing.T, r *rig) {
		slots := r.in(speculative)
		r.bind(slots[0], "c")
		r.driver.set(func() {
			r.driver.fail = func(string, *driver.Machine) error { return errors.New("not now") }
		})
		r.must(shard.OpCreate, slots[1], "")
		before := r.list()
		r.end()
		r.start()
		if after := r.list(); len(after) != len(before) {
			t.Errorf("%d machines and slots, were %d", len(after), len(before))
		}
		r.pass(15 * time.Second)
		r.want(slots[1], idle)
		r.want(slots[0], configured)
		again, err := r.do(shard.OpCreate, slots[1], "")
		if err != nil || again.Operation == "" {
			t.Errorf("a repeat: %v, %v", again, err)
		}
		if n := len(r.driver.objects(t)); n != 2 {
			t.Errorf("%d objects, want 2", n)
		}
		_, err = provider.Open(provider.Config{Dir: r.dir, Pools: parse(t, r.dir, r.file)})
		if !errors.Is(err, provider.ErrInUse) {
			t.Errorf("a second provider: %v", err)
		}
	})
}

// Out of stock turns all slots of the offer Failed, and no others, until one is offered alone; each failure
// doubles the wait, and success ends it.
func TestOutOfStock(t *testing.T) {
	file := strings.Replace(late, "zones: [a]", "zones: [a, b]", 1)
	inBubble(t, file, func(t *testing.T, r *rig) {
		offered := func(zone string) (open, refused []string) {
			for id, m := range r.list() {
				switch {
				case m.GetZone() != zone:
				case m.GetState() == speculative:
					open = append(open, id)
				case m.GetState() == failed && strings.Contains(m.GetLastError(), "insufficient capacity until"):
					refused = append(refused, id)
				}
			}
			return sorted(open), sorted(refused)
		}
		stock := false
		r.driver.set(func() {
			r.driver.fail = func(verb string, m *driver.Machine) error {
				if verb == "Configure" && m.Offer.Zone == "a" && !stock {
					return fmt.Errorf("none left: %w", driver.ErrOutOfStock)
				}
				return nil
			}
		})
		buy := func(id string) {
			r.must(shard.OpCreate, id, "")
			r.must(shard.OpConfigure, id, "c")
			r.pass(5 * time.Second) // longer than from one observation to the next, at whose very moment things are in any order
		}
		open, _ := offered("a")
		// Two that are on their way at the same time count as one failure.
		r.must(shard.OpCreate, open[0], "")
		r.must(shard.OpCreate, open[1], "")
		r.must(shard.OpConfigure, open[0], "c")
		buy(open[1])
		for _, id := range open[:2] {
			if m := r.want(id, failed); !strings.Contains(m.GetLastError(), "insufficient capacity") {
				t.Errorf("failed with %q", m.GetLastError())
			}
		}
		waits := []time.Duration{3 * time.Minute, 6 * time.Minute, 12 * time.Minute, 24 * time.Minute, 30 * time.Minute, 30 * time.Minute}
		for k, wait := range waits {
			if open, refused := offered("a"); len(open) != 0 || len(refused) == 0 {
				t.Fatalf("%d open, %d refused at the beginning of %v", len(open), len(refused), wait)
			}
			if open, refused := offered("b"); len(open) != 4 || len(refused) != 0 {
				t.Errorf("the other zone: %d open, %d refused", len(open), len(refused))
			}
			r.pass(wait - 10*time.Second)
			if open, _ := offered("a"); len(open) != 0 {
				t.Fatalf("%d open before %v", len(open), wait)
			}
			r.pass(15 * time.Second)
			open, _ := offered("a")
			if len(open) != 1 {
				t.Fatalf("%d open after %v, want one", len(open), wait)
			}
			if k < len(waits)-1 {
				buy(open[0])
			}
		}
		r.end()
		r.start() // it is remembered
		stock = true
		open, refused := offered("a")
		if len(open) != 1 || len(refused) == 0 {
			t.Fatalf("%d open, %d refused after a restart", len(open), len(refused))
		}
		buy(open[0])
		r.pass(30 * time.Second)
		r.want(open[0], configured)
		if open, refused := offered("a"); len(open) != 4 || len(refused) != 0 {
			t.Errorf("in stock: %d open, %d refused", len(open), len(refused))
		}
	})
}

// Limits of pools and quotas are kept, and slots that they leave no room for are listed as such.
func TestLimits(t *testing.T) {
	file := `quotas: [{name: q, resources: {cpu: 6}}]
pools:
- {name: p, driver: sim, machines: 100, freeSlots: 4, quotas: [q], zones: [a, b], ` + small + `}
- {name: o, driver: sim, machines: 2, freeSlots: 4, quotas: [q], zones: [a], ` + small + `}
`
	inBubble(t, file, func(t *testing.T, r *rig) {
		open := func(pool string) (ids []string) {
			for _, id := range r.in(speculative) {
				if strings.HasPrefix(id, pool+"-") {
					ids = append(ids, id)
				}
			}
			return ids
		}
		if p, o := len(open("p")), len(open("o")); p != 6 || o != 2 {
			t.Fatalf("%d and %d slots, want 3 in two zones and 2", p, o)
		}
		first := open("p")[0]
		all := open("p")
		r.must(shard.OpCreate, first, "")
		r.must(shard.OpCreate, open("o")[0], "")
		if p, o := len(open("p")), len(open("o")); p != 2 || o != 1 {
			t.Errorf("%d and %d slots after two of three, want 1 in two zones and 1", p, o)
		}
		r.must(shard.OpCreate, open("p")[1], "")
		for _, id := range append(all, r.in(failed)...) {
			if _, err := r.do(shard.OpCreate, id, ""); r.list()[id].GetState() == failed && !errors.Is(err, calls.ErrPosition) {
				t.Errorf("Create of %q beyond the limit: %v", id, err)
			}
		}
		if n := len(r.in(speculative)); n != 0 {
			t.Errorf("%d slots when the quota is used up", n)
		}
		for _, id := range r.in(failed) {
			if m := r.list()[id]; !strings.Contains(m.GetLastError(), "limits allow") {
				t.Errorf("%q is Failed with %q", id, m.GetLastError())
			}
		}
		r.pass(20 * time.Second)
		r.must(shard.OpDelete, first, "")
		r.pass(20 * time.Second)
		if p, o := len(open("p")), len(open("o")); p != 2 || o != 1 {
			t.Errorf("%d and %d slots after one was given back", p, o)
		}
	})
}

// Machines are made as fast as the driver's account allows.
func TestPace(t *testing.T) {
	inBubble(t, `pools: [{name: p, driver: sim, machines: 64, zones: [a], `+small+`}]
`, func(t *testing.T, r *rig) {
		r.file = strings.Replace(r.file, "launchesPerMinute: 6000, launchBurst: 1000", "launchesPerMinute: 60, launchBurst: 5", 1)
		if err := r.provider.SetPools(t.Context(), parse(t, r.dir, r.file)); err != nil {
			t.Fatal(err)
		}
		for _, id := range r.in(speculative)[:40] {
			r.must(shard.OpCreate, id, "")
		}
		r.pass(10 * time.Second)
		if n := len(r.driver.objects(t)); n < 9 || n > 16 {
			t.Errorf("%d machines after 10 s, want about 5 and one a second", n)
		}
		r.pass(time.Minute)
		if n := len(r.driver.objects(t)); n != 40 {
			t.Errorf("%d machines in the end", n)
		}
	})
}

// A machine without what its offer declares is not Configured, and in the end Failed with what lacks; what is left of
// it is removed, and later its record.
func TestAMachineThatLacksSomething(t *testing.T) {
	inBubble(t, late, func(t *testing.T, r *rig) {
		r.driver.set(func() {
			r.driver.alter = func(o *driver.Observation) bool {
				o.Labels = map[string]string{"disk": "hdd"}
				o.Taints = []driver.Taint{}
				return true
			}
		})
		id := r.in(speculative)[0]
		r.must(shard.OpCreate, id, "")
		r.must(shard.OpConfigure, id, "c")
		r.pass(pools.ConfigureDefault - time.Minute)
		r.want(id, configuring)
		r.pass(2 * time.Minute)
		if m := r.want(id, failed); !strings.Contains(m.GetLastError(), `label disk is "hdd", not "ssd"`) || m.GetCluster() != "" {
			t.Errorf("failed as %v", m)
		}
		if n := len(r.driver.objects(t)); n != 0 {
			t.Errorf("%d objects are left", n)
		}
		r.pass(pools.KeepFailedDefault + 10*time.Second)
		if r.list()[id] != nil {
			t.Error("the Failed machine is still listed")
		}
		if n := len(r.in(speculative)); n != 4 {
			t.Errorf("%d slots in the end", n)
		}
	})
}

// Transient errors are repeated, later each time; permanent ones end in Failed.
func TestErrorsOfDrivers(t *testing.T) {
	inBubble(t, early, func(t *testing.T, r *rig) {
		fails := func(with error) {
			r.driver.set(func() { r.driver.fail = func(string, *driver.Machine) error { return with } })
		}
		slots := r.in(speculative)
		fails(errors.New("try again"))
		r.must(shard.OpCreate, slots[0], "")
		r.pass(2 * time.Minute)
		r.want(slots[0], creating)
		if n := r.driver.count("Create"); n < 5 || n > 10 {
			t.Errorf("asked %d times within two minutes", n)
		}
		fails(nil)
		r.pass(80 * time.Second)
		r.want(slots[0], idle)
		fails(fmt.Errorf("no such image: %w", driver.ErrPermanent))
		r.must(shard.OpCreate, slots[1], "")
		r.pass(3 * time.Second)
		if m := r.want(slots[1], failed); !strings.Contains(m.GetLastError(), "no such image") {
			t.Errorf("failed as %v", m)
		}
	})
}

// A pools file that changes is taken over: prices at once, offers that are gone lose their slots and keep
// their machines.
func TestPoolsThatChange(t *testing.T) {
	inBubble(t, early, func(t *testing.T, r *rig) {
		id := r.in(speculative)[0]
		r.bind(id, "c")
		set := func(file string) error { return r.provider.SetPools(t.Context(), parse(t, r.dir, file)) }
		if err := set(strings.Replace(r.file, "pricePerHour: 0.1", "pricePerHour: 0.2", 1)); err != nil {
			t.Fatal(err)
		}
		for id, m := range r.list() {
			if m.GetPricePerHour() != 0.2 {
				t.Errorf("%q costs %v", id, m.GetPricePerHour())
			}
		}
		if err := set(strings.Replace(r.file, "zones: [a]", "zones: [b]", 1)); err != nil {
			t.Fatal(err)
		}
		for _, free := range r.in(speculative) {
			if z := r.list()[free].GetZone(); z != "b" {
				t.Errorf("slot in zone %q", z)
			}
		}
		r.end()
		r.start() // with the old file: the zone is back
		if m := r.want(id, configured); m.GetZone() != "a" {
			t.Errorf("bound machine %v", m)
		}
		if err := set(drivers + "pools: []\n"); err != nil {
			t.Fatal(err)
		}
		r.must(shard.OpDrain, id, "")
		r.pass(20 * time.Second)
		r.must(shard.OpDelete, id, "")
		r.pass(20 * time.Second)
		if n := len(r.list()); n != 0 || len(r.driver.objects(t)) != 0 {
			t.Errorf("%d machines are listed without a pool", n)
		}
		err := set(`drivers: [{name: sim, kind: simulated, config: {failureRate: 0.5}}]
pools: []
`)
		if err == nil || !strings.Contains(err.Error(), "takes a restart") {
			t.Errorf("another config: %v", err)
		}
	})
}

// Owned hosts are there from the start, one machine each, and come back when they were turned off.
func TestOwnedHosts(t *testing.T) {
	file := `pools: [{name: o, driver: sim, initial: idle, hosts: [h1, h2], zones: [a], ` + small + `}]
`
	inBubble(t, file, func(t *testing.T, r *rig) {
		r.pass(20 * time.Second)
		ids := r.in(idle)
		hosts := map[string]bool{}
		for _, id := range ids {
			hosts[r.list()[id].GetLabels()[pools.LabelHost]] = true
		}
		if len(ids) != 2 || !hosts["h1"] || !hosts["h2"] || len(r.list()) != 2 {
			t.Fatalf("machines %v", r.list())
		}
		r.must(shard.OpDelete, ids[0], "")
		r.pass(20 * time.Second)
		if m := r.want(ids[0], speculative); m.GetLabels()[pools.LabelHost] == "" {
			t.Errorf("turned off: %v", m)
		}
		r.must(shard.OpCreate, ids[0], "")
		r.pass(20 * time.Second)
		r.want(ids[0], idle)
		// One that is lost comes under a new id.
		if err := r.driver.Cloud.Delete(t.Context(), &driver.Machine{ID: ids[1], Generation: 1}); err != nil {
			t.Fatal(err)
		}
		r.pass(time.Minute)
		if again := r.in(idle); len(again) != 2 || slices.Contains(again, ids[1]) {
			t.Errorf("machines %q", again)
		}
	})
}

// What exists and is of no pool is an orphan: it is reported and left alone.
func TestOrphans(t *testing.T) {
	inBubble(t, strings.Replace(early, "freeSlots: 4", "freeSlots: 2", 1), func(t *testing.T, r *rig) {
		object := func(id string, generation uint64, key driver.Key) {
			if err := r.driver.Cloud.Create(t.Context(), &driver.Machine{ID: id, Generation: generation, Offer: driver.Offer{Key: key}}, driver.Owner{}); err != nil {
				t.Error(err)
			}
		}
		known := r.provider
		var of driver.Key
		for _, p := range parse(t, r.dir, r.file).Pools {
			of = p.Offers[0].Key
		}
		object("unknown", 1, driver.Key{Pool: "elsewhere"})
		object("mine", 3, of)
		r.pass(20 * time.Second)
		if o := known.Orphans(); len(o) != 1 || o[0].ID != "unknown" || !strings.Contains(o[0].Why, "no pool") {
			t.Errorf("orphans %+v", o)
		}
		r.want("mine", idle)
		r.must(shard.OpDelete, "mine", "")
		r.pass(20 * time.Second)
		r.want("mine", speculative)
		if objects := r.driver.objects(t); len(objects) != 1 {
			t.Errorf("objects %v", objects)
		}
	})
}

// What a free slot leaves behind is removed, and so is an older making.
func TestLeftovers(t *testing.T) {
	inBubble(t, early, func(t *testing.T, r *rig) {
		id := r.in(speculative)[0]
		r.bind(id, "c")
		of := r.driver.objects(t)[id+"/1"].Key
		r.must(shard.OpDrain, id, "")
		r.pass(20 * time.Second)
		r.must(shard.OpDelete, id, "")
		r.pass(20 * time.Second)
		r.must(shard.OpCreate, id, "")
		r.pass(20 * time.Second)
		if err := r.driver.Cloud.Create(t.Context(), &driver.Machine{ID: id, Generation: 1, Offer: driver.Offer{Key: of}}, driver.Owner{}); err != nil {
			t.Fatal(err)
		}
		r.pass(30 * time.Second)
		if objects := r.driver.objects(t); len(objects) != 1 || objects[id+"/2"].ID == "" {
			t.Errorf("objects %v", objects)
		}
		r.want(id, idle)
		synctest.Wait()
	})
}
