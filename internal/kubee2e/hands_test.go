package kubee2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/internal/freeport"
)

const (
	// handsEvery is the time between two roll-ups.
	handsEvery = 5 * time.Second
	// lossMax is within what time a lost machine is out of the listing.
	lossMax = 10 * time.Second
	// hitsOf says that at least one of so many kills waits until machines change.
	hitsOf = 3
)

// handsFleet is a fleet of two clusters whose machines are made by a driver of tonnage-provider.
type handsFleet struct {
	*fleet
	provider *process
	orphans  string // URL
	// demand are the pods of the cluster that wants machines: so many of a kind, each of which fills a machine.
	demand map[string]int32
	// prices are dollars an hour by zone, of machines of hostType; nil = they are not looked at.
	prices map[string]float64
	// counted says what is wrong with what exists at the driver's end, when the provider has these machines.
	counted func(existing []string) []string
	// lose ends so many machines as a cloud or a power cut does, and returns the names of their nodes.
	lose func(n int) map[string]bool
	lost map[string]bool // what it returned
	// empty has the cloud have no machines in a zone; "" = it has everything.
	empty func(zone string)
	// victims are killed in turn.
	victims []*process
}

// begin starts two clusters, the provider and a shard. pools writes the pools file and returns its name.
func (f *handsFleet) begin(start func(name string) *cluster, pools func() string) {
	f.t.Helper()
	for _, name := range []string{"blue", "green"} {
		c := start(name)
		f.clusters = append(f.clusters, c)
		f.watches = append(f.watches, watchCluster(f.t, c))
	}
	ports := freeport.TakeN(f.t, 3)
	f.orphans = "http://" + ports[2] + "/orphans"
	f.provider = startAgain(f.t, true, f.dir, "provider", filepath.Join(f.p.ours, "tonnage-provider"), "serve", "--listen="+ports[0], "--metrics-addr="+ports[2],
		"--data-dir="+filepath.Join(f.dir, "provider"), "--pools="+pools())
	f.shard = startAgain(f.t, true, f.dir, "shard", filepath.Join(f.p.ours, "tonnage"), "shard", "--listen="+ports[1], "--metrics-addr=0", "--provider-addr="+ports[0],
		"--data-dir="+filepath.Join(f.dir, "shard"), "--cycle-interval=2s", "--audit-log="+f.auditFile(), "--reclaim-cap-fraction=0.5", "--breaker-share=0")
	f.victims = []*process{f.provider, f.shard}
	f.maker = newMaker(f.t, ports[0], nil)
	for _, c := range f.clusters {
		c.startOperators(ports[1], handsEvery, "a")
	}
	f.record = newRecorder(f.fleet)
	f.watchOwners()
}

// writePools writes the pools file.
func (f *handsFleet) writePools(file map[string]any) string {
	f.t.Helper()
	text, err := json.Marshal(file)
	if err != nil {
		f.t.Fatal(err)
	}
	path := filepath.Join(f.dir, "pools.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		f.t.Fatal(err)
	}
	return path
}

// journey has the fleet go through demand that comes, moves and preempts, machines that are lost, and processes that are
// killed, until all is given back. Machines are taken from green, and lost there.
func (f *handsFleet) journey() {
	f.t.Helper()
	n := f.demand[hostType]
	part := max(1, n/5)
	blue, green := f.clusters[0], f.clusters[1]

	f.record.mark("demand")
	for _, c := range f.clusters {
		f.apply(c, filling(urgentPod, 0))
		for kind := range f.demand {
			f.apply(c, filling(kind, 0))
		}
	}
	f.want(blue, true)
	f.await("all pods of blue run", func() string { return f.runs(0) })
	f.settled("with machines in blue")

	f.record.mark("moves")
	f.move(blue, green)
	f.await("all pods of green run", func() string { return f.runs(1) })
	f.settled("with machines in green")

	f.record.mark("wave")
	f.apply(green, budget(hostType, n-part))
	f.watches[1].guard(hostType, int(n-part))
	since := time.Now()
	f.scale(blue, urgentPod, part)
	f.await("the wave runs", func() string { return f.lacks(0, urgentPod, part) })
	f.settled("after the wave")
	f.checkTaken(int(part))
	f.t.Logf("%d machines were preempted; the wave ran %.1f s after it was asked for", part, time.Since(since).Seconds())
	f.checkBudgets()
	f.scale(blue, urgentPod, 0)
	f.await("the victims run again", func() string { return f.runs(1) })
	f.settled("after the victims run again")

	f.record.mark("loss")
	f.watches[1].guard(hostType, 0)
	f.loses(int(part))
	f.await("what was lost is replaced", func() string { return f.runs(1) })
	f.settled("after the loss")

	at := 1
	if f.empty != nil {
		f.withoutStock()
		at = 0
	}
	f.record.mark("kills")
	f.torment(at)
	f.record.mark("nothing")
	for _, c := range f.clusters {
		f.want(c, false)
	}
	f.await("all is given back", func() string {
		if existing, _, _ := f.listed(); len(existing) > 0 {
			return fmt.Sprintf("there are %d machines, one is %s", len(existing), existing[0])
		}
		return verdict(f.unaccounted())
	})
}

