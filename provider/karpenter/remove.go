package karpenter

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/kube"
)

// deleteDrain is for how long a machine is drained that nobody asked to be drained.
const deleteDrain = 30 * time.Second

// Drain has Karpenter drain the node up to the deadline, and then remove the machine.
func (d *Driver) Drain(ctx context.Context, m *driver.Machine, deadline time.Time) error {
	c, row, err := d.find(ctx, m)
	if row == nil || err != nil {
		return err
	}
	if text := kube.DrainText(deadline); row.drainDeadline != text || row.termination != text {
		if err := c.patch(ctx, row, map[string]any{kube.AnnotationDrain: text, annotationTermination: text}); err != nil {
			return err
		}
	}
	return c.remove(ctx, row)
}

// Delete removes a machine, with a short drain, or without one when its end is under way. Of a claim that Karpenter has
// deleted it takes note.
func (d *Driver) Delete(ctx context.Context, m *driver.Machine) error {
	name := driver.ObjectName(m.ID, m.Generation)
	for _, c := range d.clusters {
		c.deletes(name)
	}
	c, row, err := d.find(ctx, m)
	if row == nil || err != nil {
		return err
	}
	until := time.Now().Add(deleteDrain)
	if row.deleting {
		until = time.Now() // it took too long: what still runs is killed
	}
	if end, err := time.Parse(time.RFC3339, row.termination); row.launched && (err != nil || end.After(until)) {
		if err := c.patch(ctx, row, map[string]any{kube.AnnotationDrain: nil, annotationTermination: kube.DrainText(until)}); err != nil {
			return err
		}
	}
	return c.remove(ctx, row)
}

// patch changes annotations of a claim.
func (c *cluster) patch(ctx context.Context, row *claim, annotations map[string]any) error {
	clients, err := c.endpoint.Clients(ctx)
	if err != nil {
		return fmt.Errorf("cluster %q: %w", c.id, err)
	}
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": row.uid, "annotations": annotations}})
	if err != nil {
		return err
	}
	o, err := clients.Dynamic.Resource(nodeClaims).Patch(ctx, row.name, types.MergePatchType, text, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // it is gone, or another one: the table hears of it
		return nil
	}
	if err != nil {
		return fmt.Errorf("cluster %q: %w", c.id, c.endpoint.Explain(err))
	}
	return c.claims.Await(ctx, o.GetResourceVersion())
}

// remove deletes a claim.
func (c *cluster) remove(ctx context.Context, row *claim) error {
	if !row.deleting {
		clients, err := c.endpoint.Clients(ctx)
		if err != nil {
			return fmt.Errorf("cluster %q: %w", c.id, err)
		}
		err = clients.Dynamic.Resource(nodeClaims).Delete(ctx, row.name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &row.uid}})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("cluster %q: %w", c.id, c.endpoint.Explain(err))
		}
	}
	return c.claims.AwaitRow(ctx, row.name, func(now *claim, ok bool) bool { return !ok || now.uid != row.uid || now.deleting })
}
