package kubee2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tonnage/tonnage/internal/freeport"
)

const (
	// fleetLabel, with fleetValue, is on the machines of Tonnage and on the pods that are for them, and is the key of the taint.
	fleetLabel = "tonnage.dev/fleet"
	fleetValue = "shared"
	// poolLabel says of which NodePool a machine is.
	poolLabel = "karpenter.sh/nodepool"
	others    = "others"
)

// TestKarpenterCharts has pods run on machines that did not exist before, beside a NodePool, with provider, shard, operators and pod
// controllers as the charts have them: their arguments, files, accounts and rights are those that helm template prints, for the values
// of the page. The provider is in one of the two clusters in which it makes machines; of the other it has a kubeconfig.
func TestKarpenterCharts(t *testing.T) {
	want(t, "karpenter-charts")
	f := noKarpenterFleet(t)
	f.prices = map[string]float64{zoneCheap: 0.4, zoneDear: 0.5}
	blue, green := f.cluster("blue"), f.cluster("green")
	f.clusters = []*cluster{blue, green}
	for _, c := range f.clusters {
		f.watches = append(f.watches, watchCluster(t, c))
	}
	f.nodePool(blue, others, map[string]any{"requirements": []any{map[string]any{"key": "karpenter.sh/capacity-type", "operator": "In", "values": []any{"spot"}}}})
	ports := freeport.TakeN(t, 3)
	f.provide(ports)
	blue.install("tonnage", map[string]any{
		"coordinator": map[string]any{"enabled": false}, "shard": map[string]any{"provider": map[string]any{"addr": ports[0]}},
	}).run(map[string]string{"grpc": ports[2]})
	for _, c := range f.clusters {
		c.install("tonnage-operator", map[string]any{"clusterID": c.name, "shardAddress": ports[2]}).run(nil)
		c.install("tonnage-pods", map[string]any{"extraArgs": []string{"--selector=" + fleetLabel + "=" + fleetValue}}).run(nil)
	}

	const pods = 3
	f.apply(blue, otherPods(1))
	for _, c := range f.clusters {
		f.apply(c, fleetPods(pods))
	}
	took := eventually(t, *limit, "the pods run on machines that were made for them", func() string {
		return verdict(append(f.placed(0, pods, 1), f.placed(1, pods, 0)...))
	})
	t.Logf("%d pods in each of two clusters ran on machines that did not exist before, and another on one of a NodePool, %.1f s after they were made", pods, took.Seconds())
	for _, c := range f.clusters {
		f.scale(c, hostType, 0)
	}
	took = eventually(t, *limit, "the machines are given back", func() string {
		return verdict(append(f.placed(0, 0, 1), f.placed(1, 0, 0)...))
	})
	t.Logf("they were given back %.1f s after nobody wanted them", took.Seconds())
	if why := orphansAt("http://" + ports[1] + "/orphans"); why != "" {
		t.Error(why)
	}
}

// provide starts the provider in the first cluster, on a node that was there before, with the kubeconfig of the second one in a Secret.
func (f *karpenterFleet) provide(ports []string) {
	f.t.Helper()
	home, away := f.clusters[0], f.clusters[1]
	const system = "system"
	has := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi"), corev1.ResourcePods: resource.MustParse("10")}
	f.apply(home, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: system, Labels: map[string]string{"type": "kwok", corev1.LabelHostname: system}, Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: system, Effect: corev1.TaintEffectNoSchedule}}},
		Status:     corev1.NodeStatus{Capacity: has, Allocatable: has},
	})
	const mountPath, file, secret = mounted + "tonnage/kubeconfigs", "away.kubeconfig", "kubeconfigs"
	pools := f.declared(map[string]any{home.name: map[string]any{}, away.name: map[string]any{"kubeconfig": mountPath + "/" + file}})
	pool := pools["pools"].([]any)[0].(map[string]any)
	pool["labels"] = map[string]string{"type": "kwok", fleetLabel: fleetValue}
	pool["taints"] = []any{map[string]any{"key": fleetLabel, "value": fleetValue, "effect": "NoSchedule"}}
	provider := home.install("tonnage-provider", map[string]any{
		"pools": pools, "karpenter": map[string]any{"inCluster": true},
		"extraVolumes":      []any{map[string]any{"name": secret, "secret": map[string]any{"secretName": secret}}},
		"extraVolumeMounts": []any{map[string]any{"name": secret, "mountPath": mountPath, "readOnly": true}},
	})
	f.apply(home, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: releaseNamespace, Name: secret}, Data: map[string][]byte{file: away.accountKubeconfig("tonnage-provider")}})
	provider.node = system
	provider.run(map[string]string{"grpc": ports[0], "metrics": ports[1]})
}

