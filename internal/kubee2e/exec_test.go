package kubee2e

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
)

const (
	// lossSeconds is within what time a lost machine is out of the listing.
	lossSeconds = 10
	// ownersTick is how often it is looked whether two clusters have one node.
	ownersTick = 500 * time.Millisecond
	// killsMany is from how many kills of each on some must meet machines that change.
	killsMany = 16
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
	if spent, err := f.spent(); err != nil || math.Abs(spent-execPrice*float64(len(existing))) > 1e-6 {
		faults = append(faults, fmt.Sprintf("%d machines cost %g an hour each, and the shard spends %g (%v)", len(existing), execPrice, spent, err))
	}
	if why := orphansAt(f.orphans); why != "" {
		faults = append(faults, why)
	}
	return faults
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

// torment kills provider and shard at random moments, while the demand moves: whenever it has machines in one cluster, it goes
// to the other.
func (f *execFleet) torment(n int32) {
	f.t.Helper()
	seed := *e2eSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	f.t.Logf("-seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	at, moves, hits := 1, 0, 0
	for range *kills {
		for _, p := range []*process{f.provider, f.shard} {
			if f.runs(at, n) == "" {
				f.move(f.clusters[at], f.clusters[1-at], n)
				at = 1 - at
				moves++
			}
			awaitMoment(rng, f.changes)
			if f.changes() {
				hits++
			}
			p.kill()
			p.start()
		}
	}
	f.t.Logf("%d of %d kills while machines changed, which followed the demand %d times", hits, 2**kills, moves)
	if *kills >= killsMany && hits == 0 {
		f.t.Error("no kill met machines that changed")
	}
	f.await("after all kills the pods run", func() string { return f.runs(at, n) })
	f.settled("after all kills")
}

// changes tells whether a machine was on its way from one state to another when the provider was heard last.
func (f *execFleet) changes() bool {
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
