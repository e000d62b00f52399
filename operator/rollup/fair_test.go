package rollup

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	api "github.com/tonnage/tonnage/api/v1alpha1"
)

// offered are machines of 64 cores, some with devices.
var offered = map[string]int64{"cpu": 64_000, "memory": 256 << 30, "gpu": 8}

// taken returns what a roll-up has of everything that a shard limits.
func taken(needs []*bigfleet.CapacityNeed, limits *Limits) map[string]int {
	sets, keys, names, strange := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	gangs := 0
	for _, n := range needs {
		set := ""
		for _, r := range n.Requirements {
			keys[r.Key] = true
			set += fmt.Sprintf("%q %d %q\n", r.Key, r.Operator, r.Values)
			if r.Operator == bigfleet.NodeSelectorRequirement_OPERATOR_SAME {
				gangs++
			}
		}
		sets[set] = true
		for _, s := range n.Spread {
			keys[s.TopologyKey] = true
		}
		for name := range n.AggregateResources {
			names[name] = true
			if !limits.offers(name) {
				strange[name] = true
			}
		}
	}
	return map[string]int{"rows": len(needs), "gangs": gangs, "sets": len(sets), "keys": len(keys), "names": len(names), "unoffered": len(strange),
		"bytes": proto.Size(&bigfleet.ClusterCapacityNeeds{Needs: needs})}
}

// within fails when a shard would refuse the roll-up.
func within(t *testing.T, needs []*bigfleet.CapacityNeed, limits Limits) {
	t.Helper()
	most := limits.orDefaults()
	has := taken(needs, &most)
	for name, limit := range map[string]int{"rows": most.Rows, "gangs": most.Gangs, "sets": most.Sets, "keys": most.Keys, "names": DimensionsMax, "unoffered": UnofferedMax, "bytes": BytesMax} {
		if has[name] > limit {
			t.Errorf("%d %s, at most %d are accepted", has[name], name, limit)
		}
	}
}

// greedy makes requests of a namespace that exceed one limit each.
var greedy = map[string]func(namespace string, most *Limits) []*api.CapacityRequest{
	"rows": func(namespace string, most *Limits) []*api.CapacityRequest {
		return many(most.Rows+50, func(i int) *api.CapacityRequest { return request("cpu=1", in(namespace), priority(1<<31-1-int32(i))) })
	},
	"gangs": func(namespace string, most *Limits) []*api.CapacityRequest {
		return many(most.Gangs+50, func(i int) *api.CapacityRequest {
			return request("cpu=1", in(namespace), priority(1000), together("rack", &metav1.LabelSelector{MatchLabels: map[string]string{"a": fmt.Sprint(i)}}))
		})
	},
	"sets": func(namespace string, most *Limits) []*api.CapacityRequest {
		return many(most.Sets+50, func(i int) *api.CapacityRequest {
			return request("cpu=1", in(namespace), priority(1000), requires("zone", corev1.NodeSelectorOpNotIn, fmt.Sprint(i)))
		})
	},
	"keys": func(namespace string, most *Limits) []*api.CapacityRequest {
		return many(most.Keys+50, func(i int) *api.CapacityRequest {
			return request("cpu=1", in(namespace), priority(1000), requires(fmt.Sprint(namespace, i), corev1.NodeSelectorOpExists))
		})
	},
	"all keys in one": func(namespace string, most *Limits) []*api.CapacityRequest {
		return many(2, func(i int) *api.CapacityRequest {
			r := request("cpu=1", in(namespace), priority(1000))
			for j := range most.Keys {
				requires(fmt.Sprint(namespace, i, "-", j), corev1.NodeSelectorOpExists)(r)
			}
			return r
		})
	},
	"bytes": func(namespace string, _ *Limits) []*api.CapacityRequest {
		return many(900, func(i int) *api.CapacityRequest {
			values := make([]string, 120)
			for j := range values {
				values[j] = fmt.Sprintf("%0250d", 1000*(i%40)+j)
			}
			return request("cpu=1", in(namespace), priority(int32(1000+i)), requires("zone", "In", values...))
		})
	},
	"names": func(namespace string, _ *Limits) []*api.CapacityRequest {
		return many(DimensionsMax, func(i int) *api.CapacityRequest {
			return request(fmt.Sprintf("cpu=1 %s-%d=1 %[1]s-%[2]d-b=1", namespace, i), in(namespace), priority(1000))
		})
	},
	"amounts": func(namespace string, _ *Limits) []*api.CapacityRequest {
		return many(3, func(i int) *api.CapacityRequest {
			return request(fmt.Sprintf("cpu=%d memory=1Pi", 5000+i), in(namespace))
		})
	},
}

