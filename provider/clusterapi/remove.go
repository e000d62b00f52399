package clusterapi

import (
	"context"
	"encoding/json"
	"math"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/kube"
)

// deleteDrainSeconds is for how long a machine is drained that nobody asked to be drained.
const deleteDrainSeconds = 30

// Drain has Cluster API drain the node up to the deadline, and then remove the machine.
func (d *Driver) Drain(ctx context.Context, m *driver.Machine, deadline time.Time) error {
	row, err := d.find(ctx, m)
	if row == nil || err != nil {
		return err
	}
	// Cluster API counts from the beginning of its drain, which is at the deletion.
	since := time.Now()
	if row.deleting {
		since = row.deleted
	}
	seconds := int64(min(max(math.Ceil(deadline.Sub(since).Seconds()), 1), math.MaxInt32)) // 0 would be no limit
	if text := kube.DrainText(deadline); row.drainDeadline != text || row.drainSeconds == 0 {
		if err := d.patch(ctx, row, text, map[string]any{"nodeDrainTimeoutSeconds": seconds}); err != nil {
			return err
		}
	}
	return d.remove(ctx, row)
}

// Delete removes a machine, with the short drain of Cluster API, or without one when its end is under way.
func (d *Driver) Delete(ctx context.Context, m *driver.Machine) error {
	row, err := d.find(ctx, m)
	if row == nil || err != nil {
		return err
	}
	switch {
	case row.draining():
		// It took too long: what still runs is killed, and volumes are not waited for.
		err = d.patch(ctx, row, nil, map[string]any{"nodeDrainTimeoutSeconds": int64(1), "nodeVolumeDetachTimeoutSeconds": int64(1)})
	case !row.deleting && row.node != "" && (row.drainSeconds == 0 || row.drainSeconds > deleteDrainSeconds):
		err = d.patch(ctx, row, nil, map[string]any{"nodeDrainTimeoutSeconds": int64(deleteDrainSeconds)})
	}
	if err != nil {
		return err
	}
	return d.remove(ctx, row)
}

// patch changes how a Machine ends. deadline is nil or the text of kube.AnnotationDrain.
func (d *Driver) patch(ctx context.Context, row *machine, deadline any, deletion map[string]any) error {
	c, err := d.management.Clients(ctx)
	if err != nil {
		return err
	}
	text, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": row.uid, "annotations": map[string]any{kube.AnnotationDrain: deadline}},
		"spec":     map[string]any{"deletion": deletion},
	})
	if err != nil {
		return err
	}
	o, err := c.Dynamic.Resource(machines).Namespace(row.namespace).Patch(ctx, row.name, types.MergePatchType, text, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // it is gone, or another one: the table hears of it
		return nil
	}
	if err != nil {
		return d.management.Explain(err)
	}
	return d.machines[row.namespace].Await(ctx, o.GetResourceVersion())
}

// remove deletes a Machine, and what it owns with it.
func (d *Driver) remove(ctx context.Context, row *machine) error {
	if !row.deleting {
		c, err := d.management.Clients(ctx)
		if err != nil {
			return err
		}
		background := metav1.DeletePropagationBackground
		err = c.Dynamic.Resource(machines).Namespace(row.namespace).Delete(ctx, row.name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &row.uid}, PropagationPolicy: &background,
		})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return d.management.Explain(err)
		}
	}
	return d.machines[row.namespace].AwaitRow(ctx, kube.Key(row.namespace, row.name), func(m *machine, ok bool) bool {
		return !ok || m.uid != row.uid || m.deleting
	})
}
