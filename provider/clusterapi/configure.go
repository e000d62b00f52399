package clusterapi

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/kube"
)

// secretBytesMax is how much a Secret holds.
const secretBytesMax = 1 << 20

// making is one machine while it is made.
type making struct {
	*driver.Machine
	binding *driver.Binding
	cluster Cluster
	name    string // of all objects
	what    *rendered
	clients *kube.Clients
	// infra and bootstrap are what is cloned, with the spec that the templates have; bootstrap may be nil.
	infra, bootstrap *clone
	owner            types.UID // of the Machine
}

// clone is an object that is made of a template.
type clone struct {
	of     reference
	kind   kind // as it is served
	object map[string]any
}

// Configure makes the objects of a machine that are not there.
func (d *Driver) Configure(ctx context.Context, m *driver.Machine, b *driver.Binding) error {
	x, row, err := d.prepare(ctx, m, b)
	if err != nil {
		return err
	}
	if x.infra, err = d.cloned(ctx, x, "infrastructure", x.what.infrastructure); err != nil {
		return err
	}
	for _, patch := range x.what.overrides {
		spec, _ := x.infra.object["spec"].(map[string]any)
		x.infra.object["spec"] = merge(spec, patch)
	}
	if x.what.bootstrap != nil {
		if x.bootstrap, err = d.cloned(ctx, x, "bootstrap", x.what.bootstrap); err != nil {
			return err
		}
	}
	if row == nil {
		if err := d.createMachine(ctx, x); err != nil {
			return err
		}
	} else if x.owner = row.uid; row.deleting {
		return fmt.Errorf("its Machine %s/%s is being deleted", row.namespace, row.name)
	}
	if err := d.createBootstrap(ctx, x); err != nil {
		return err
	}
	infra, err := d.infraTable(ctx, x.infra.of.group, x.infra.of.kind, x.cluster.Namespace)
	if err != nil {
		return err
	}
	if err := infra.Await(ctx, ""); err != nil {
		return err
	}
	key := kube.Key(x.cluster.Namespace, x.name)
	if _, ok := infra.Get(key); !ok {
		version, err := d.createOwned(ctx, x, x.infra.kind.resource, x.infra.object)
		if err != nil {
			return err
		}
		if err := infra.Await(ctx, version); err != nil {
			return err
		}
	}
	return d.machines[x.cluster.Namespace].AwaitRow(ctx, key, func(_ *machine, ok bool) bool { return ok })
}

// prepare reads all that a machine is made of, before anything is written. row is its Machine, nil = there is none.
func (d *Driver) prepare(ctx context.Context, m *driver.Machine, b *driver.Binding) (*making, *machine, error) {
	if !m.LateBound {
		return nil, nil, d.Create(ctx, m, b.Owner)
	}
	t, err := d.template(&m.Offer)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: template: %w", driver.ErrPermanent, err)
	}
	x := &making{Machine: m, binding: b, name: driver.ObjectName(m.ID, m.Generation)}
	if x.what, err = t.render(&m.Offer); err != nil {
		return nil, nil, fmt.Errorf("%w: template: %w", driver.ErrPermanent, err)
	}
	if x.cluster, err = d.settings.cluster(b.Cluster); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", driver.ErrPermanent, err)
	}
	if n := len(b.Blob); x.what.bootstrap == nil && n > secretBytesMax {
		return nil, nil, fmt.Errorf("%w: the bootstrap data have %d bytes, and a Secret holds %d", driver.ErrPermanent, n, secretBytesMax)
	}
	if err := d.usable(ctx, x.cluster); err != nil {
		return nil, nil, err
	}
	if x.clients, err = d.management.Clients(ctx); err != nil {
		return nil, nil, err
	}
	row, err := d.find(ctx, m)
	return x, row, err
}

// cloned reads a template and returns what is to be made of it.
func (d *Driver) cloned(ctx context.Context, x *making, what string, ref *reference) (*clone, error) {
	k, err := d.kindOf(ctx, ref.group, ref.kind)
	if err != nil {
		return nil, err
	}
	c := &clone{of: reference{ref.group, strings.TrimSuffix(ref.kind, kindSuffix), x.name}}
	if c.kind, err = d.kindOf(ctx, c.of.group, c.of.kind); err != nil {
		return nil, err
	}
	t, err := x.clients.Dynamic.Resource(k.resource).Namespace(x.cluster.Namespace).Get(ctx, ref.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("%w: pool %q: template.%s: there is no %s %s/%s in %s", driver.ErrPermanent, x.Offer.Pool, what, ref.kind, x.cluster.Namespace, ref.name, x.clients.Host)
	}
	if err != nil {
		return nil, d.management.Explain(err)
	}
	inner, _, err := unstructured.NestedMap(t.Object, "spec", "template") // a copy
	if err != nil {
		return nil, fmt.Errorf("%w: %s %s/%s has no spec.template: %w", driver.ErrPermanent, ref.kind, x.cluster.Namespace, ref.name, err)
	}
	labels, _, _ := unstructured.NestedStringMap(inner, "metadata", "labels")
	annotations, _, _ := unstructured.NestedStringMap(inner, "metadata", "annotations")
	annotations = with(annotations, clonedFromName, ref.name, clonedFromKind, ref.kind+"."+ref.group)
	c.object = map[string]any{
		"apiVersion": c.kind.apiVersion, "kind": c.of.kind,
		"metadata": x.metadata(labels, annotations),
	}
	if spec, ok := inner["spec"].(map[string]any); ok {
		c.object["spec"] = spec
	}
	return c, nil
}

