package provider_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tonnage/tonnage/provider"
	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/shard"
)

// notSeen is what Observe says that could not see a cluster.
func notSeen(cluster string) error {
	return &driver.Unseen{Clusters: map[string]error{cluster: errors.New("no route")}}
}

// restartBlind starts the provider again while a cluster cannot be seen, without its records if they are lost.
func (r *rig) restartBlind(cluster string, lost bool) {
	r.t.Helper()
	r.end()
	if lost {
		if err := os.Remove(filepath.Join(r.dir, provider.FileName)); err != nil {
			r.t.Fatal(err)
		}
	}
	r.blind = notSeen(cluster)
	r.start()
}

// seesAll has the driver see all clusters from now on.
func (r *rig) seesAll() {
	r.blind = nil
	r.driver.set(func() { r.driver.blind = nil })
}

// ask asks for a machine for a cluster, and returns its id.
func (r *rig) ask(cluster string) string {
	r.t.Helper()
	id := r.in(speculative)[0]
	r.must(shard.OpCreate, id, "")
	r.must(shard.OpConfigure, id, cluster)
	return id
}

// bindAnother binds some slot to a cluster.
func (r *rig) bindAnother(cluster string) string {
	r.t.Helper()
	id := r.in(speculative)[0]
	r.bind(id, cluster)
	return id
}

// roomy is a pool whose limit leaves room for more than its free slots.
const roomy = `pools: [{name: p, driver: sim, lateBound: true, machines: 50, freeSlots: 4, zones: [a], ` + small + `}]
`

// A cluster that cannot be seen when records begin does not hold back the others' machines. For itself no machine is made before
// its own are known: those would be there twice for who asks.
func TestNewRecordsWhileAClusterCannotBeSeen(t *testing.T) {
	inBubble(t, late, func(t *testing.T, r *rig) {
		seen, unseen := r.bindAnother("a"), r.bindAnother("b")
		r.restartBlind("b", true)
		if err := r.provider.Ready(); err != nil {
			t.Errorf("not ready: %v", err)
		}
		r.want(seen, configured)
		if m := r.list()[unseen]; m != nil {
			t.Errorf("a machine of the cluster is listed: %v", m)
		}
		r.bindAnother("a")
		waits := r.ask("b")
		r.pass(10 * time.Minute)
		r.want(waits, configuring)
		for range 2 { // also when the provider starts again meanwhile
			if n := r.driver.count("Configure " + waits); n != 0 {
				t.Errorf("a machine was made for the cluster")
			}
			r.restartBlind("b", false)
			r.want(waits, configuring)
		}
		r.seesAll()
		r.pass(5 * time.Second)
		r.want(unseen, configured)
		r.pass(30 * time.Second)
		late := r.ask("b") // by who has not heard of it
		r.pass(time.Minute)
		for _, id := range []string{waits, late} {
			if m := r.want(id, failed); !strings.Contains(m.GetLastError(), `which machines cluster "b" has`) {
				t.Errorf("machine %q: %s", id, m.GetLastError())
			}
			if n := r.driver.count("Configure " + id); n != 0 {
				t.Errorf("machine %q was made", id)
			}
		}
		r.bindAnother("b")
		if n := len(r.driver.objects(t)); n != 4 {
			t.Errorf("there are %d machines, want 4", n)
		}
	})
}

// A cluster without machines has those made that were asked for as soon as it is seen.
func TestAnEmptyClusterThatCouldNotBeSeen(t *testing.T) {
	inBubble(t, late, func(t *testing.T, r *rig) {
		r.bindAnother("a")
		r.restartBlind("b", true)
		id := r.ask("b")
		r.pass(time.Minute)
		r.want(id, configuring)
		if n := r.driver.count("Configure"); n != 0 {
			t.Errorf("%d machines were made", n)
		}
		r.seesAll()
		r.pass(40 * time.Second)
		r.want(id, configured)
	})
}

// A machine does not wait for its cluster for longer than a change may take, and its offer is not to blame.
func TestAClusterThatStaysUnseen(t *testing.T) {
	inBubble(t, late, func(t *testing.T, r *rig) {
		r.restartBlind("b", true)
		id := r.ask("b")
		r.pass(21 * time.Minute)
		if m := r.want(id, failed); !strings.Contains(m.GetLastError(), `Configuring took longer than 20m0s: it is not known yet which machines cluster "b" has`) {
			t.Errorf("it says %q", m.GetLastError())
		}
		if held := r.provider.Held(); len(held) > 0 {
			t.Errorf("held back: %v", held)
		}
		r.bindAnother("a")
	})
}

// A driver that no longer has the cluster holds nothing back.
func TestAClusterThatIsNoLongerAskedFor(t *testing.T) {
	inBubble(t, late, func(_ *testing.T, r *rig) {
		r.restartBlind("b", true)
		r.seesAll()
		r.end()
		r.start()
		r.bindAnother("b")
	})
}

// While a cluster cannot be seen, machines of the others that are gone are gone, and drains there end.
func TestWhatIsGoneWhileAClusterCannotBeSeen(t *testing.T) {
	inBubble(t, late, func(t *testing.T, r *rig) {
		gone, kept, drained := r.bindAnother("a"), r.bindAnother("b"), r.bindAnother("a")
		r.driver.set(func() {
			r.driver.blind = notSeen("b")
			r.driver.alter = func(o *driver.Observation) bool { return o.ID != gone && o.ID != kept }
		})
		r.must(shard.OpDrain, drained, "")
		r.pass(30 * time.Second)
		r.want(drained, idle)
		if m := r.list()[gone]; m != nil {
			t.Errorf("a machine that is gone is listed: %v", m)
		}
		r.want(kept, configured)
		r.driver.set(func() { r.driver.blind, r.driver.alter = nil, nil })
		r.pass(10 * time.Second)
		r.want(kept, configured)
	})
}

// Records that may be an old copy give out no new ids before everything was seen: a machine that they have not may have them.
func TestRecordsThatMayBeOldWhileAClusterCannotBeSeen(t *testing.T) {
	for _, named := range []bool{false, true} {
		inBubble(t, roomy, func(t *testing.T, r *rig) {
			r.bindAnother("a")
			slots := len(r.in(speculative))
			if named {
				r.last = r.provider.Name()
			}
			r.restartBlind("b", false)
			r.bindAnother("a")
			want := slots - 1
			if named {
				want = slots
			}
			if n := len(r.in(speculative)); n != want {
				t.Errorf("named by the Lease: %t: %d slots, want %d", named, n, want)
			}
			r.seesAll()
			r.pass(10 * time.Second)
			if n := len(r.in(speculative)); n != slots {
				t.Errorf("%d slots when all is seen, want %d", n, slots)
			}
		})
	}
}