// accountKubeconfig gives the rights of the role to a service account, and returns a kubeconfig with a token of it, all with the commands of the page.
func (c *cluster) accountKubeconfig(account string) []byte {
	c.t.Helper()
	const namespace, binding = "tonnage", "tonnage-provider-account" // the user of other tests has the binding of the page
	c.kubectl("-n", namespace, "create", "serviceaccount", account)
	c.kubectl("create", "clusterrolebinding", binding, "--clusterrole=tonnage-provider-karpenter", "--serviceaccount="+namespace+":"+account)
	file := filepath.Join(c.dir, account+"-account.kubeconfig")
	if err := os.WriteFile(file, []byte(c.kubectl("config", "view", "--minify", "--flatten")), 0o600); err != nil {
		c.t.Fatal(err)
	}
	token := c.kubectl("-n", namespace, "create", "token", account, "--duration=8760h")
	c.kubectl("--kubeconfig="+file, "config", "unset", "users")
	c.kubectl("--kubeconfig="+file, "config", "set-credentials", account, "--token="+token)
	c.kubectl("--kubeconfig="+file, "config", "set-context", "--current", "--user="+account)
	text, err := os.ReadFile(file)
	if err != nil {
		c.t.Fatal(err)
	}
	return text
}

// fleetPods are so many pods for the machines of Tonnage, each of which fills one.
func fleetPods(n int32) *appsv1.Deployment {
	d := filling(hostType, n)
	pod := &d.Spec.Template
	pod.Labels[fleetLabel] = fleetValue
	pod.Spec.NodeSelector[fleetLabel] = fleetValue
	pod.Spec.Tolerations = []corev1.Toleration{{Key: fleetLabel, Value: fleetValue, Effect: corev1.TaintEffectNoSchedule}}
	return d
}

// otherPods are so many that are nobody's but the NodePool's.
func otherPods(n int32) *appsv1.Deployment {
	d := filling(hostType, n)
	d.Name = others
	d.Spec.Template.Labels[kindLabel] = others // the labels of the selector are the same map
	return d
}

// placed says what is wrong unless so many pods of the fleet and so many others run in a cluster, each on a machine of its own, made by whom
// it is for, and no machine more is there.
func (f *karpenterFleet) placed(i, fleetPods, otherPods int) (faults []string) {
	want := map[string]int{"tonnage": fleetPods, others: otherPods}
	claims, err := f.claims(f.clusters[i])
	if err != nil {
		return []string{err.Error()}
	}
	got := map[string]int{}
	for _, c := range claims {
		got[c.GetLabels()[poolLabel]]++
	}
	w := f.watches[i]
	w.mu.Lock()
	defer w.mu.Unlock()
	running := map[string]int{}
	for _, p := range w.live {
		if n := w.nodes[p.Spec.NodeName]; n != nil && p.Namespace == "default" && runs(p) {
			of := n.Labels[poolLabel]
			running[of]++
			if (of == others) != (p.Labels[kindLabel] == others) {
				faults = append(faults, fmt.Sprintf("%s: a pod of %s is on a machine of %s", w.c.name, p.Labels[kindLabel], of))
			}
		}
	}
	for pool, n := range want {
		if got[pool] != n || running[pool] != n {
			faults = append(faults, fmt.Sprintf("%s: %d pods run on %d machines of %s, want %d each", w.c.name, running[pool], got[pool], pool, n))
		}
	}
	return faults
}