// with adds pairs to a map.
func with(m map[string]string, pairs ...string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

// metadata is that of every object of a machine.
func (x *making) metadata(labels, annotations map[string]string) map[string]any {
	labels = with(labels, labelCluster, x.cluster.Name)
	out := map[string]any{"name": x.name, "namespace": x.cluster.Namespace, "labels": anyMap(labels)}
	if len(annotations) > 0 {
		out["annotations"] = anyMap(annotations)
	}
	return out
}

func anyMap(m map[string]string) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

// createMachine writes the Machine.
func (d *Driver) createMachine(ctx context.Context, x *making) error {
	text, err := kube.RecordOf(x.Machine, x.binding)
	if err != nil {
		return fmt.Errorf("%w: record: %w", driver.ErrPermanent, err)
	}
	bootstrap := map[string]any{"dataSecretName": x.name}
	if x.bootstrap != nil {
		bootstrap = map[string]any{"configRef": refTo(x.bootstrap.of)}
	}
	spec := map[string]any{
		"clusterName": x.cluster.Name, "bootstrap": bootstrap, "infrastructureRef": refTo(x.infra.of),
		"deletion": map[string]any{"nodeVolumeDetachTimeoutSeconds": int64(d.settings.VolumeDetach.Seconds())},
	}
	if x.what.version != "" {
		spec["version"] = x.what.version
	}
	if x.what.failureDomain != "" {
		spec["failureDomain"] = x.what.failureDomain
	}
	annotations := with(x.what.annotations, kube.AnnotationRecord, text, kube.AnnotationMachine, x.ID, kube.AnnotationCluster, x.binding.Cluster)
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": machines.GroupVersion().String(), "kind": "Machine", "spec": spec,
		"metadata": x.metadata(with(x.what.labels, kube.LabelScope, d.scope), annotations),
	}}
	r := x.clients.Dynamic.Resource(machines).Namespace(x.cluster.Namespace)
	made, err := r.Create(ctx, object, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		// The table is behind, or another provider was first, which is the same: it must be of this machine.
		if made, err = r.Get(ctx, x.name, metav1.GetOptions{}); err == nil && made.GetAnnotations()[kube.AnnotationMachine] != x.ID {
			return fmt.Errorf("%w: Machine %s/%s exists already and is of machine %q", driver.ErrPermanent, x.cluster.Namespace, x.name, made.GetAnnotations()[kube.AnnotationMachine])
		}
	}
	if err != nil {
		return d.refused("Machine "+x.cluster.Namespace+"/"+x.name, err)
	}
	x.owner = made.GetUID()
	return d.machines[x.cluster.Namespace].Await(ctx, made.GetResourceVersion())
}

func refTo(r reference) map[string]any {
	return map[string]any{"apiGroup": r.group, "kind": r.kind, "name": r.name}
}

// createBootstrap writes the Secret with the bootstrap data, or the clone of a bootstrap template.
func (d *Driver) createBootstrap(ctx context.Context, x *making) error {
	if x.bootstrap != nil {
		_, err := d.createOwned(ctx, x, x.bootstrap.kind.resource, x.bootstrap.object)
		return err
	}
	if len(x.binding.Blob) == 0 {
		return d.lostBlob(ctx, x)
	}
	data := map[string]any{"value": base64.StdEncoding.EncodeToString(x.binding.Blob)}
	if x.what.format != "" {
		data["format"] = base64.StdEncoding.EncodeToString([]byte(x.what.format))
	}
	_, err := d.createOwned(ctx, x, secrets, map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": secretType, "metadata": x.metadata(nil, nil), "data": data,
	})
	return err
}

// lostBlob is for a machine without bootstrap data: they may be written already, and be known to nobody else any more.
func (d *Driver) lostBlob(ctx context.Context, x *making) error {
	_, err := x.clients.Dynamic.Resource(secrets).Namespace(x.cluster.Namespace).Get(ctx, x.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: there are no bootstrap data for cluster %q; the shard sends those of tonnage-operator --bootstrap-template-file, or the pool's template names bootstrap.templateRef",
			driver.ErrPermanent, x.binding.Cluster)
	}
	return d.management.Explain(err)
}

// createOwned writes an object that ends with the Machine. One that is there already is a success, when it is this Machine's.
func (d *Driver) createOwned(ctx context.Context, x *making, resource schema.GroupVersionResource, object map[string]any) (version string, err error) {
	u := &unstructured.Unstructured{Object: object}
	yes := true
	u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: machines.GroupVersion().String(), Kind: "Machine", Name: x.name, UID: x.owner, Controller: &yes}})
	u.SetLabels(with(u.GetLabels(), kube.LabelScope, d.scope))
	r := x.clients.Dynamic.Resource(resource).Namespace(x.cluster.Namespace)
	what := fmt.Sprintf("%s %s/%s", u.GetKind(), x.cluster.Namespace, x.name)
	made, err := r.Create(ctx, u, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		if made, err = r.Get(ctx, x.name, metav1.GetOptions{}); err == nil && !metav1.IsControlledBy(made, ownerOf(x.owner)) {
			return "", fmt.Errorf("%s belongs to another Machine, or to one that is gone and with which it will be collected", what)
		}
	}
	if err != nil {
		return "", d.refused(what, err)
	}
	return made.GetResourceVersion(), nil
}

func ownerOf(uid types.UID) metav1.Object { return &metav1.ObjectMeta{UID: uid} }

// refused sorts the answers that an API server gives to a new object.
func (d *Driver) refused(what string, err error) error {
	switch {
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err):
		return fmt.Errorf("%w: %s is refused: %w", driver.ErrPermanent, what, err)
	case apierrors.IsForbidden(err) && d.outOfStock(err.Error()):
		return fmt.Errorf("%w: %s is refused: %w", driver.ErrOutOfStock, what, err)
	case errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return fmt.Errorf("%s: %w", what, d.management.Explain(err))
}
