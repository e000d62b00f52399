package kubee2e

import (
	"bufio"
	"encoding/json"
	"os"
	"time"
)

// act is a line of the shard's audit log.
type act struct {
	Cycle        uint64 `json:"cycle"`
	Disposition  string `json:"disposition"`
	Kind         string `json:"kind"`
	Machine      string `json:"machine"`
	Cluster      string `json:"cluster"`
	GraceSeconds int32  `json:"graceSeconds"`
	Outcome      string `json:"outcome"`
}

// acts reads what the shard carried out of one kind.
func (f *fleet) acts(kind string) (out []act) {
	f.t.Helper()
	file, err := os.Open(f.auditFile())
	if err != nil {
		f.t.Fatal(err)
	}
	defer file.Close()
	for s := bufio.NewScanner(file); s.Scan(); {
		var x act
		if err := json.Unmarshal(s.Bytes(), &x); err != nil {
			continue // half a line, of a process that was killed
		}
		if x.Kind == kind && x.Disposition == "executed" {
			out = append(out, x)
		}
	}
	return out
}

// checkPreemptions holds what was preempted against the promises: so many
// machines as must be, none twice, each cordoned and empty within its grace.
func (f *fleet) checkPreemptions(machines int, since time.Time) {
	f.t.Helper()
	preempts := f.acts("Preempt")
	grace := map[string]time.Duration{}
	for _, x := range preempts {
		if _, twice := grace[x.Machine]; twice {
			f.t.Errorf("%s was preempted twice", x.Machine)
		}
		grace[x.Machine] = time.Duration(x.GraceSeconds) * time.Second
	}
	if len(preempts) != machines {
		f.t.Errorf("%d machines were preempted, want %d: %+v", len(preempts), machines, preempts)
	}
	seen := 0
	for _, w := range f.watches {
		for _, c := range w.drains() {
			allowed, victim := grace[c.node]
			if !victim || c.at.Before(since) {
				continue
			}
			seen++
			if c.empty.IsZero() || c.empty.Sub(c.at) > allowed {
				f.t.Errorf("%s: %s was cordoned at %v and empty at %v, not within %v", w.c.name, c.node, c.at, c.empty, allowed)
			}
			f.t.Logf("%s: %s was empty %.1f s after its cordon, the grace is %v", w.c.name, c.node, c.empty.Sub(c.at).Seconds(), allowed)
		}
	}
	if seen != len(grace) {
		f.t.Errorf("%d nodes were cordoned, %d preempted", seen, len(grace))
	}
}

// checkUnharmed holds that no floor of a budget was broken, and that no machine
// left with pods on it.
func (f *fleet) checkUnharmed() {
	f.t.Helper()
	for _, w := range f.watches {
		if v := verdict(w.faults()); v != "" {
			f.t.Error("budgets: ", v)
		}
	}
	if v := verdict(f.maker.abandoned()); v != "" {
		f.t.Error("machines left with pods on them: ", v)
	}
}

// checkReclaims holds that no cycle reclaimed more than the cap of a cluster that
// has so many machines at most.
func (f *fleet) checkReclaims(machines int) {
	f.t.Helper()
	type round struct {
		cluster string
		cycle   uint64
		process int // cycles count from one in every process
	}
	process, last, top := 0, uint64(0), 0
	counts := map[round]int{}
	all := f.acts("Reclaim")
	for _, x := range all {
		if x.Cycle < last {
			process++
		}
		last = x.Cycle
		r := round{x.Cluster, x.Cycle, process}
		counts[r]++
		top = max(top, counts[r])
		if limit := max(1, int(reclaimCap*float64(machines))); counts[r] > limit {
			f.t.Errorf("cycle %d reclaimed more than %d machines of %s", x.Cycle, limit, x.Cluster)
		}
	}
	f.t.Logf("%d machines were reclaimed, at most %d of a cluster in a cycle", len(all), top)
}
