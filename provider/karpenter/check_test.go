package karpenter_test

import (
	"context"
	"log/slog"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tonnage/tonnage/operator/kubetest"
	"github.com/tonnage/tonnage/provider/check/checktest"
	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/karpenter"
	"github.com/tonnage/tonnage/provider/kube"
	"github.com/tonnage/tonnage/provider/pools"
)

// zoneChecked is the zone of the machines of the check.
const zoneChecked = "z-checked"

const checkedPools = `drivers: [{name: checked, kind: karpenter, launchesPerMinute: 60000, launchBurst: 1000, config: {clusters: {c: {kubeconfig: none}}}}]
pools:
- name: checked
  driver: checked
  lateBound: true
  machines: 6
  freeSlots: 6
  zones: [` + zoneChecked + `]
  labels: {team: a}
  template: {nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}}
  types: [{name: big, resources: {cpu: 4, memory: 8Gi, pods: 110}, prices: [{capacityType: OnDemand, pricePerHour: 1}]}]
`

// TestItPassesTheCheck: a provider with this driver and two clusters passes every check of providers, but those of what a
// late-bound slot does at once.
func TestItPassesTheCheck(t *testing.T) {
	if missing != "" {
		t.Skip(missing)
	}
	t.Parallel()
	second, _, err := kubetest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := second.Stop(); err != nil {
			t.Error(err)
		}
	})
	ctx := t.Context()
	rights, err := letIn(ctx, second)
	if err == nil {
		err = claims(ctx, second)
	}
	if err != nil {
		t.Fatal(err)
	}
	k := &played{Client: second.Client}
	go k.run(ctx)
	log := &lockedBuffer{}
	checktest.Run(t, checktest.Options{
		Pools: checkedPools, Cluster: "c", LateBound: true,
		Open: func(d *pools.Driver) (driver.Driver, error) {
			return karpenter.OpenAt(&karpenter.Settings{}, d.Name, slog.New(slog.NewTextHandler(log, nil)), map[string]*kube.Endpoint{
				"c": kube.Fixed("the test's", user), "c-2": kube.Fixed("the test's second", rights),
			})
		},
		Fail: func(context.Context, *driver.Observation) error {
			theKarpenter.soldOut.Store(true)
			return nil
		},
		Vanish: func(ctx context.Context, o *driver.Observation) error {
			theKarpenter.soldOut.Store(false)
			return kubernetes.Client.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: driver.ObjectName(o.ID, o.Generation)}})
		},
	})
}
