package provider

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/provider/epoch"
)

// arrive moves a record to a settled state, with what was observed.
func (r *record) arrive(to model.State, obs *driver.Observation, now time.Time) {
	cluster, metadata := r.Cluster, r.Metadata
	r.move(to, now)
	if to == model.Configured {
		r.Cluster, r.Metadata = cluster, metadata
	}
	if obs != nil && to != model.Speculative {
		r.refresh(obs)
	}
}

// refresh takes over what is known of the real machine.
func (r *record) refresh(obs *driver.Observation) {
	if model.CheckOptionalName(obs.Ref) != nil || model.CheckOptionalName(obs.Node) != nil {
		return // nobody could read the record
	}
	r.Ref = obs.Ref
	if r.State != model.Configured {
		return
	}
	r.Node, r.Allocatable = obs.Node, obs.Allocatable
	r.Labels = nil
	if obs.Node != "" {
		r.Labels = map[string]string{labelHostname: obs.Node}
	}
}

// labelHostname names the node, by which an operator finds it.
const labelHostname = "kubernetes.io/hostname"

// differs tells whether there is anything for refresh.
func (r *record) differs(obs *driver.Observation) bool {
	if r.State != model.Configured && r.State != model.Configuring && (r.State != model.Idle || r.LateBound) || obs.Ref == "" {
		return false
	}
	return r.Ref != obs.Ref || r.State == model.Configured && (r.Node != obs.Node && obs.Node != "" || obs.Allocatable != nil && !r.Allocatable.Equal(obs.Allocatable))
}

// adoptAll takes over what exists and has no record: all of it when the file was lost, and
// what another provider has gone on with when it is an old copy. The rest are orphans.
func (p *Provider) adoptAll(h *hand, exists map[string][]driver.Observation, now time.Time) {
	found, unlisted := map[string]*Orphan{}, 0
	for _, id := range slices.Sorted(maps.Keys(exists)) {
		newest := &exists[id][0]
		for k := range exists[id] {
			if o := &exists[id][k]; o.Generation > newest.Generation {
				newest = o
			}
		}
		i, known := p.table.byID[id]
		if known && (p.table.rows[i].rec != nil && newest.Generation <= p.table.rows[i].rec.Generation || newest.Phase == driver.Deleting) {
			continue
		}
		why := p.cannotAdopt(h, newest, known)
		if why == "" {
			p.adopt(h, newest, now)
			continue
		}
		x := &Orphan{
			Driver: h.spec.Name, ID: id, Generation: newest.Generation, Pool: newest.Pool, InstanceType: newest.InstanceType, Zone: newest.Zone,
			CapacityType: newest.CapacityType.String(), Phase: newest.Phase.String(), Ref: newest.Ref, Cluster: newest.Cluster, LateBound: newest.LateBound, Host: newest.HostName, Why: why, Since: now,
		}
		x.ID = x.ID[:min(len(x.ID), model.NameBytesMax)]
		if was := h.orphans[x.key()]; was != nil {
			x.Since = was.Since
		} else {
			p.log.Error("orphan: it exists and nobody asked for it", "driver", x.Driver, "machine", id, "generation", x.Generation, "phase", x.Phase, "ref", x.Ref, "why", why)
		}
		if unlisted++; len(found) < OrphansMax {
			found[x.key()] = x
			unlisted--
		}
	}
	h.orphans, h.unlisted = found, unlisted
}

// cannotAdopt says why an object cannot get a record, "" = it can.
func (p *Provider) cannotAdopt(h *hand, o *driver.Observation, known bool) string {
	of := p.offers[o.Key]
	if err := model.CheckName(o.ID); err != nil {
		return fmt.Sprintf("its id %v", err)
	}
	switch n, ours := p.number(o.Pool, o.ID); {
	case of == nil || of.pool == nil:
		return "no pool has such an offer"
	case of.pool.Driver != h.spec.Name:
		return fmt.Sprintf("its pool is of driver %q", of.pool.Driver)
	case !known && ours && n <= p.books.Sequence:
		return "its machine was given up before"
	case o.Generation == 0:
		return "it has no generation"
	case (o.Phase == driver.Configuring || o.Phase == driver.Configured || o.Phase == driver.Draining) && o.Cluster == "":
		return "it does not say for which cluster it is"
	}
	return ""
}

// adopt makes a record of an object.
func (p *Provider) adopt(h *hand, obs *driver.Observation, now time.Time) {
	o := p.offers[obs.Key]
	r := &record{ID: obs.ID, Key: obs.Key, Driver: h.spec.Name, Host: obs.HostName, LateBound: obs.LateBound, Generation: obs.Generation, Op: shard.OpAny}
	switch obs.Phase {
	case driver.Creating:
		r.move(model.Creating, now)
	case driver.Idle:
		r.move(model.Idle, now)
	case driver.Configuring:
		r.move(model.Configuring, now)
	case driver.Configured:
		r.move(model.Configured, now) // whatever it lacks: pods may run there
	case driver.Draining:
		r.move(model.Draining, now)
	case driver.Deleting:
		if r.move(model.Deleting, now); obs.LateBound {
			return // nothing is listed of one that goes
		}
	case driver.Failed:
		r.fail(broken(obs).fail, now)
	}
	r.Asked = true
	r.Owner, r.Cluster, r.Metadata = obs.Owner, obs.Cluster, obs.Metadata
	r.refresh(obs)
	if i, known := p.table.byID[obs.ID]; known {
		p.change(i, func(was *record) { r.Op, r.Operation = was.Op, was.Operation; *was = *r })
	} else {
		p.addUsed(o, row{id: r.ID, rec: r})
		p.account.charge(o, 1)
	}
	if n, ours := p.number(obs.Pool, obs.ID); ours && n > p.books.Sequence { // the records are an old copy
		p.books.Sequence, p.pending.books = n, true
	}
	p.pending.rows[r.ID] = true
	p.fence.Seen(obs.Owner.Shard, r.ID, epoch.Token{Epoch: obs.Owner.Epoch, Sequence: obs.Owner.Sequence})
	p.stats.adopted++
	p.log.Warn("adopted", "driver", h.spec.Name, "machine", r.ID, "phase", obs.Phase.String(), "cluster", r.Cluster, "ref", r.Ref)
}
