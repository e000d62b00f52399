package drain

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/tonnage/tonnage/api/v1alpha1"
	"github.com/tonnage/tonnage/operator/mirror"
)

// ProviderKeys are the values under which a node is found in ProviderIndex: its
// provider id, and the id's last part, which is what the machine's host is called.
func ProviderKeys(node *corev1.Node) []string {
	id := node.Spec.ProviderID
	if id == "" {
		return nil
	}
	keys := []string{id}
	if i := strings.LastIndexByte(id, '/'); i >= 0 && i+1 < len(id) {
		keys = append(keys, id[i+1:])
	}
	return keys
}

// find returns the node of a machine: by the name that the shard told, by its
// provider id, by the machine's id; nil if there is none.
func (d *Drainer) find(ctx context.Context, machine string, n *api.UpcomingNode) (*corev1.Node, error) {
	var names []string
	if n != nil && n.Status.NodeRef != nil {
		names = append(names, n.Status.NodeRef.Name)
	}
	if n != nil && n.Annotations[api.AnnotationDrainNode] != "" {
		names = append(names, n.Annotations[api.AnnotationDrainNode])
	}
	if node, err := d.named(ctx, names...); node != nil || err != nil {
		return node, err
	}
	if n != nil && n.Status.ProviderID != "" {
		var list corev1.NodeList
		if err := d.cfg.Client.List(ctx, &list, client.MatchingFields{ProviderIndex: n.Status.ProviderID}); err != nil {
			return nil, fmt.Errorf("node of host %s: %w", n.Status.ProviderID, err)
		}
		if len(list.Items) == 1 {
			return &list.Items[0], nil
		}
	}
	return d.named(ctx, machine)
}

// named returns the first node that there is.
func (d *Drainer) named(ctx context.Context, names ...string) (*corev1.Node, error) {
	for _, name := range names {
		if name == "" || strings.ContainsAny(name, "/%") {
			continue // no node is called so
		}
		var node corev1.Node
		err := d.cfg.Client.Get(ctx, client.ObjectKey{Name: name}, &node)
		if err == nil {
			return &node, nil
		}
		if !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("node %s: %w", name, err)
		}
	}
	return nil, nil
}

// cordon makes the scheduler leave the node out. The field gets an owner of its
// own, beside whoever else set it.
func (d *Drainer) cordon(ctx context.Context, node *corev1.Node) error {
	return d.applyNode(ctx, node, map[string]any{"unschedulable": true})
}

// uncordon removes the operator's cordon; one that another writer has set
// stays.
func (d *Drainer) uncordon(ctx context.Context, node *corev1.Node) error {
	return d.applyNode(ctx, node, map[string]any{})
}

func (d *Drainer) applyNode(ctx context.Context, node *corev1.Node, spec map[string]any) error {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	u.SetName(node.Name)
	u.SetUID(node.UID) // one that is gone is not made anew
	err := d.cfg.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), mirror.Owner, client.ForceOwnership)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // it is gone
	}
	if err != nil {
		return fmt.Errorf("node %s: %w", node.Name, err)
	}
	return nil
}
