package kubee2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	api "github.com/tonnage/tonnage/api/v1alpha1"
	"github.com/tonnage/tonnage/operator/mirror"
)

// listed returns the machines that exist as the provider says, and by cluster their nodes and ids.
func (f *fleet) listed() (existing []string, nodes, ids map[string][]string) {
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
func (f *fleet) disagree(c *cluster, nodes, ids []string) (faults []string) {
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

// oneEach says which machines have not one object each. made is of which machine an object is.
func oneEach(existing []string, objects string, made map[string]string) (faults []string) {
	of := map[string]int{}
	for _, id := range existing {
		of[id] = 0
	}
	for object, id := range made {
		if _, ok := of[id]; !ok {
			faults = append(faults, fmt.Sprintf("%s is of machine %q, which the provider does not have", object, id))
		}
		of[id]++
	}
	for id, n := range of {
		if n != 1 {
			faults = append(faults, fmt.Sprintf("machine %s has %d %s", id, n, objects))
		}
	}
	return faults
}

// checkTaken holds that so many machines were preempted, none twice.
func (f *fleet) checkTaken(n int) {
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
func (f *fleet) checkBudgets() {
	f.t.Helper()
	for _, w := range f.watches {
		if v := verdict(w.faults()); v != "" {
			f.t.Error("budgets: ", v)
		}
	}
}

// orphansAt returns what a provider reports at a URL as orphans, as it is written.
func orphansAt(url string) string {
	c := &http.Client{Timeout: 5 * time.Second}
	answer, err := c.Get(url)
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	var all struct{ Orphans []json.RawMessage }
	if err := json.NewDecoder(answer.Body).Decode(&all); err != nil {
		return err.Error()
	}
	if len(all.Orphans) == 0 {
		return ""
	}
	return fmt.Sprintf("%d orphans, the first: %s", len(all.Orphans), all.Orphans[0])
}

// shared returns the nodes that two clusters have.
func (f *fleet) shared() map[string]bool {
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
