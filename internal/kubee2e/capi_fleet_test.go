package kubee2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tonnage/tonnage/operator/kubetest"
	"github.com/tonnage/tonnage/provider/clusterapi/played"
	"github.com/tonnage/tonnage/provider/kube"
)

// capiTemplate is the template of infrastructure that pools name.
const capiTemplate = "workers"

// capiFleet is a fleet whose machines are made by Cluster API, whose infrastructure is played.
type capiFleet struct {
	*handsFleet
	management *management
	soldOut    string // the file that says which zones have no machines
}

// newCapiFleet starts a management cluster with Cluster API, two clusters that it knows, a provider with driver cluster-api and a
// shard.
func newCapiFleet(t *testing.T) *capiFleet {
	t.Helper()
	f, infrastructure := noCapiFleet(t)
	f.demand = map[string]int32{hostType: int32(*machines)}
	f.counted, f.lose, f.empty = f.paired, f.takeBack, f.sellOut
	f.begin(f.cluster, f.pools)
	f.victims = append(f.victims, f.management.core, infrastructure)
	return f
}

// noCapiFleet is a management cluster, and a fleet in which nothing runs yet.
func noCapiFleet(t *testing.T) (f *capiFleet, infrastructure *process) {
	t.Helper()
	f = &capiFleet{handsFleet: &handsFleet{fleet: &fleet{t: t, dir: t.TempDir(), p: findPrograms(t)}, prices: map[string]float64{zoneCheap: 0.4, zoneDear: 0.5}}}
	f.soldOut = filepath.Join(f.dir, "sold-out")
	f.management = newManagement(t, f.p)
	return f, f.management.infrastructure(f.soldOut)
}

// cluster starts a cluster, and has Cluster API know it as one whose control plane somebody else has.
func (f *capiFleet) cluster(name string) *cluster {
	f.t.Helper()
	c := (&cluster{t: f.t, name: name, p: f.p, scheduler: schedulerDefaults, audit: true}).begin()
	// The blob is what a kubelet needs to join; the played infrastructure takes a kubeconfig.
	c.template = filepath.Join(c.dir, "bootstrap.kubeconfig")
	if err := os.WriteFile(c.template, c.flat(c.ca.user("kubelets", "system:masters", c.address)), 0o600); err != nil {
		f.t.Fatal(err)
	}
	c.give(c.ca.file("admin.kubeconfig"), kubetest.Root("deploy", "rbac", "provider-cluster-api.yaml"))
	f.apply(c, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "tonnage-provider"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "tonnage-provider-nodes"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "tonnage-provider"}},
	})
	c.ca.user("tonnage-provider", "", c.address)

	host, port, _ := strings.Cut(c.address, ":")
	number, err := strconv.ParseInt(port, 10, 64)
	if err != nil {
		f.t.Fatal(err)
	}
	known, controlPlane := played.NewCluster(capiNamespace, name, host, number)
	f.management.make(controlPlane)
	f.management.make(known)
	f.management.make(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name + "-kubeconfig", Labels: map[string]string{"cluster.x-k8s.io/cluster-name": name}}, Type: "cluster.x-k8s.io/secret",
		Data: map[string][]byte{"value": c.flat(c.ca.user("cluster-api", "system:masters", c.address))},
	})
	return c
}

// template makes the template that pools name.
func (f *capiFleet) template() {
	f.t.Helper()
	template := played.Object(played.Templates)
	template.SetName(capiTemplate)
	template.Object["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{
		"instanceType": "replaced", "capacity": map[string]any{"cpu": hostCores, "memory": "16Gi", "pods": "110"},
	}}}
	f.management.make(template)
}

// pools writes the pools file.
func (f *capiFleet) pools() string {
	f.template()
	clusters := map[string]any{}
	for _, c := range f.clusters {
		clusters[c.name] = map[string]any{"kubeconfig": c.ca.file("tonnage-provider.kubeconfig")}
	}
	return f.writePools(f.declared(map[string]any{"kubeconfig": f.management.ca.file("tonnage-provider.kubeconfig"), "namespace": capiNamespace, "clusters": clusters}))
}

// declared is the pools file, for a driver that is configured so.
func (f *capiFleet) declared(config map[string]any) map[string]any {
	prices := []any{}
	for zone, dollars := range f.prices {
		prices = append(prices, map[string]any{"capacityType": "Spot", "zone": zone, "pricePerHour": dollars, "interruptionProbability": 0.001})
	}
	return map[string]any{
		"drivers": []any{map[string]any{"name": "capi", "kind": "cluster-api", "launchesPerMinute": 6000, "launchBurst": 100, "config": config}},
		"pools": []any{map[string]any{
			"name": "hosts", "driver": "capi", "lateBound": true, "machines": *machines, "labels": map[string]string{"team": "shared"}, "zones": []string{zoneCheap, zoneDear},
			"template": map[string]any{
				"infrastructure": map[string]any{
					"templateRef": map[string]any{"apiGroup": played.Group, "kind": played.Templates.Kind, "name": capiTemplate},
					"overrides":   []any{map[string]any{"spec": map[string]any{"instanceType": "${instanceType}", "zone": "${zone}"}}},
				},
				"bootstrap": map[string]any{"blob": map[string]any{}},
			},
			"types": []any{map[string]any{
				"name": hostType, "resources": map[string]string{"cpu": hostCores, "memory": "16Gi", "pods": "110"}, "prices": prices,
			}},
		}},
	}
}

// paired says whether Machines, their infrastructure and their bootstrap data are those of the provider's machines, one each.
func (f *capiFleet) paired(existing []string) (faults []string) {
	scope := client.MatchingLabels{kube.LabelScope: "capi"}
	machines, err := f.management.all("cluster.x-k8s.io/v1beta2", "Machine", scope)
	if err != nil {
		return []string{err.Error()}
	}
	of, made := map[string]string{}, map[string]string{}
	for i := range machines {
		id := machines[i].GetAnnotations()[kube.AnnotationMachine]
		of[machines[i].GetName()] = id
		made["Machine "+machines[i].GetName()] = id
	}
	faults = oneEach(existing, "Machines", made)
	for _, x := range []struct{ apiVersion, kind string }{{played.Machines.GroupVersion().String(), played.Machines.Kind}, {"v1", "Secret"}} {
		all, err := f.management.all(x.apiVersion, x.kind, scope)
		if err != nil {
			return []string{err.Error()}
		}
		made := map[string]string{}
		for i := range all {
			made[x.kind+" "+all[i].GetName()] = of[all[i].GetName()]
		}
		faults = append(faults, oneEach(existing, x.kind+"s", made)...)
	}
	return faults
}

// sellOut has the infrastructure have no machines in a zone.
func (f *capiFleet) sellOut(zone string) {
	f.t.Helper()
	if err := os.WriteFile(f.soldOut, []byte(zone+"\n"), 0o600); err != nil {
		f.t.Fatal(err)
	}
}
