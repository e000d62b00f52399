package clusterapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/kube"
)

// nodeMissingFor is how long the node of a machine must be away before the machine is lost. Cluster API may have seen
// it before the driver has.
const nodeMissingFor = 4 * time.Second

// Observe reports all Machines of the driver's scope. It writes labels and taints to nodes that lack them, in the background.
func (d *Driver) Observe(ctx context.Context, yield func(*driver.Observation)) error {
	first, cancel := context.WithTimeout(ctx, firstListTimeout)
	defer cancel()
	var rows []*machine
	var faults []error
	for _, t := range d.machines {
		if !t.Synced() {
			_ = t.Await(first, "") // Trouble says why not
		}
		if err := t.Trouble(); err != nil {
			faults = append(faults, d.troubleOf(ctx, err))
		}
		t.Each(func(_ string, m *machine) { rows = append(rows, m) })
	}
	nodes := map[fleetKey]map[string]*kube.Node{}
	kept := map[string]bool{}
	for _, m := range rows {
		kept[m.name] = true
		yield(d.observe(first, m, nodes))
	}
	d.mu.Lock()
	for name := range d.missing {
		if !kept[name] {
			delete(d.missing, name)
		}
	}
	d.mu.Unlock()
	d.sweep()
	slices.SortFunc(faults, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	faults = slices.CompactFunc(faults, func(a, b error) bool { return a.Error() == b.Error() })
	return errors.Join(faults...)
}

// troubleOf says why machines cannot be listed: when there is no such resource, since Cluster API is not there or is an old one.
func (d *Driver) troubleOf(ctx context.Context, err error) error {
	if apierrors.IsNotFound(err) {
		if c, e := d.management.Clients(ctx); e == nil {
			if e := checkVersion(ctx, d.management, c); errors.Is(e, ErrVersion) {
				return e
			}
		}
	}
	return fmt.Errorf("management cluster: %w", err)
}

// observe says what is known of one Machine.
func (d *Driver) observe(ctx context.Context, m *machine, nodes map[fleetKey]map[string]*kube.Node) *driver.Observation {
	o := m.said
	o.Node, o.Ref = m.node, m.providerID
	if o.Ref == "" {
		o.Ref = "machine/" + m.namespace + "/" + m.name
	}
	o.Phase, o.Reason = driver.Configuring, strings.Join(m.waits, "; ")
	switch {
	case m.fault != nil:
		o.ID, o.Phase, o.Reason = m.namespace+"/"+m.name, driver.Creating, m.fault.Error()
		return &o
	case m.draining():
		o.Phase = driver.Draining
		return &o
	case m.deleting:
		o.Phase = driver.Deleting
		return &o
	case m.failure != "":
		d.failed(&o, m.failure)
		return &o
	}
	infra, err := d.infraTable(ctx, m.infrastructure.APIGroup, m.infrastructure.Kind, m.namespace)
	if err == nil && !infra.Synced() {
		_ = infra.Await(ctx, "")
	}
	if err == nil {
		err = infra.Trouble()
	}
	if err != nil {
		o.Reason = err.Error()
		return &o
	}
	if _, ok := infra.Get(kube.Key(m.namespace, m.infrastructure.Name)); !ok {
		o.Incomplete = !m.provisioned
		if m.provisioned {
			d.failed(&o, fmt.Sprintf("%s %s/%s is gone", m.infrastructure.Kind, m.namespace, m.infrastructure.Name))
		}
		return &o
	}
	if m.node == "" && d.outOfStock(o.Reason) {
		d.failed(&o, o.Reason)
		return &o
	}
	if m.providerID != "" {
		d.observeNode(ctx, m, &o, nodes)
	}
	return &o
}

// failed says that a machine has failed.
func (d *Driver) failed(o *driver.Observation, why string) {
	o.Phase, o.Reason, o.OutOfStock = driver.Failed, why, d.outOfStock(why)
}

// observeNode says what is known of the node of a machine.
func (d *Driver) observeNode(ctx context.Context, m *machine, o *driver.Observation, nodes map[fleetKey]map[string]*kube.Node) {
	f := d.fleet(d.of(m.namespace, m.cluster))
	if !f.nodes.Synced() {
		_ = f.nodes.Await(ctx, "")
	}
	if err := f.nodes.Trouble(); err != nil {
		o.Reason = fmt.Sprintf("cluster %q: %v", m.said.Cluster, err)
		return
	}
	key := fleetKey{m.namespace, m.cluster}
	if nodes[key] == nil {
		byProvider := map[string]*kube.Node{}
		f.nodes.Each(func(_ string, n *kube.Node) { byProvider[n.ProviderID] = n })
		nodes[key] = byProvider
	}
	n := nodes[key][m.providerID]
	if n == nil {
		if m.node == "" {
			o.Reason = fmt.Sprintf("no node of cluster %q has the providerID %s yet", m.said.Cluster, m.providerID)
			return
		}
		if d.missed(m.name) {
			d.failed(o, fmt.Sprintf("its node %s is gone from cluster %q", m.node, m.said.Cluster))
		} else {
			o.Reason = fmt.Sprintf("node %s is not there", m.node)
		}
		return
	}
	d.found(m.name)
	o.Node, o.Labels, o.Taints, o.Allocatable = n.Name, n.Labels, n.Taints, n.Allocatable
	lacks := m.want.Lacks(n)
	o.Reason = strings.Join(lacks, "; ")
	if len(lacks) == 0 {
		o.Phase = driver.Configured
	}
	d.mend(f, m, n)
}

// missed tells whether the node of a machine has been away long enough.
func (d *Driver) missed(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	since, ok := d.missing[name]
	if !ok {
		d.missing[name] = time.Now()
		return false
	}
	return time.Since(since) >= nodeMissingFor
}

func (d *Driver) found(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.missing, name)
}
