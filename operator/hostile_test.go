package operator_test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	api "github.com/tonnage/tonnage/api/v1alpha1"
	"github.com/tonnage/tonnage/operator/kubetest"
	"github.com/tonnage/tonnage/operator/rollup"
)

var soakHostile = flag.Int("soak-hostile", 30, "hostile requests of each sort of which there are many")

// offers are what the judge's machines have.
var offers = map[string]string{"cpu": "64", "memory": "256Gi", "gpu": "8"}

// modest makes what well-behaved users of two namespaces ask for. Some of it is of the
// same profile as hostile requests.
func modest(t *testing.T, k *kubetest.Cluster, spaces ...string) {
	t.Helper()
	for _, space := range spaces {
		for name, change := range map[string]func(*api.CapacityRequest){
			"plain": func(*api.CapacityRequest) {},
			"large": func(r *api.CapacityRequest) {
				r.Spec.Resources["cpu"], r.Spec.Resources["memory"] = resource.MustParse("8"), resource.MustParse("16Gi")
			},
			"gpu": func(r *api.CapacityRequest) { r.Spec.Resources["gpu"] = resource.MustParse("2") },
			"zone": func(r *api.CapacityRequest) {
				r.Spec.Requirements = []api.Requirement{{Key: "zone", Operator: "In", Values: []string{"a", "b"}}}
			},
			"group": func(r *api.CapacityRequest) { r.Spec.CoLocation = &api.CoLocation{TopologyKey: "rack"} },
			"licence": func(r *api.CapacityRequest) {
				r.Spec.Priority = 3
				r.Spec.Resources["licence"] = resource.MustParse("1")
			},
		} {
			makeRequest(t, k, name, func(r *api.CapacityRequest) { r.Namespace = space }, change)
		}
	}
}

// rowsOf returns the rows of what namespaces ask for, were there nobody else.
func rowsOf(t *testing.T, k *kubetest.Cluster, limits rollup.Limits, spaces ...string) []*bigfleet.CapacityNeed {
	t.Helper()
	var all []*api.CapacityRequest
	for _, space := range spaces {
		all = append(all, requestsIn(t, k, space)...)
	}
	var g rollup.Aggregator
	limits.Offered = rollup.Amounts(offers)
	g.Limit(limits)
	got := g.Aggregate(all)
	if len(got.Refused) > 0 {
		t.Fatalf("of well-behaved requests %v are left out", got.Refused)
	}
	return got.Needs
}

// lacking says which of the wanted rows is not there, or another.
func lacking(needs, want []*bigfleet.CapacityNeed) string {
	for _, w := range want {
		if !slices.ContainsFunc(needs, func(n *bigfleet.CapacityNeed) bool { return proto.Equal(n, w) }) {
			return fmt.Sprintf("%d rows, and none is %v", len(needs), w)
		}
	}
	return ""
}

// TestHostileRequests: whatever users of a cluster write into CapacityRequests, every
// roll-up is one that a shard accepts and has all rows of the others as they were; what is
// left out is told why; and the others are heard meanwhile.
func TestHostileRequests(t *testing.T) {
	k := fresh(t)
	good, bad := []string{"good-1", "good-2"}, []string{"evil-1", "zevil-2"}
	namespaces(t, k, append(slices.Clone(good), bad...)...)
	modest(t, k, good...)
	limits := rollup.Limits{Rows: 200, Gangs: 20, Sets: 30, Keys: 20}
	if *soakHostile > 300 {
		limits = rollup.Limits{Rows: rollup.RowsMax, Gangs: 4096, Sets: 1024, Keys: 64} // a shard's defaults
	}
	j := newJudge(t, limits, offers)
	run := lead(t, k, k.Config, j.address)
	want := rowsOf(t, k, limits, good...)
	eventually(t, func() string {
		needs, _ := j.newest()
		return lacking(needs, want)
	})
	j.watch(func(needs []*bigfleet.CapacityNeed) string { return lacking(needs, want) })

	began := time.Now()
	stop := flap(t, k, bad[0])
	wrote := writeHostiles(t, k, *soakHostile, bad...)
	t.Logf("%d hostile requests written within %.1f s", wrote, time.Since(began).Seconds())
	eventually(t, j.more(3))
	heardBeside(t, k, good[1])
	stop()
	eventually(t, j.more(3))
	within(t, 2*time.Minute, toldWhy(t, k, bad...))
	eventsNameThem(t, k)
	needs, _ := j.newest()
	for _, n := range needs {
		if n.Priority == leaving {
			t.Errorf("one that is being deleted is reported: %v", n)
		}
	}
	run.report(t)
	j.sentence(t)
}

