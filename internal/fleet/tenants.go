package fleet

import (
	"fmt"
	"slices"

	"github.com/tonnage/tonnage/engine/model"
)

// tenants deals the clusters out to one or two tenants; some are nobody's.
func (d *draw) tenants() {
	d.w.Tenants = make([]Tenant, 1+d.IntN(2))
	for i := range d.w.Tenants {
		d.w.Tenants[i] = Tenant{Name: fmt.Sprintf("t%d", i), Share: times(d.unit(), pick(d, int64(1), 2, 4, 8))}
	}
	for _, c := range d.clusters {
		if i := d.IntN(len(d.w.Tenants) + 1); i < len(d.w.Tenants) {
			d.w.Tenants[i].Clusters = append(d.w.Tenants[i].Clusters, c)
		}
	}
}

// backOff draws owners whose plan has failed, of those who have rows.
func (d *draw) backOff() {
	d.w.BackingOff = map[model.Owner]bool{}
	for i := range d.w.Needs {
		if d.chance(0.3) {
			d.w.BackingOff[d.w.Needs[i].Owner()] = true
		}
	}
}

// Shared returns the world with up to four tenants, of whom some have more and
// some less than their share: shares are parts of what is bound to the clusters.
func Shared(w World, seed int64) World {
	d := &draw{Rand: newRand(^seed), w: w.Clone()}
	d.w.OneByOne = false
	d.w.Tenants = make([]Tenant, 2+d.IntN(3))
	for i := range d.w.Tenants {
		d.w.Tenants[i].Name = fmt.Sprintf("t%d", i)
	}
	var clusters []string
	for i := range w.Machines {
		clusters = append(clusters, w.Machines[i].Cluster)
	}
	for i := range w.Needs {
		clusters = append(clusters, w.Needs[i].Cluster)
	}
	slices.Sort(clusters)
	for _, c := range slices.Compact(clusters) {
		if c != "" && d.chance(0.95) {
			t := &d.w.Tenants[d.IntN(len(d.w.Tenants))]
			t.Clusters = append(t.Clusters, c)
		}
	}
	for i := range d.w.Tenants {
		d.w.Tenants[i].Share = d.shareOf(d.w.Tenants[i].Clusters)
	}
	return d.w
}

// shareOf draws a share of what is bound to a tenant's clusters: of some
// dimensions a part, or more than there is.
func (d *draw) shareOf(clusters []string) model.Resources {
	var bound, share model.Resources
	for i := range d.w.Machines {
		if m := &d.w.Machines[i]; slices.Contains(clusters, m.Cluster) {
			bound = bound.Add(m.EffectiveAllocatable())
		}
	}
	for _, a := range bound {
		if d.chance(0.6) {
			part := pick(d, int64(0), 4, 8, 8, 12, 16, 32)
			share = append(share, model.Amount{Name: a.Name, Value: max(1, model.SatMul(a.Value/16, part))})
		}
	}
	if len(share) == 0 || d.chance(0.1) {
		share = append(share, model.Amount{Name: "vendor.example/chip", Value: 8})
	}
	return model.NewResources(share...)
}
