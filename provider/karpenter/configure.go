package karpenter

import (
	"context"
	"errors"
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/kube"
)

// Configure makes the claim of a machine if it is not there.
func (d *Driver) Configure(ctx context.Context, m *driver.Machine, b *driver.Binding) error {
	object, err := d.render(m, b)
	if err != nil {
		return fmt.Errorf("%w: %w", driver.ErrPermanent, err)
	}
	c := d.clusters[b.Cluster]
	if c == nil {
		return fmt.Errorf("%w: the driver's config has no cluster %q under clusters", driver.ErrPermanent, b.Cluster)
	}
	name := object.GetName()
	if err := c.claims.Await(ctx, ""); err != nil {
		return fmt.Errorf("cluster %q: %w", c.id, c.because(ctx, err))
	}
	if row, ok := c.claims.Get(name); ok {
		return sameMachine(c, row, m)
	}
	if c.isUnborn(name) {
		return nil // it was made and is gone: Observe says why
	}
	clients, err := c.endpoint.Clients(ctx)
	if err != nil {
		return fmt.Errorf("cluster %q: %w", c.id, err)
	}
	c.expect(name, m, b)
	r := clients.Dynamic.Resource(nodeClaims)
	made, err := r.Create(ctx, object, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		// The table is behind, or another provider was first, which is the same: it must be of this machine.
		if there, err := r.Get(ctx, name, metav1.GetOptions{}); err == nil {
			c.answered(name, there.GetResourceVersion())
		}
		return c.claims.AwaitRow(ctx, name, func(row *claim, ok bool) bool { return ok && row.said.ID == m.ID })
	}
	if err != nil {
		return c.refused(ctx, name, err)
	}
	c.answered(name, made.GetResourceVersion())
	if err := c.claims.Await(ctx, made.GetResourceVersion()); err != nil {
		return fmt.Errorf("cluster %q: %w", c.id, err)
	}
	c.created(name) // not before: what the watch has not shown yet has not vanished
	return nil
}

// sameMachine tells that a claim is of another machine.
func sameMachine(c *cluster, row *claim, m *driver.Machine) error {
	if row.fault == nil && row.said.ID != m.ID {
		return fmt.Errorf("%w: NodeClaim %s of cluster %q is of machine %q", driver.ErrPermanent, row.name, c.id, row.said.ID)
	}
	return nil
}

// render returns the claim of a machine.
func (d *Driver) render(m *driver.Machine, b *driver.Binding) (*unstructured.Unstructured, error) {
	if err := d.Check(&m.Offer, driver.PoolTraits{LateBound: m.LateBound}); err != nil {
		return nil, err
	}
	t, err := d.template(&m.Offer)
	if err != nil {
		return nil, fmt.Errorf("template: %w", err)
	}
	text, err := kube.RecordOf(m, b)
	if err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	labels := map[string]any{}
	for key, value := range m.Offer.Labels {
		labels[key] = value
	}
	labels[kube.LabelScope], labels[labelNodePool] = d.scope, t.nodePool
	annotations := map[string]any{}
	for key, value := range t.annotations {
		annotations[key] = value
	}
	maps.Copy(annotations, map[string]any{
		kube.AnnotationRecord: text, kube.AnnotationMachine: m.ID, kube.AnnotationCluster: b.Cluster, annotationNoDisrupt: "true",
	})
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": nodeClaims.GroupVersion().String(), "kind": "NodeClaim", "spec": t.spec(&m.Offer),
		"metadata": map[string]any{"name": driver.ObjectName(m.ID, m.Generation), "labels": labels, "annotations": annotations},
	}}, nil
}

// refused sorts the answers that an API server gives to a new claim. None was made.
func (c *cluster) refused(ctx context.Context, name string, err error) error {
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err) {
		c.forget(name)
		return fmt.Errorf("%w: NodeClaim %s of cluster %q is refused: %w", driver.ErrPermanent, name, c.id, err)
	}
	return fmt.Errorf("cluster %q: NodeClaim %s: %w", c.id, name, c.because(ctx, err))
}

// because says in an error of a cluster that it has no Karpenter, if that is so.
func (c *cluster) because(ctx context.Context, err error) error {
	if !apierrors.IsNotFound(err) {
		return c.endpoint.Explain(err)
	}
	c.mu.Lock()
	c.checked = c.checked.Add(-servedFor)
	c.mu.Unlock()
	if errors.Is(ctx.Err(), context.Canceled) {
		return err
	}
	// The time of the call may be over, and it is to be said why.
	brief, cancel := context.WithTimeout(context.WithoutCancel(ctx), whyTimeout)
	defer cancel()
	if why := c.served(brief); why != nil {
		return fmt.Errorf("%w: %w", driver.ErrPermanent, why)
	}
	return err
}
