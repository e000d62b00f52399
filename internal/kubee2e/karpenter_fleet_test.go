package kubee2e

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tonnage/tonnage/operator/kubetest"
	"github.com/tonnage/tonnage/provider/kube"
)

// karpenterFleet is a fleet whose machines are made by Karpenter in each cluster.
type karpenterFleet struct {
	*handsFleet
	tools string // folder of what tools/karpenter builds
	stock string // the file that says what the cloud does not have
	// offered writes what the cloud has, and returns the file.
	offered   func() string
	scheduler string // its configuration in each cluster
}

// newKarpenterFleet starts two clusters with Karpenter, a provider with driver karpenter and a shard.
func newKarpenterFleet(t *testing.T) *karpenterFleet {
	t.Helper()
	f := noKarpenterFleet(t)
	f.demand = map[string]int32{hostType: int32(*machines)}
	f.prices = map[string]float64{zoneCheap: 0.4, zoneDear: 0.5}
	f.counted, f.lose, f.empty = f.claimed, f.takeBack, f.sellOut
	f.begin(f.cluster, f.pools)
	for _, c := range f.clusters {
		f.victims = append(f.victims, c.controllers)
	}
	return f
}

// noKarpenterFleet is a fleet in which nothing runs yet.
func noKarpenterFleet(t *testing.T) *karpenterFleet {
	t.Helper()
	f := &karpenterFleet{handsFleet: &handsFleet{fleet: &fleet{t: t, dir: t.TempDir(), p: findPrograms(t)}}, tools: toolsOf(t, "karpenter")}
	f.stock, f.offered, f.scheduler = filepath.Join(f.dir, "stock"), f.catalogue, schedulerDefaults
	return f
}

// toolsOf names the folder of what a module below tools builds.
func toolsOf(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command(kubetest.Root("tools", name, "build"), "--print").Output()
	if err != nil {
		t.Fatalf("tools/%s/build --print: %v", name, err)
	}
	dir := strings.TrimSpace(string(out))
	if _, err := os.Stat(dir); err != nil {
		t.Fatalf("there is no %s in %s; make %s-tools builds it", name, dir, name)
	}
	return dir
}

// cluster starts a cluster with Karpenter.
func (f *karpenterFleet) cluster(name string) *cluster {
	c := (&cluster{t: f.t, name: name, p: f.p, scheduler: f.scheduler, audit: true}).begin()
	admin := c.ca.file("admin.kubeconfig")
	c.give(admin, filepath.Join(f.tools, "crds"), kubetest.Root("deploy", "rbac", "provider-karpenter.yaml"))
	f.class(c, "default", nil)
	f.apply(c, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "tonnage-provider"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "tonnage-provider-karpenter"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "tonnage-provider"}},
	})
	c.ca.user("tonnage-provider", "", c.address)
	c.controllers = startAgain(f.t, true, c.dir, name+"-karpenter", "/usr/bin/env",
		"KUBECONFIG="+c.ca.user("karpenter", "system:masters", c.address), "DISABLE_LEADER_ELECTION=true", "METRICS_PORT=0", "HEALTH_PROBE_PORT=0",
		"INSTANCE_TYPES_FILE_PATH="+f.offered(), "CLOUD_FAULTS_FILE="+f.stock, filepath.Join(f.tools, "karpenter"))
	return c
}

// class makes a class of nodes.
func (f *karpenterFleet) class(c *cluster, name string, spec map[string]any) *unstructured.Unstructured {
	f.t.Helper()
	class := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	class.SetAPIVersion("karpenter.kwok.sh/v1alpha1")
	class.SetKind("KWOKNodeClass")
	class.SetName(name)
	eventually(f.t, startLimit, c.name+" takes a class of nodes", func() string {
		ctx, cancel := brief()
		defer cancel()
		if err := c.client.Create(ctx, class); client.IgnoreAlreadyExists(err) != nil {
			return err.Error()
		}
		return ""
	})
	return class
}

