package kubee2e

import (
	"fmt"
	"os"
	"testing"

	"github.com/tonnage/tonnage/internal/freeport"
)

// TestCapi has a fleet whose machines Cluster API makes go through demand that comes, moves and preempts, machines
// that are lost, capacity that is out, and provider, shard, Cluster API and its infrastructure that are killed.
func TestCapi(t *testing.T) {
	want(t, "capi")
	f := newCapiFleet(t)
	f.journey()
	f.checkWrites("machines", f.management.cluster)
}

// TestCapiCharts has pods run on machines that did not exist before, with provider, shard and operator as the charts have them: their
// arguments, files, accounts and rights are those that helm template prints, for the values of the page.
func TestCapiCharts(t *testing.T) {
	want(t, "capi-charts")
	f, _ := noCapiFleet(t)
	f.template()
	blue := f.cluster("blue")
	w := watchCluster(t, blue)
	ports := freeport.TakeN(t, 3)
	f.management.install("tonnage-provider", map[string]any{
		"pools": f.declared(map[string]any{"namespace": capiNamespace}), "clusterApi": map[string]any{"namespaces": []string{capiNamespace}},
	}).run(map[string]string{"grpc": ports[0], "metrics": ports[1]})
	f.management.install("tonnage", map[string]any{
		"coordinator": map[string]any{"enabled": false}, "shard": map[string]any{"provider": map[string]any{"addr": ports[0]}},
	}).run(map[string]string{"grpc": ports[2]})
	blob, err := os.ReadFile(blue.template)
	if err != nil {
		t.Fatal(err)
	}
	blue.install("tonnage-operator", map[string]any{"clusterID": blue.name, "shardAddress": ports[2], "bootstrapTemplate": string(blob)}).run(nil)
	blue.install("tonnage-pods", map[string]any{}).run(nil)

	const pods = 3
	f.apply(blue, filling(hostType, pods))
	took := eventually(t, *limit, "the pods run on machines that were made for them", func() string {
		if n := w.runningOnNodes(hostType); n != pods {
			return fmt.Sprintf("%d of %d run", n, pods)
		}
		return ""
	})
	t.Logf("%d pods ran on machines that did not exist before, %.1f s after they were made", pods, took.Seconds())
	f.scale(blue, hostType, 0)
	took = eventually(t, *limit, "the machines are given back", func() string {
		left, err := f.management.all("cluster.x-k8s.io/v1beta2", "Machine")
		if err != nil {
			return err.Error()
		}
		if _, nodes := w.counts(); nodes > 0 || len(left) > 0 {
			return fmt.Sprintf("there are %d Machines and %d nodes", len(left), nodes)
		}
		return ""
	})
	t.Logf("they were given back %.1f s after nobody wanted them", took.Seconds())
	if why := orphansAt("http://" + ports[1] + "/orphans"); why != "" {
		t.Error(why)
	}
}
