package kubetest

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Create creates an object. Of a custom resource it waits until discovery lists it in each version that is
// served: that is some moments after the resource says that it is established.
func (c *Cluster) Create(ctx context.Context, u *unstructured.Unstructured) error {
	if err := c.Client.Create(ctx, u); err != nil {
		return fmt.Errorf("%s %s: %w", u.GetKind(), u.GetName(), err)
	}
	if u.GetKind() != "CustomResourceDefinition" {
		return nil
	}
	return c.listed(ctx, u, true)
}

// Delete deletes a custom resource, and waits until discovery does not list it.
func (c *Cluster) Delete(ctx context.Context, u *unstructured.Unstructured) error {
	if err := c.Client.Delete(ctx, u); err != nil {
		return err
	}
	for {
		err := c.Client.Get(ctx, client.ObjectKeyFromObject(u), &unstructured.Unstructured{Object: map[string]any{"apiVersion": u.GetAPIVersion(), "kind": u.GetKind()}})
		if apierrors.IsNotFound(err) {
			break
		} else if err == nil {
			err = Pause(ctx)
		}
		if err != nil {
			return fmt.Errorf("deleting %s %s: %w", u.GetKind(), u.GetName(), err)
		}
	}
	return c.listed(ctx, u, false)
}

// listed waits until discovery lists a custom resource in all versions that it serves, or in none of them.
func (c *Cluster) listed(ctx context.Context, u *unstructured.Unstructured, want bool) error {
	d, err := discovery.NewDiscoveryClientForConfig(c.Config)
	if err != nil {
		return err
	}
	group, _, _ := unstructured.NestedString(u.Object, "spec", "group")
	resource, _, _ := unstructured.NestedString(u.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(u.Object, "spec", "versions")
	for {
		_, lists, err := d.ServerGroupsAndResources()
		if err != nil {
			return err
		}
		unlike := slices.ContainsFunc(versions, func(v any) bool {
			version, _ := v.(map[string]any)
			is := slices.ContainsFunc(lists, func(l *metav1.APIResourceList) bool {
				return l.GroupVersion == fmt.Sprintf("%s/%s", group, version["name"]) &&
					slices.ContainsFunc(l.APIResources, func(r metav1.APIResource) bool { return r.Name == resource })
			})
			return version["served"] == true && is != want
		})
		if !unlike {
			return nil
		}
		if err := Pause(ctx); err != nil {
			return fmt.Errorf("discovery does not follow %s %s: %w", u.GetKind(), u.GetName(), err)
		}
	}
}

// Pause waits for a moment between two looks at what is to come about. The error is ctx's.
func Pause(ctx context.Context) error {
	timer := time.NewTimer(20 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
