package clusterapi_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tonnage/tonnage/provider/check/checktest"
	"github.com/tonnage/tonnage/provider/clusterapi"
	"github.com/tonnage/tonnage/provider/clusterapi/played"
	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/pools"
)

// TestItPassesTheCheck: a provider with this driver passes every check of providers, but those of data that start nothing and
// those of what a late-bound slot does at once.
func TestItPassesTheCheck(t *testing.T) {
	r := newRig(t, "")
	r.must(r.Close())
	r.addCluster(r.cluster + "-2")
	name := "checked-" + r.cluster
	r.addTemplate(name, map[string]any{"capacity": capacity, "instanceType": "big"})
	// fault has machines fail that are made from now on; "" = none does.
	fault := func(ctx context.Context, text string) error {
		u := played.Object(played.Templates)
		u.SetNamespace(namespace)
		u.SetName(name)
		return kubernetes.Client.Patch(ctx, u, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec": {"template": {"spec": {"fault": %q}}}}`, text)))
	}
	checktest.Run(t, checktest.Options{
		Pools: fmt.Sprintf(`drivers: [{name: %[1]s, kind: cluster-api, launchesPerMinute: 60000, launchBurst: 1000, config: {kubeconfig: %[2]s, namespace: %[3]s}}]
pools:
- name: checked
  driver: %[1]s
  lateBound: true
  machines: 6
  freeSlots: 6
  zones: [z1]
  labels: {team: a}
  template:
    infrastructure: {templateRef: {apiGroup: %[4]s, kind: PlayedMachineTemplate, name: %[5]s}}
    bootstrap: {blob: {}}
  types: [{name: big, resources: {cpu: 4, memory: 8Gi, pods: 110}, prices: [{capacityType: OnDemand, pricePerHour: 1}]}]
`, r.cluster, r.file, namespace, played.Group, name),
		Cluster: r.cluster, Bootstrap: r.blob, LateBound: true,
		Open: func(d *pools.Driver) (driver.Driver, error) {
			s, err := clusterapi.ParseSettings(d.Config)
			if err != nil {
				return nil, err
			}
			r.Driver, err = clusterapi.Open(t.Context(), s, d.Name, slog.New(slog.NewTextHandler(&r.log, nil)))
			return r.Driver, err
		},
		Fail: func(ctx context.Context, _ *driver.Observation) error {
			return fault(ctx, "InsufficientInstanceCapacity: none in z1")
		},
		Vanish: func(ctx context.Context, o *driver.Observation) error {
			u := played.Object(machineKind)
			u.SetNamespace(namespace)
			u.SetName(driver.ObjectName(o.ID, o.Generation))
			return errors.Join(fault(ctx, ""), kubernetes.Client.Delete(ctx, u))
		},
	})
}
