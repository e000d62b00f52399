package kubee2e

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	api "github.com/tonnage/tonnage/api/v1alpha1"
	"github.com/tonnage/tonnage/operator/mirror"
)

// reclaimCap is the part of a cluster's machines that one cycle may reclaim.
const reclaimCap = 0.25

// settle waits until nothing is under way and nothing is orphaned: each cluster
// has a node and an UpcomingNode for every machine that is bound to it, a request
// for every pod, and nothing else.
func (f *fleet) settle(when string) {
	f.t.Helper()
	took := eventually(f.t, *limit, when+" nothing is orphaned", func() string {
		var faults []string
		for _, c := range f.clusters {
			faults = append(faults, f.orphans(c)...)
		}
		return verdict(faults)
	})
	f.t.Logf("%s nothing is orphaned (after %.1f s)", when, took.Seconds())
}

// orphans says what does not agree in one cluster.
func (f *fleet) orphans(c *cluster) []string {
	bound, settled := f.maker.bound(c.name)
	if !settled {
		return []string{c.name + ": machines are on their way"}
	}
	ctx, cancel := brief()
	defer cancel()
	var nodes corev1.NodeList
	var coming api.UpcomingNodeList
	var pods corev1.PodList
	var requests api.CapacityRequestList
	for _, err := range []error{c.client.List(ctx, &nodes), c.client.List(ctx, &coming), c.client.List(ctx, &pods), c.client.List(ctx, &requests)} {
		if err != nil {
			return []string{err.Error()}
		}
	}
	var faults []string
	var have, expected, told []string
	for i := range nodes.Items {
		have = append(have, nodes.Items[i].Name)
		if nodes.Items[i].Spec.Unschedulable {
			faults = append(faults, fmt.Sprintf("%s: node %s is cordoned", c.name, nodes.Items[i].Name))
		}
	}
	for i := range coming.Items {
		told = append(told, coming.Items[i].Name)
	}
	for _, id := range bound {
		expected = append(expected, mirror.NodeName(id))
	}
	for _, x := range []*[]string{&have, &told, &expected} {
		slices.Sort(*x)
	}
	if !slices.Equal(have, bound) {
		faults = append(faults, fmt.Sprintf("%s: nodes %v, machines %v", c.name, have, bound))
	}
	if !slices.Equal(told, expected) {
		faults = append(faults, fmt.Sprintf("%s: UpcomingNodes %v, machines %v", c.name, told, bound))
	}
	return append(faults, requestsAgree(c.name, requests.Items, len(pods.Items))...)
}

// requestsAgree says whether there is a request for each pod and none besides, but for packing overhead,
// which stays while there are pods.
func requestsAgree(cluster string, requests []api.CapacityRequest, pods int) []string {
	overhead := 0
	for i := range requests {
		if requests[i].Labels[api.LabelPackingOverhead] != "" {
			overhead++
		}
	}
	switch own := len(requests) - overhead; {
	case own != pods:
		return []string{fmt.Sprintf("%s: %d requests, %d pods", cluster, own, pods)}
	case overhead > pods:
		return []string{fmt.Sprintf("%s: %d requests of packing overhead, %d pods", cluster, overhead, pods)}
	}
	return nil
}
