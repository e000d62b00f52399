package kubee2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	api "github.com/tonnage/tonnage/api/v1alpha1"
	"github.com/tonnage/tonnage/operator/mirror"
)

const (
	// lossSeconds is within what time a lost machine is out of the listing.
	lossSeconds = 10
	// ownersTick is how often it is looked whether two clusters have one node.
	ownersTick = 500 * time.Millisecond
	// flipEvery is after how many kills the demand moves.
	flipEvery = 3
	// twiceMax is how long both clusters may seem to have a node: what is seen of them is late.
	twiceMax = 6 * ownersTick
)

// TestExec has a fleet of processes and guests go through demand that comes, moves and preempts,
// machines that are lost, and provider and shard that are killed.
func TestExec(t *testing.T) {
	want(t, "exec")
	f := newExecFleet(t)
	n, part := int32(*machines), int32(max(1, *machines/5))
	blue, green := f.clusters[0], f.clusters[1]

	f.record.mark("demand")
	for _, c := range f.clusters {
		f.apply(c, filling(hostType, 0), filling(urgentPod, 0), filling(guestType, 0))
	}
	f.scale(blue, hostType, n)
	f.scale(blue, guestType, int32(*guests))
	f.await("all pods of blue run", func() string { return f.runs(0, n) })
	f.settled("with machines in blue")

	f.record.mark("moves")
	f.move(blue, green, n)
	f.await("all pods of green run", func() string { return f.runs(1, n) })
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
	f.await("the victims run again", func() string { return f.runs(1, n) })
	f.settled("after the victims run again")

	f.record.mark("loss")
	f.watches[1].guard(hostType, 0)
	f.lose(int(part))
	f.await("what was lost is replaced", func() string { return f.runs(1, n) })
	f.settled("after the loss")

	f.record.mark("kills")
	f.torment(n)
	f.record.mark("nothing")
	for _, c := range f.clusters {
		f.scale(c, hostType, 0)
		f.scale(c, guestType, 0)
	}
	f.await("all is given back", func() string {
		for dir := range map[string]bool{f.hosts: true, f.guests: true} {
			if names, _ := f.folders(dir); len(names) > 0 {
				return fmt.Sprintf("there are %d machines, one is %s", len(names), names[0])
			}
		}
		return verdict(f.unaccounted())
	})
	if pids := append(processesOf(t, f.hosts+"/"), processesOf(t, f.guests+"/")...); len(pids) > 0 {
		t.Errorf("of all machines, processes are left: %v", pids)
	}
}

// move has the demand of one cluster become another's.
func (f *execFleet) move(from, to *cluster, n int32) {
	f.t.Helper()
	f.scale(from, hostType, 0)
	f.scale(to, hostType, n)
	f.scale(from, guestType, 0)
	f.scale(to, guestType, int32(*guests))
}

// runs says what does not run of a cluster that is to have all machines.
func (f *execFleet) runs(i int, n int32) string {
	if why := f.lacks(i, hostType, n); why != "" {
		return why
	}
	return f.lacks(i, guestType, int32(*guests))
}

// lacks says how many pods of a kind do not run on nodes that are there.
func (f *execFleet) lacks(i int, kind string, n int32) string {
	if have := f.watches[i].runningOnNodes(kind); have != int(n) {
		return fmt.Sprintf("%d of %d pods of %s run", have, n, kind)
	}
	return ""
}

// settled waits until everything that exists is accounted for.
func (f *execFleet) settled(when string) {
	f.t.Helper()
	f.await(when+" everything is accounted for", func() string { return verdict(f.unaccounted()) })
}

// unaccounted compares the provider's machines with the folders of the scripts, the processes
// and the nodes.
func (f *execFleet) unaccounted() (faults []string) {
	existing, nodes, ids := f.listed()
	if existing == nil {
		return []string{"the provider does not answer"}
	}
	folders, alive := f.folders(f.hosts)
	more, moreAlive := f.folders(f.guests)
	if n := len(folders) + len(more); n != len(existing) || alive+moreAlive != n {
		faults = append(faults, fmt.Sprintf("the provider has %d machines, there are %d with %d processes", len(existing), n, alive+moreAlive))
	}
	for _, c := range f.clusters {
		faults = append(faults, f.disagree(c, nodes[c.name], ids[c.name])...)
	}
	if why := f.orphaned(); why != "" {
		faults = append(faults, why)
	}
	return faults
}

