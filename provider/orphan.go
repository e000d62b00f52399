package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/calls"
	"github.com/tonnage/tonnage/provider/driver"
)

// OrphansMax is how many orphans of a driver are kept; more are counted only.
const OrphansMax = 10_000

// ErrOrphanBusy is returned for an orphan that is being deleted, or whose machine has a record by now.
var ErrOrphanBusy = errors.New("orphan cannot be deleted now")

// Orphan is an object that no record asked for, and that cannot be adopted.
type Orphan struct {
	Driver       string    `json:"driver"`
	ID           string    `json:"id"`
	Generation   uint64    `json:"generation"`
	Pool         string    `json:"pool"`
	InstanceType string    `json:"instanceType"`
	Zone         string    `json:"zone"`
	CapacityType string    `json:"capacityType"`
	Phase        string    `json:"phase"`
	Ref          string    `json:"ref,omitempty"`
	Cluster      string    `json:"cluster,omitempty"`
	LateBound    bool      `json:"lateBound,omitempty"`
	Host         string    `json:"host,omitempty"`
	Why          string    `json:"why"`
	Since        time.Time `json:"since"`
}

func (o *Orphan) key() string { return orphanKey(o.ID, o.Generation) }

func orphanKey(id string, generation uint64) string { return fmt.Sprintf("%s/%d", id, generation) }

// Orphans returns what exists and nobody asked for, in the order of drivers and ids.
func (p *Provider) Orphans() []Orphan {
	p.mu.RLock()
	defer p.mu.RUnlock()
	out := []Orphan{}
	for _, h := range p.hands {
		for _, o := range h.orphans {
			out = append(out, *o)
		}
	}
	slices.SortFunc(out, func(a, b Orphan) int {
		return cmp.Or(cmp.Compare(a.Driver, b.Driver), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Generation, b.Generation))
	})
	return out
}

// DeleteOrphan has the driver of an orphan delete it, and returns when the driver has accepted that; the orphan is
// listed until a round shows that it is gone. Nothing else deletes an orphan: it may be another program's. The error wraps
// calls.ErrNotFound when there is no such orphan, ErrOrphanBusy when it cannot be deleted now, or is the driver's.
func (p *Provider) DeleteOrphan(ctx context.Context, driverName, id string, generation uint64) error {
	var h *hand
	var m *driver.Machine
	key := orphanKey(id, generation)
	err := p.submit(ctx, func() (err error) {
		h, m, err = p.orphan(driverName, id, generation)
		if err == nil {
			h.removed[key] = true
		}
		return err
	})
	if err != nil {
		return err
	}
	p.log.Warn("orphan is deleted, as was asked for", "driver", driverName, "machine", id, "generation", generation)
	select {
	case h.slots <- struct{}{}:
		limited, cancel := context.WithTimeout(ctx, driver.VerbTimeout)
		err = h.driver.Delete(limited, m)
		cancel()
		<-h.slots
	case <-ctx.Done():
		err = ctx.Err()
	}
	// Also when the caller has gone: the orphan could not be deleted again otherwise.
	heard := p.submit(context.WithoutCancel(ctx), func() error {
		delete(h.removed, key)
		p.stats.verb(driverName, verbDelete, err)
		if err == nil {
			p.stats.orphansDeleted[driverName]++
		}
		return nil
	})
	h.kick()
	return errors.Join(err, heard)
}

// orphan returns the driver of an orphan, and what it knows the orphan as.
func (p *Provider) orphan(driverName, id string, generation uint64) (*hand, *driver.Machine, error) {
	h := p.hands[driverName]
	if h == nil {
		return nil, nil, fmt.Errorf("driver %q: %w", driverName, calls.ErrNotFound)
	}
	o := h.orphans[orphanKey(id, generation)]
	switch _, known := p.table.byID[id]; {
	case o == nil:
		return nil, nil, fmt.Errorf("orphan %q of generation %d of driver %q: %w", id, generation, driverName, calls.ErrNotFound)
	case known:
		return nil, nil, fmt.Errorf("%w: machine %q has a record, and is looked after by it", ErrOrphanBusy, id)
	case h.removed[o.key()]:
		return nil, nil, fmt.Errorf("%w: %q is being deleted", ErrOrphanBusy, id)
	}
	key := driver.Key{Pool: o.Pool, InstanceType: o.InstanceType, Zone: o.Zone}
	key.CapacityType, _ = model.ParseCapacityType(o.CapacityType)
	m := &driver.Machine{ID: id, Generation: generation, LateBound: o.LateBound, Host: o.Host, Offer: driver.Offer{Key: key}}
	if of := p.offers[key]; of != nil {
		m.Offer = of.Offer
	}
	return h, m, nil
}
