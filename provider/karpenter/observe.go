package karpenter

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/tonnage/tonnage/provider/driver"
)

// Observe reports all claims of the driver's scope in all clusters, and claims that Karpenter has deleted before they were
// launched. Of clusters that cannot be listed it says so, as driver.Unseen.
func (d *Driver) Observe(ctx context.Context, yield func(*driver.Observation)) error {
	first, cancel := context.WithTimeout(ctx, firstListTimeout)
	defer cancel()
	unseen := map[string]error{}
	for _, id := range slices.Sorted(maps.Keys(d.clusters)) {
		if err := d.clusters[id].observe(ctx, first, yield); err != nil {
			unseen[id] = err
		}
	}
	if len(unseen) > 0 {
		return &driver.Unseen{Clusters: unseen}
	}
	return nil
}

// observe reports the claims of a cluster. What vanished is only known when all that is there was seen.
func (c *cluster) observe(ctx, first context.Context, yield func(*driver.Observation)) error {
	if !c.claims.Synced() && !c.waited {
		_ = c.claims.Await(first, "") // Trouble says why not
	}
	c.waited = true
	trouble := c.claims.Trouble()
	var rows []*claim
	c.claims.Each(func(_ string, row *claim) { rows = append(rows, row) })
	reasons := sync.OnceValues(func() (map[string]reason, error) { return c.reasons(ctx) })
	seen, away := map[string]bool{}, map[string]bool{}
	for _, row := range rows {
		seen[row.name] = true
		o := row.said
		if f := c.see(row); f != nil {
			o = c.tell(row.name, f, reasons)
		} else {
			away[row.name] = c.describe(first, row, &o)
		}
		yield(&o)
	}
	c.found(away)
	if trouble != nil {
		return c.because(ctx, trouble)
	}
	vanished := c.vanished(seen)
	for _, name := range slices.Sorted(maps.Keys(vanished)) {
		o := c.tell(name, vanished[name], reasons)
		yield(&o)
	}
	return nil
}

// describe says what is known of a claim that Karpenter keeps. It tells whether its node is missing.
func (c *cluster) describe(first context.Context, row *claim, o *driver.Observation) (missing bool) {
	o.Node, o.Ref = row.node, row.providerID
	if o.Ref == "" {
		o.Ref = "nodeclaim/" + row.name
	}
	o.Phase, o.Reason = driver.Configuring, row.waits
	switch {
	case row.fault != nil:
		o.ID, o.Phase, o.Reason = row.name, driver.Creating, row.fault.Error()
		return false
	case row.draining():
		o.Phase = driver.Draining
		return false
	case row.deleting:
		o.Phase = driver.Deleting
		return false
	case row.node == "":
		return false
	}
	if !c.nodes.Synced() {
		_ = c.nodes.Await(first, "")
	}
	if err := c.nodes.Trouble(); err != nil {
		o.Reason = err.Error()
		return false
	}
	n, ok := c.nodes.Get(row.node)
	if !ok {
		c.nodeMissing(first, row, o)
		return true
	}
	o.Labels, o.Taints, o.Allocatable = n.Labels, n.Taints, n.Allocatable
	lacks := row.want.Lacks(n)
	if row.ready && len(lacks) == 0 {
		o.Phase, o.Reason = driver.Configured, ""
		return false
	}
	if row.waits != "" {
		lacks = slices.Insert(lacks, 0, row.waits)
	}
	o.Reason = strings.Join(lacks, "; ")
	return false
}
