package clusterapi

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/kube"
)

const (
	// usableFor is how long a Cluster is believed to be as it was.
	usableFor = time.Minute
	// idleAfter is when the connection to a cluster without machines ends.
	idleAfter = 10 * time.Minute
	// kubeconfigKey is where Cluster API has a kubeconfig in its Secret.
	kubeconfigKey = "value"
	// mendAgain is how long a node is left alone after it was written to.
	mendAgain = 2 * time.Second
	// mendTimeout is how long one write to a node may take.
	mendTimeout = 10 * time.Second
)

// fleetKey names a Cluster.
type fleetKey struct{ namespace, name string }

// fleet is the connection to one fleet cluster.
type fleet struct {
	endpoint *kube.Endpoint
	nodes    *kube.Table[*kube.Node]
	stop     context.CancelFunc
	used     time.Time

	checking sync.Mutex
	checked  time.Time // when the Cluster was found to be usable
}

// fleet returns the connection to a cluster, and begins it.
func (d *Driver) fleet(c Cluster) *fleet {
	key := fleetKey{c.Namespace, c.Name}
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.fleets[key]; f != nil {
		f.used = time.Now()
		return f
	}
	e := kube.Secret(d.management, c.Namespace, c.Name+"-kubeconfig", kubeconfigKey)
	if c.Kubeconfig != "" {
		e = kube.File(c.Kubeconfig, c.Context)
	}
	f := &fleet{endpoint: e, used: time.Now()}
	f.nodes = kube.NewTable(e, kube.Scope{Resource: kube.Nodes}, kube.ReadNode, d.notify)
	ctx, stop := context.WithCancel(d.ctx)
	f.stop = stop
	d.running.Go(func() { e.Run(ctx) })
	d.running.Go(func() { f.nodes.Run(ctx) })
	d.fleets[key] = f
	return f
}

// sweep ends connections that nobody uses any more.
func (d *Driver) sweep() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key, f := range d.fleets {
		if time.Since(f.used) > idleAfter {
			f.stop()
			delete(d.fleets, key)
		}
	}
}

// of returns what the driver's config says of a Cluster.
func (d *Driver) of(namespace, name string) Cluster {
	for _, c := range d.settings.Clusters {
		if c.Namespace == namespace && c.Name == name {
			return c
		}
	}
	return Cluster{Namespace: namespace, Name: name}
}

// usable says why no machine can be made for a Cluster.
func (d *Driver) usable(ctx context.Context, c Cluster) error {
	f := d.fleet(c)
	f.checking.Lock()
	defer f.checking.Unlock()
	if time.Since(f.checked) < usableFor {
		return nil
	}
	clients, err := d.management.Clients(ctx)
	if err != nil {
		return err
	}
	o, err := clients.Dynamic.Resource(clusters).Namespace(c.Namespace).Get(ctx, c.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%w: there is no Cluster %s/%s in %s; create it, or say in the driver's config under clusters which Cluster it is", driver.ErrPermanent, c.Namespace, c.Name, clients.Host)
	case err != nil:
		return d.management.Explain(err)
	case o.GetDeletionTimestamp() != nil:
		return fmt.Errorf("%w: Cluster %s/%s is being deleted", driver.ErrPermanent, c.Namespace, c.Name)
	}
	if !d.settings.AllowUndrained {
		drains, err := d.drains(ctx, clients, o)
		if err != nil {
			return err
		}
		if !drains {
			return fmt.Errorf("%w: Cluster API knows no control plane of Cluster %s/%s, and would delete its machines without a drain; "+
				"give it a controlPlaneRef with status.externalManagedControlPlane, or set allowUndrained: true in the driver's config", driver.ErrPermanent, c.Namespace, c.Name)
		}
	}
	f.checked = time.Now()
	return nil
}

// drains tells whether Cluster API drains the nodes of a Cluster before it deletes machines: when it knows machines of
// its control plane, or that somebody else has these.
func (d *Driver) drains(ctx context.Context, c *kube.Clients, cluster *unstructured.Unstructured) (bool, error) {
	if ref, found, _ := unstructured.NestedStringMap(cluster.Object, "spec", "controlPlaneRef"); found {
		k, err := d.kindOf(ctx, ref["apiGroup"], ref["kind"])
		if err != nil {
			return false, err
		}
		o, err := c.Dynamic.Resource(k.resource).Namespace(cluster.GetNamespace()).Get(ctx, ref["name"], metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return false, d.management.Explain(err)
		}
		if err == nil {
			if external, _, _ := unstructured.NestedBool(o.Object, "status", "externalManagedControlPlane"); external {
				return true, nil
			}
		}
	}
	list, err := c.Dynamic.Resource(machines).Namespace(cluster.GetNamespace()).List(ctx, metav1.ListOptions{
		LabelSelector: labelCluster + "=" + cluster.GetName() + "," + labelControlPlane, Limit: 1,
	})
	if err != nil {
		return false, d.management.Explain(err)
	}
	return len(list.Items) > 0, nil
}

// mend brings labels and taints to a node, beside the caller.
func (d *Driver) mend(f *fleet, m *machine, n *kube.Node) {
	if m.want.Patch(n) == nil || n.Deleting {
		return
	}
	key := m.namespace + "/" + m.cluster + "/" + n.Name
	d.mu.Lock()
	defer d.mu.Unlock()
	if since, busy := d.mending[key]; busy && time.Since(since) < mendAgain || d.ctx.Err() != nil {
		return
	}
	// The caller's node may be from before a write that has ended meanwhile.
	n, ok := f.nodes.Get(n.Name)
	if !ok {
		return
	}
	patch := m.want.Patch(n)
	if patch == nil {
		return
	}
	for old, since := range d.mending {
		if time.Since(since) > 2*mendTimeout {
			delete(d.mending, old)
		}
	}
	d.mending[key] = time.Now().Add(mendTimeout) // until it is known what came of it
	d.running.Go(func() {
		select {
		case d.menders <- struct{}{}:
			defer func() { <-d.menders }()
		case <-d.ctx.Done():
			return
		}
		ctx, cancel := context.WithTimeout(d.ctx, mendTimeout)
		defer cancel()
		version, err := patchNode(ctx, f, n.Name, patch)
		switch {
		case err == nil:
			err = f.nodes.Await(ctx, version)
		case apierrors.IsConflict(err), apierrors.IsNotFound(err):
			err = nil // the table hears of what the node is now
		}
		if err != nil && d.ctx.Err() == nil {
			d.log.Warn("node cannot be labelled", "cluster", m.said.Cluster, "node", n.Name, "error", f.endpoint.Explain(err))
		}
		d.mu.Lock()
		if d.mending[key] = time.Now(); err == nil {
			delete(d.mending, key)
		}
		d.mu.Unlock()
		d.notify()
	})
}

func patchNode(ctx context.Context, f *fleet, name string, patch []byte) (version string, err error) {
	c, err := f.endpoint.Clients(ctx)
	if err != nil {
		return "", err
	}
	o, err := c.Dynamic.Resource(kube.Nodes).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return "", err
	}
	return o.GetResourceVersion(), nil
}