// The zones of a cloud that can be out of stock. Machines of the first are cheaper.
const (
	zoneCheap = "z0"
	zoneDear  = "z1"
)

// withoutStock moves the demand from green to blue while the cloud has nothing in the cheap zone.
func (f *handsFleet) withoutStock() {
	f.t.Helper()
	f.record.mark("no stock")
	f.empty(zoneCheap)
	since := time.Now()
	f.move(f.clusters[1], f.clusters[0])
	f.await("all pods of blue run in the zone that has machines", func() string { return f.runs(0) })
	f.settled("without stock in a zone")
	f.t.Logf("all pods ran in the other zone %.1f s after they moved", time.Since(since).Seconds())
	w := f.watches[0]
	w.mu.Lock()
	for name, n := range w.nodes {
		if zone := n.Labels[corev1.LabelTopologyZone]; zone != zoneDear {
			f.t.Errorf("%s is in zone %s, which has no machines", name, zone)
		}
	}
	w.mu.Unlock()
	told := 0
	f.maker.mu.Lock()
	for id, m := range f.maker.machines {
		if m.State != pb.MachineState_MACHINE_STATE_FAILED || f.wasLost(m) {
			continue
		}
		if m.Zone != zoneCheap || !strings.Contains(m.LastError, "nsufficient") {
			f.t.Errorf("%s in zone %s is Failed: %s", id, m.Zone, m.LastError)
		}
		told++
	}
	f.maker.mu.Unlock()
	if told == 0 {
		f.t.Error("nothing is Failed in the zone that has no machines")
	}
	f.empty("")
}

// wasLost tells whether a machine is Failed since its node was lost.
func (f *handsFleet) wasLost(m *pb.Machine) bool {
	for name := range f.lost {
		if strings.Contains(m.LastError, name+" is gone") {
			return true
		}
	}
	return false
}

// want has a cluster want everything, or nothing.
func (f *handsFleet) want(c *cluster, all bool) {
	f.t.Helper()
	for kind, n := range f.demand {
		if !all {
			n = 0
		}
		f.scale(c, kind, n)
	}
}

// move has the demand of one cluster become another's.
func (f *handsFleet) move(from, to *cluster) {
	f.t.Helper()
	f.want(from, false)
	f.want(to, true)
}

// runs says what does not run of a cluster that is to have all machines.
func (f *handsFleet) runs(i int) string {
	for kind, n := range f.demand {
		if why := f.lacks(i, kind, n); why != "" {
			return why
		}
	}
	return ""
}

// unaccounted compares the provider's machines with what exists at the driver's end, and with the nodes.
func (f *handsFleet) unaccounted() (faults []string) {
	existing, nodes, ids := f.listed()
	if existing == nil {
		return []string{"the provider does not answer"}
	}
	faults = append(f.counted(existing), f.mispriced()...)
	for _, c := range f.clusters {
		faults = append(faults, f.disagree(c, nodes[c.name], ids[c.name])...)
	}
	if why := orphansAt(f.orphans); why != "" {
		faults = append(faults, why)
	}
	return faults
}