func many(n int, one func(i int) *api.CapacityRequest) []*api.CapacityRequest {
	out := make([]*api.CapacityRequest, n)
	for i := range out {
		out[i] = one(i)
	}
	return out
}

// modest are the requests of somebody who wants what people want.
func modest(namespace string) []*api.CapacityRequest {
	return []*api.CapacityRequest{
		request("cpu=1 memory=1Gi", in(namespace)), request("cpu=2", in(namespace)), request("cpu=1 gpu=1", in(namespace), priority(-7)),
		request("cpu=1", in(namespace), priority(5), requires("zone", "In", "a", "b")), request("cpu=1", in(namespace), requires("kind", "Exists"), spread("zone", 1, "DoNotSchedule")),
		request("cpu=4", in(namespace), together("rack", &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}})),
		request("cpu=1 licence=1", in(namespace), priority(3)),
	}
}

// TestNobodyTakesTheRoomOfOthers: whatever limit one namespace, or two, exceed, and whether
// or not the shard says what machines offer: the roll-up is one that the shard accepts, and
// has the rows of others as they are without the greedy ones. What is left out is theirs.
func TestNobodyTakesTheRoomOfOthers(t *testing.T) {
	for _, limits := range []Limits{{}, {Offered: offered, Gangs: 4096, Sets: 1024, Keys: 64}, {Offered: offered, Rows: 500, Gangs: 40, Sets: 30, Keys: 12}} {
		for name, make := range greedy {
			if limits.Offered != nil && limits.Rows == 0 && (name == "rows" || name == "bytes") {
				continue // as without
			}
			t.Run(fmt.Sprint(name, limits.Rows, limits.Offered != nil), func(t *testing.T) {
				good := append(modest("m"), modest("n")...)
				most := limits.orDefaults()
				requests := append(slices.Clone(good), make("a", &most)...)
				requests = append(requests, make("z", &most)...)
				var alone, g Aggregator
				alone.Limit(limits)
				g.Limit(limits)
				want := alone.Aggregate(good)
				for range 2 { // remembered, and not
					got := g.Aggregate(requests)
					within(t, got.Needs, limits)
					for _, r := range got.Refused {
						if r.Request.Namespace == "m" || r.Request.Namespace == "n" {
							t.Fatalf("a request of %s is left out: %v", r.Request.Namespace, r.Err)
						}
						if name != "amounts" && !errors.Is(r.Err, ErrMany) {
							t.Fatalf("left out: %v", r.Err)
						}
					}
					if len(got.Refused)+len(got.Included) != len(requests) {
						t.Errorf("%d of %d requests left out, %d included", len(got.Refused), len(requests), len(got.Included))
					}
					contains(t, got.Needs, want.Needs, name == "names" && limits.Offered == nil)
				}
			})
		}
	}
}

// contains fails when rows are not there. shared: they may ask for more.
func contains(t *testing.T, got, want []*bigfleet.CapacityNeed, shared bool) {
	t.Helper()
	for _, w := range want {
		if !slices.ContainsFunc(got, func(n *bigfleet.CapacityNeed) bool {
			if proto.Equal(n, w) {
				return true
			}
			return shared && n.Priority == w.Priority && n.Group == w.Group && len(n.Requirements) == len(w.Requirements)
		}) {
			t.Errorf("there is no row %v", w)
		}
	}
}

// TestManyNamesTakeBoundedTime: the time grows with the number of requests, and not with its
// square; that would be minutes here.
func TestManyNamesTakeBoundedTime(t *testing.T) {
	requests := many(5000, func(i int) *api.CapacityRequest {
		r := request("", in("a"))
		for j := range 24 {
			r.Spec.Resources[corev1.ResourceName(fmt.Sprint("r", i, "-", j))] = *resource.NewQuantity(1, resource.DecimalSI)
		}
		return r
	})
	requests = append(requests, modest("m")...)
	var g Aggregator
	g.Limit(Limits{Offered: offered})
	begun := time.Now()
	got := g.Aggregate(requests)
	if took := time.Since(begun); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
	within(t, got.Needs, Limits{Offered: offered})
	if len(got.Refused) != 5000 {
		t.Errorf("%d are left out", len(got.Refused))
	}
}

