package mirror

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/tonnage/tonnage/api/v1alpha1"
)

// Owner is the field manager of everything that the operator applies.
const Owner = client.FieldOwner("tonnage-operator")

// applied converts an object of ours to what is applied: metadata as given, and
// either spec or status.
func applied(kind string, object any, part string) (*unstructured.Unstructured, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	out := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{}}}
	out.SetGroupVersionKind(api.SchemeGroupVersion.WithKind(kind))
	from := &unstructured.Unstructured{Object: fields}
	out.SetName(from.GetName())
	if part == "spec" {
		out.SetAnnotations(from.GetAnnotations())
	}
	if uid := from.GetUID(); uid != "" {
		out.SetUID(uid) // another object of the same name is not ours to change
	}
	if v, ok := fields[part]; ok {
		out.Object[part] = v
	}
	return out, nil
}

// apply writes one part of an object, and reads the answer into it.
func apply(ctx context.Context, c client.Client, kind string, object client.Object, part string) error {
	u, err := applied(kind, object, part)
	if err != nil {
		return err
	}
	config := client.ApplyConfigurationFromUnstructured(u)
	if part == "status" {
		err = c.Status().Apply(ctx, config, Owner, client.ForceOwnership)
	} else {
		err = c.Apply(ctx, config, Owner, client.ForceOwnership)
	}
	if err != nil {
		return err
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, object)
}