// mispriced says which machines cost something else than was declared.
func (f *handsFleet) mispriced() (faults []string) {
	f.maker.mu.Lock()
	defer f.maker.mu.Unlock()
	for id, m := range f.maker.machines {
		if want, ok := f.prices[m.Zone]; ok && m.InstanceType == hostType && m.PricePerHour != want {
			faults = append(faults, fmt.Sprintf("machine %s costs $%v an hour, declared are $%v", id, m.PricePerHour, want))
		}
	}
	return faults
}

// loses has machines be lost, and waits until these are out of the listing.
func (f *handsFleet) loses(n int) {
	f.t.Helper()
	lost := f.lose(n)
	f.lost = lost
	if len(lost) != n {
		f.t.Errorf("%d machines were lost, %d were to be", len(lost), n)
	}
	took := eventually(f.t, *limit, "lost machines are out of the listing", func() string {
		_, nodes, _ := f.listed()
		for _, all := range nodes {
			for _, name := range all {
				if lost[name] {
					return name + " is listed"
				}
			}
		}
		return ""
	})
	f.t.Logf("%d lost machines were out of the listing after %.1f s", len(lost), took.Seconds())
	if took > lossMax {
		f.t.Errorf("lost machines were listed for %v, want %v at most", took, lossMax)
	}
}

// torment kills processes at random moments, while the demand moves: whenever it has machines in one cluster, it goes to the
// other. at is the cluster that has it.
func (f *handsFleet) torment(at int) {
	f.t.Helper()
	seed := *e2eSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	f.t.Logf("-seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	moves, hits, done := 0, 0, 0
	follow := func() {
		if f.runs(at) == "" {
			f.move(f.clusters[at], f.clusters[1-at])
			at = 1 - at
			moves++
		}
	}
	for range *kills {
		for _, p := range f.victims {
			follow()
			next := time.NewTimer(time.Duration(rng.Int64N(int64(killPauseMax))))
			<-next.C
			// Some kills wait for machines that change; the others meet what there is.
			met := f.changes()
			if !met && done%hitsOf == 0 {
				eventually(f.t, *limit, "machines change", func() string {
					if follow(); f.changes() {
						return ""
					}
					return "none does"
				})
				met = true
			}
			if done++; met {
				hits++
			}
			p.kill()
			p.start()
		}
	}
	f.t.Logf("%d of %d kills while machines changed, which followed the demand %d times", hits, done, moves)
	f.await("after all kills the pods run", func() string { return f.runs(at) })
	f.settled("after all kills")
}

// changes tells whether a machine was on its way from one state to another when the provider was heard last.
func (f *handsFleet) changes() bool {
	f.maker.mu.Lock()
	defer f.maker.mu.Unlock()
	for _, m := range f.maker.machines {
		switch m.State {
		case pb.MachineState_MACHINE_STATE_CREATING, pb.MachineState_MACHINE_STATE_CONFIGURING, pb.MachineState_MACHINE_STATE_DRAINING, pb.MachineState_MACHINE_STATE_DELETING:
			return true
		}
	}
	return false
}

// lacks says how many pods of a kind do not run on nodes that are there.
func (f *handsFleet) lacks(i int, kind string, n int32) string {
	if have := f.watches[i].runningOnNodes(kind); have != int(n) {
		return fmt.Sprintf("%d of %d pods of %s run", have, n, kind)
	}
	return ""
}

// settled waits until everything that exists is accounted for.
func (f *handsFleet) settled(when string) {
	f.t.Helper()
	f.await(when+" everything is accounted for", func() string { return verdict(f.unaccounted()) })
}

// watchOwners watches for the whole run that no machine is a node of two clusters, and that no
// machine has two processes.
func (f *handsFleet) watchOwners() {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	since := map[string]time.Time{} // nodes that both have
	running.Go(func() {
		ticker := time.NewTicker(ownersTick)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			both := f.shared()
			for name := range since {
				if !both[name] {
					delete(since, name)
				}
			}
			for name := range both {
				if since[name].IsZero() {
					since[name] = time.Now()
				} else if time.Since(since[name]) > twiceMax {
					f.t.Errorf("%s is a node of two clusters", name)
					return
				}
			}
		}
	})
	f.t.Cleanup(func() { cancel(); running.Wait() })
}