// TestWhatNoMachineHasStandsApart: such requests do not become the smallest unit of others.
func TestWhatNoMachineHasStandsApart(t *testing.T) {
	requests := []*api.CapacityRequest{
		request("cpu=1"), request("cpu=64"), request("cpu=65"), request("cpu=1 typo=1"), request("cpu=1 gpu=8"),
		request("cpu=1", together("rack", nil)), request("cpu=5000", together("rack", nil)),
	}
	var g Aggregator
	for _, step := range []struct {
		limits Limits
		want   string // aggregate and unit of cpu of each row, sorted
	}{
		{Limits{}, "129 65, 3 1, 5001 5000"},
		{Limits{Offered: offered}, "2 1, 5001 5000, 64 64, 66 65"},
		{Limits{Offered: map[string]int64{"cpu": 65_000, "gpu": 8}}, "1 1, 129 65, 2 1, 5001 5000"},
		{Limits{Offered: map[string]int64{}}, "132 65, 5001 5000"},
	} {
		g.Limit(step.limits)
		for range 2 {
			var got []string
			for _, n := range g.Aggregate(requests).Needs {
				got = append(got, n.AggregateResources["cpu"]+" "+n.MinUnit["cpu"])
			}
			slices.Sort(got)
			if s := strings.Join(got, ", "); s != step.want {
				t.Errorf("%v: rows are %s, want %s", step.limits.Offered, s, step.want)
			}
		}
	}
}

// TestChoiceDependsOnTheRequestsAlone: not on their order, nor on what is remembered.
func TestChoiceDependsOnTheRequestsAlone(t *testing.T) {
	limits := Limits{Offered: offered, Rows: 900, Gangs: 300, Sets: 200, Keys: 40}
	var requests []*api.CapacityRequest
	for i, make := range []string{"rows", "gangs", "sets", "keys", "all keys in one", "names"} {
		requests = append(requests, greedy[make](fmt.Sprint("n", i), &limits)...)
		requests = append(requests, modest(fmt.Sprint("m", i))...)
	}
	random := rand.New(rand.NewPCG(1, 2))
	want := ""
	for round := range 4 {
		var g Aggregator
		g.Limit(limits)
		if round > 1 {
			g.Aggregate(requests[:random.IntN(len(requests))])
		}
		got := g.Aggregate(requests)
		within(t, got.Needs, limits)
		text, err := proto.MarshalOptions{Deterministic: true}.Marshal(&bigfleet.ClusterCapacityNeeds{Needs: got.Needs})
		if err != nil {
			t.Fatal(err)
		}
		if want != "" && string(text) != want {
			t.Fatalf("round %d: the rows are others", round)
		}
		want = string(text)
		random.Shuffle(len(requests), func(i, j int) { requests[i], requests[j] = requests[j], requests[i] })
	}
}

// TestLowestPrioritiesOfANamespaceAreLeftOut: within one, priority decides.
func TestLowestPrioritiesOfANamespaceAreLeftOut(t *testing.T) {
	var g Aggregator
	g.Limit(Limits{Rows: 10})
	got := g.Aggregate(append(many(15, func(i int) *api.CapacityRequest { return request("cpu=1", in("a"), priority(int32(i))) }),
		many(3, func(i int) *api.CapacityRequest { return request("cpu=1", in("b"), priority(int32(-1-i))) })...))
	var priorities []string
	for _, n := range got.Needs {
		priorities = append(priorities, fmt.Sprint(n.Priority))
	}
	if s := strings.Join(priorities, " "); s != "14 13 12 11 10 9 8 -1 -2 -3" {
		t.Errorf("priorities are %s", s)
	}
	for _, r := range got.Refused {
		if !strings.Contains(r.Err.Error(), `namespace "a"`) || !strings.Contains(r.Err.Error(), "make requests alike") {
			t.Errorf("left out: %v", r.Err)
		}
	}
}

// BenchmarkChoose is a roll-up of 20,000 rows of which 4,000 must go.
func BenchmarkChoose(b *testing.B) {
	requests := many(20_000, func(i int) *api.CapacityRequest {
		return request("cpu=1", in(fmt.Sprint("n", i%50)), priority(int32(i)), requires(fmt.Sprint("k", i%40), "In", fmt.Sprint(i%900)))
	})
	var g Aggregator
	for b.Loop() {
		g.Aggregate(requests)
	}
}

// TestPodsAreAlwaysNamed: where machines say how many pods they hold, and requests name too many resources that none has, the others are reported.
func TestPodsAreAlwaysNamed(t *testing.T) {
	var requests []*api.CapacityRequest
	for range 5 {
		requests = append(requests, request("cpu=1 memory=1Gi"))
	}
	for i := range UnofferedMax + 1 {
		requests = append(requests, request(fmt.Sprintf("cpu=1 a.io/x%d=1", i)))
	}
	var g Aggregator
	g.Limit(Limits{Offered: map[string]int64{"cpu": 32000, "memory": 64 << 30, "pods": 110}})
	if got := g.Aggregate(requests); len(got.Refused) != 1 || len(got.Included) != len(requests)-1 {
		t.Errorf("%d of %d requests are included, %d refused", len(got.Included), len(requests), len(got.Refused))
	}
}
