package provider

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/pools"
	"github.com/tonnage/tonnage/provider/wire"
	"github.com/tonnage/tonnage/shard"
)

// freeKind is why a free slot may be taken or not.
type freeKind uint8

const (
	freeOpen freeKind = iota
	freeHeld
	freeNoRoom
	numFreeKinds
)

func (k freeKind) state() model.State {
	if k == freeOpen {
		return model.Speculative
	}
	return model.Failed
}

// offer is an offer with its slots.
type offer struct {
	driver.Offer
	pool  *pools.Pool // nil = the pools file no longer has it
	stock stock
	real  model.Resources // allocatable of the newest real machine; nil = not known
	free  []int32         // rows of slots
	used  int             // machines that count against limits
	total int             // rows
	// withheld says that there are slots for which the limits leave no room.
	withheld bool

	bodies [numFreeKinds][]byte // of slots, by why they are free
	dirty  bool                 // not in the file as it is
}

// freeKind returns why the slot of a row may be taken or not.
func (x *row) freeKind() freeKind {
	switch {
	case x.offer.stock.held(x.id):
		return freeHeld
	case x.withheld:
		return freeNoRoom
	}
	return freeOpen
}

// labels returns the labels of a listed machine.
func (o *offer) labels(host string, lateBound bool) map[string]string {
	out := make(map[string]string, len(o.Labels)+4)
	maps.Copy(out, o.Labels)
	out[pools.LabelPool] = o.Pool
	if lateBound {
		out[pools.LabelLateBound] = "true"
	}
	if host != "" {
		out[pools.LabelHost] = host
	}
	return out
}

// base is a machine of the offer without anything of its own.
func (o *offer) base() model.Machine {
	m := model.Machine{
		InstanceType: o.InstanceType, Zone: o.Zone, CapacityType: o.CapacityType, Resources: o.Resources, Allocatable: o.Allocatable,
		PricePerHour: o.PricePerHour, InterruptionProbability: o.InterruptionProbability,
	}
	if o.real != nil {
		m.Allocatable = o.real
	}
	return m
}

// believed is what was observed, with no more for pods of anything than the pool says that machines of the offer have. A node
// that says more, by mistake or before its agents have set it right, would have a lost machine bought back in many.
func (o *offer) believed(obs *driver.Observation) *driver.Observation {
	if obs == nil || obs.Allocatable == nil {
		return obs
	}
	most, bounded := o.Resources.Max(o.Allocatable), slices.Clone(obs.Allocatable)
	for i := range bounded {
		if m := most.Get(bounded[i].Name); m > 0 {
			bounded[i].Value = min(bounded[i].Value, m)
		}
	}
	if bounded.Equal(obs.Allocatable) {
		return obs
	}
	out := *obs
	out.Allocatable = bounded
	return &out
}

// writeBodies makes what slots are listed as.
func (o *offer) writeBodies() {
	for k := range o.bodies {
		m := o.base()
		m.State = freeKind(k).state()
		m.Labels = o.labels("", o.pool != nil && o.pool.LateBound)
		switch freeKind(k) {
		case freeHeld:
			m.LastError = o.stock.says()
		case freeNoRoom:
			m.LastError = fmt.Sprintf("pool %q has as many machines as its limits allow", o.Pool)
		}
		o.bodies[k] = wire.AppendBody(nil, &shard.Record{Machine: m})
	}
}

// listedAs is what a record says in listings.
func (r *record) listedAs(o *offer) model.Machine {
	m := o.base()
	m.ID, m.State, m.LastError = r.ID, r.State, r.LastError
	if len(r.Allocatable) > 0 {
		m.Allocatable = r.Allocatable
	}
	m.Labels = o.labels(r.Host, r.LateBound)
	maps.Copy(m.Labels, r.Labels)
	switch r.State {
	case model.Configuring, model.Configured, model.Draining:
		m.Cluster = r.Cluster
		m.Host = r.Ref
	case model.Idle, model.Deleting:
		m.Host = r.Ref
	default:
		return m
	}
	if m.Host == "" || r.LateBound && r.State == model.Configuring { // not made yet, or its node is not there
		m.Host = "unmade/" + r.ID
	}
	return m
}

// account adds up what counts against limits.
type account struct {
	pools  map[string]int // machines
	quotas map[string]*balance
}

// balance is what a quota has been used of.
type balance struct {
	machines  int
	resources map[string]int64
}

// charge counts a machine of an offer, n = 1 or −1.
func (a *account) charge(o *offer, n int) {
	o.used += n
	a.pools[o.Pool] += n
	if o.pool == nil {
		return
	}
	for _, name := range o.pool.Quotas {
		b := a.quotas[name]
		if b == nil {
			b = &balance{resources: map[string]int64{}}
			a.quotas[name] = b
		}
		b.machines += n
		for _, r := range o.Resources {
			b.resources[r.Name] += int64(n) * r.Value
		}
	}
}

// room returns how many more machines of an offer its limits allow.
func (a *account) room(o *offer, quotas map[string]*pools.Quota) int {
	if o.pool == nil {
		return 0
	}
	room := o.pool.Machines - a.pools[o.Pool]
	for _, name := range o.pool.Quotas {
		q := quotas[name]
		b := a.quotas[name]
		if b == nil {
			b = &balance{}
		}
		if q.Machines > 0 {
			room = min(room, q.Machines-b.machines)
		}
		for _, limit := range q.Resources {
			if each := o.Resources.Get(limit.Name); each > 0 {
				room = min(room, int((limit.Value-b.resources[limit.Name])/each))
			}
		}
	}
	return max(room, 0)
}