// heardBeside: a request that is made meanwhile is heard.
func heardBeside(t *testing.T, k *kubetest.Cluster, space string) {
	t.Helper()
	began := time.Now()
	r := makeRequest(t, k, "late", func(r *api.CapacityRequest) { r.Namespace = space; r.Spec.Priority = 4 })
	eventually(t, func() string {
		must(t, k.Client.Get(t.Context(), client.ObjectKeyFromObject(r), r))
		if r.Status.Phase != api.RequestAcknowledged {
			return "a well-behaved request is " + string(r.Status.Phase)
		}
		return ""
	})
	t.Logf("a well-behaved request beside them was heard after %.1f s", time.Since(began).Seconds())
}

// toldWhy is a condition of eventually: what can never be reported says why in its status.
func toldWhy(t *testing.T, k *kubetest.Cluster, spaces ...string) func() string {
	return func() string {
		told := 0
		for _, space := range spaces {
			for _, r := range requestsIn(t, k, space) {
				for s := range hostiles {
					h := &hostiles[s]
					if h.reason == "" || !strings.HasPrefix(r.Name, strings.Trim(strings.Map(plainOnly, h.name), "-")+"-") {
						continue
					}
					c := metav1.Condition{}
					if len(r.Status.Conditions) > 0 {
						c = r.Status.Conditions[0]
					}
					if c.Reason != h.reason || c.Status != metav1.ConditionFalse || c.Type != api.ConditionReported || c.Message == "" {
						return fmt.Sprintf("%s says %q of %q, want %s", r.Name, c.Reason, c.Message, h.reason)
					}
					told++
				}
			}
		}
		if told < 10 {
			return fmt.Sprintf("%d are told", told)
		}
		return ""
	}
}

// eventsNameThem: also those whose name is as long as names may be.
func eventsNameThem(t *testing.T, k *kubetest.Cluster) {
	t.Helper()
	eventually(t, func() string {
		var list eventsv1.EventList
		must(t, k.Client.List(t.Context(), &list))
		longest := 0
		for i := range list.Items {
			if e := &list.Items[i]; e.Reason == "NotReported" && e.Note != "" {
				longest = max(longest, len(e.Regarding.Name))
			}
		}
		if longest < 250 {
			return fmt.Sprintf("the longest name of one that was told is %d bytes long", longest)
		}
		return ""
	})
}

// leaving is the priority of requests that are being deleted and do not go.
const leaving = 77

// flap changes requests without a pause until stop is called: specs, owners, statuses;
// some are deleted and made again under the same name, some are held by finalizers.
func flap(t *testing.T, k *kubetest.Cluster, space string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	loop := func(f func(i int)) {
		wg.Go(func() {
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			for i := 0; ctx.Err() == nil; i++ {
				f(i)
				<-tick.C
			}
		})
	}
	makeRequest(t, k, "flapping", func(r *api.CapacityRequest) { r.Namespace = space; r.Spec.Priority = 50 })
	held := makeRequest(t, k, "held", func(r *api.CapacityRequest) {
		r.Namespace, r.Finalizers, r.Spec.Priority = space, []string{"example.com/never"}, leaving
	})
	must(t, k.Client.Delete(t.Context(), held))
	patch := func(name, text string, sub bool) {
		r := &api.CapacityRequest{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: name}}
		p := client.RawPatch("application/merge-patch+json", []byte(text))
		var err error
		if sub {
			err = k.Client.Status().Patch(ctx, r, p)
		} else {
			err = k.Client.Patch(ctx, r, p)
		}
		if err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	loop(func(i int) {
		patch("flapping", fmt.Sprintf(`{"spec":{"priority":%d,"resources":{"cpu":"%de%d"}}}`, 50+i%2, i, i%40), false)
		patch("flapping", fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p%d","uid":"u%d"}]}}`, i, i), false)
		patch("flapping", `{"status":{"phase":"Acknowledged","acknowledgedAt":"2020-01-02t03:04:05z"}}`, true)
	})
	loop(func(int) { // of the name of one in another namespace
		r := &api.CapacityRequest{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "plain"}}
		r.Spec.Priority = 60
		_ = k.Client.Create(ctx, r)
		_ = k.Client.Delete(ctx, r)
	})
	return func() { cancel(); wg.Wait() }
}