// listed returns the machines that exist as the provider says, and by cluster their nodes and ids.
func (f *execFleet) listed() (existing []string, nodes, ids map[string][]string) {
	f.maker.mu.Lock()
	defer f.maker.mu.Unlock()
	if f.maker.machines == nil {
		return nil, nil, nil
	}
	existing, nodes, ids = []string{}, map[string][]string{}, map[string][]string{}
	for id, m := range f.maker.machines {
		if hasHost(m.State) {
			existing = append(existing, id)
		}
		if m.Cluster != "" {
			nodes[m.Cluster] = append(nodes[m.Cluster], m.Labels[corev1.LabelHostname])
			ids[m.Cluster] = append(ids[m.Cluster], mirror.NodeName(id))
		}
	}
	return existing, nodes, ids
}

// disagree says where a cluster and the provider do not agree.
func (f *execFleet) disagree(c *cluster, nodes, ids []string) (faults []string) {
	ctx, cancel := brief()
	defer cancel()
	var have corev1.NodeList
	var coming api.UpcomingNodeList
	for _, err := range []error{c.client.List(ctx, &have), c.client.List(ctx, &coming)} {
		if err != nil {
			return []string{err.Error()}
		}
	}
	var names, told []string
	for i := range have.Items {
		names = append(names, have.Items[i].Name)
	}
	for i := range coming.Items {
		// One that is Failed says what became of a machine that was lost.
		if coming.Items[i].Status.Phase != api.NodeFailed {
			told = append(told, coming.Items[i].Name)
		}
	}
	for _, x := range []*[]string{&names, &told, &nodes, &ids} {
		slices.Sort(*x)
	}
	if !slices.Equal(names, nodes) {
		faults = append(faults, fmt.Sprintf("%s has %d nodes, the provider %d machines there", c.name, len(names), len(nodes)))
	}
	if !slices.Equal(told, ids) {
		faults = append(faults, fmt.Sprintf("%s has %d UpcomingNodes, the provider %d machines there", c.name, len(told), len(ids)))
	}
	return faults
}

// checkTaken holds that so many machines were preempted, none twice.
func (f *execFleet) checkTaken(n int) {
	f.t.Helper()
	seen := map[string]bool{}
	for _, x := range f.acts("Preempt") {
		if seen[x.Machine] {
			f.t.Errorf("%s was preempted twice", x.Machine)
		}
		seen[x.Machine] = true
	}
	if len(seen) != n {
		f.t.Errorf("%d machines were preempted, want %d", len(seen), n)
	}
}

// checkBudgets holds that no floor of a budget was broken.
func (f *execFleet) checkBudgets() {
	f.t.Helper()
	for _, w := range f.watches {
		if v := verdict(w.faults()); v != "" {
			f.t.Error("budgets: ", v)
		}
	}
}

// lose kills processes that are machines, and waits until these are out of the listing.
func (f *execFleet) lose(n int) {
	f.t.Helper()
	names, _ := f.folders(f.hosts)
	killed := map[string]bool{}
	for _, name := range names[:n] {
		if pid := processOf(filepath.Join(f.hosts, name)); pid != 0 {
			_ = syscall.Kill(-pid, syscall.SIGKILL)
			killed[name] = true
		}
	}
	took := eventually(f.t, *limit, "lost machines are out of the listing", func() string {
		_, nodes, _ := f.listed()
		for _, all := range nodes {
			for _, name := range all {
				if killed[name] {
					return name + " is listed"
				}
			}
		}
		return ""
	})
	f.t.Logf("%d lost machines were out of the listing after %.1f s", len(killed), took.Seconds())
	if took > lossSeconds*time.Second {
		f.t.Errorf("lost machines were listed for %v, want %d s at most", took, lossSeconds)
	}
}

// torment kills provider and shard at random moments, while the demand moves again and again.
func (f *execFleet) torment(n int32) {
	f.t.Helper()
	seed := *e2eSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	f.t.Logf("-seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	at := 1
	for i := range *kills {
		if i%flipEvery == flipEvery-1 {
			f.move(f.clusters[at], f.clusters[1-at], n)
			at = 1 - at
		}
		for _, p := range []*process{f.provider, f.shard} {
			next := time.NewTimer(time.Duration(rng.IntN(3000)) * time.Millisecond)
			<-next.C
			p.kill()
			p.start()
		}
	}
	f.await("after all kills the pods run", func() string { return f.runs(at, n) })
	f.settled("after all kills")
}

// watchOwners watches for the whole run that no machine is a node of two clusters, and that no
// machine has two processes.
func (f *execFleet) watchOwners() {
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

// shared returns the nodes that two clusters have.
func (f *execFleet) shared() map[string]bool {
	seen, out := map[string]bool{}, map[string]bool{}
	for _, w := range f.watches {
		w.mu.Lock()
		for name := range w.nodes {
			out[name] = seen[name]
			seen[name] = true
		}
		w.mu.Unlock()
	}
	for name, twice := range out {
		if !twice {
			delete(out, name)
		}
	}
	return out
}