// catalogue writes what the cloud has. It keeps back a tenth of a processor and 10 MiB of each machine.
func (f *karpenterFleet) catalogue() string {
	f.t.Helper()
	offering := func(zone string) map[string]any {
		in := func(key, value string) any {
			return map[string]any{"key": key, "operator": "In", "values": []string{value}}
		}
		return map[string]any{"Price": 0.4, "Available": true, "Requirements": []any{in("karpenter.sh/capacity-type", "spot"), in(corev1.LabelTopologyZone, zone)}}
	}
	text, err := json.Marshal([]any{map[string]any{
		"name": hostType, "architecture": "amd64", "operatingSystems": []string{"linux"}, "offerings": []any{offering(zoneCheap), offering(zoneDear)},
		"resources": map[string]string{"cpu": hostCores + "100m", "memory": "16394Mi"},
	}})
	if err != nil {
		f.t.Fatal(err)
	}
	path := filepath.Join(f.dir, "catalogue.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		f.t.Fatal(err)
	}
	return path
}

// pools writes the pools file.
func (f *karpenterFleet) pools() string {
	clusters := map[string]any{}
	for _, c := range f.clusters {
		clusters[c.name] = map[string]any{"kubeconfig": c.ca.file("tonnage-provider.kubeconfig")}
	}
	return f.writePools(f.declared(clusters))
}

// declared is the pools file, for a driver that knows these clusters.
func (f *karpenterFleet) declared(clusters map[string]any) map[string]any {
	prices := []any{}
	for zone, dollars := range f.prices {
		prices = append(prices, map[string]any{"capacityType": "Spot", "zone": zone, "pricePerHour": dollars, "interruptionProbability": 0.001})
	}
	return declaredFor(clusters, map[string]any{
		"machines": *machines, "zones": []string{zoneCheap, zoneDear},
		"types": []any{map[string]any{
			"name": hostType, "resources": map[string]string{"cpu": hostCores, "memory": "16Gi", "pods": "110"}, "prices": prices,
		}},
	})
}

// declaredFor is a pools file with one pool of Karpenter, of which pool says what there is.
func declaredFor(clusters, pool map[string]any) map[string]any {
	all := map[string]any{
		// kwok is the kubelet of nodes with this label.
		"name": "hosts", "driver": "karpenter", "lateBound": true, "labels": map[string]string{"type": "kwok"},
		"template": map[string]any{"nodeClassRef": map[string]any{"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}},
	}
	maps.Copy(all, pool)
	return map[string]any{
		"drivers": []any{map[string]any{"name": "karpenter", "kind": "karpenter", "launchesPerMinute": 6000, "launchBurst": 100, "config": map[string]any{"clusters": clusters}}},
		"pools":   []any{all},
	}
}

// nodePool has Karpenter make machines for pending pods itself. what are fields of its spec.template.spec.
func (f *karpenterFleet) nodePool(c *cluster, name string, what map[string]any) {
	f.t.Helper()
	machine := map[string]any{"nodeClassRef": map[string]any{"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}, "expireAfter": "Never"}
	maps.Copy(machine, what)
	pool := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"type": "kwok"}}, "spec": machine},
		// Both wait for nothing, and may take all their machines at once.
		"disruption": map[string]any{"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s", "budgets": []any{map[string]any{"nodes": "100%"}}},
	}}}
	pool.SetAPIVersion("karpenter.sh/v1")
	pool.SetKind("NodePool")
	pool.SetName(name)
	f.apply(c, pool)
}

// claims lists the NodeClaims of a cluster.
func (f *karpenterFleet) claims(c *cluster) ([]unstructured.Unstructured, error) {
	ctx, cancel := brief()
	defer cancel()
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("karpenter.sh/v1")
	list.SetKind("NodeClaimList")
	err := c.client.List(ctx, list)
	return list.Items, err
}

// claimed says whether the claims of both clusters are those of the provider's machines, one each.
func (f *karpenterFleet) claimed(existing []string) (faults []string) {
	made := map[string]string{}
	for _, c := range f.clusters {
		all, err := f.claims(c)
		if err != nil {
			return []string{err.Error()}
		}
		for i := range all {
			made["NodeClaim "+all[i].GetName()+" of "+c.name] = all[i].GetAnnotations()[kube.AnnotationMachine]
		}
	}
	return oneEach(existing, "NodeClaims", made)
}

// sellOut has the cloud have no machines in a zone.
func (f *karpenterFleet) sellOut(zone string) {
	f.t.Helper()
	line := ""
	if zone != "" {
		line = "none * " + zone + " *\n"
	}
	if err := os.WriteFile(f.stock, []byte(line), 0o600); err != nil {
		f.t.Fatal(err)
	}
}
