package kubee2e

import (
	"slices"
	"time"
)

// The links of the chain from a pod to its first breath, in their order.
const (
	linkAsked   = iota // the pod has a request
	linkTaken          // a machine is being configured for the cluster
	linkBooted         // its node is there
	linkPlaced         // the pod is on it
	linkRunning        // it runs
	links
)

var linkNames = [links]string{"request", "machine", "node", "placed", "running"}

// chain returns how long the pods of a kind waited for each link, in order. Of
// pods that were put on a node that stood before they were asked for, nothing is
// said.
func (w *watch) chain(kind string, m *maker) (waits [links][]time.Duration) {
	taken := m.takenAt(w.c.name)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.pods {
		at := [links + 1]time.Time{s.created, s.asked, taken[s.node], w.stood[s.node], s.placed, s.running}
		if s.kind != kind || slices.ContainsFunc(at[:], time.Time.IsZero) || at[1+linkTaken].Before(s.created) {
			continue
		}
		for i := range waits {
			waits[i] = append(waits[i], max(at[i+1].Sub(at[i]), 0))
		}
	}
	for i := range waits {
		slices.Sort(waits[i])
	}
	return waits
}

// reportChain prints where the time went.
func (f *fleet) reportChain(of ...string) {
	var all [links][]time.Duration
	for _, kind := range of {
		for _, w := range f.watches {
			for i, d := range w.chain(kind, f.maker) {
				all[i] = append(all[i], d...)
			}
		}
	}
	for i, d := range all {
		slices.Sort(d)
		f.t.Logf("    to %-8s p50 %5.1f s   p99 %5.1f s", linkNames[i], quantile(d, 0.5), quantile(d, 0.99))
	}
}
