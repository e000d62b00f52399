package rollup

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	api "github.com/tonnage/tonnage/api/v1alpha1"
)

// Aggregate adds requests up that nobody has read before.
func Aggregate(requests []*api.CapacityRequest) *Result { return new(Aggregator).Aggregate(requests) }

func request(resources string, change ...func(*api.CapacityRequest)) *api.CapacityRequest {
	r := &api.CapacityRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "default"}}
	r.Spec.Resources = corev1.ResourceList{}
	for field := range strings.FieldsSeq(resources) {
		name, amount, _ := strings.Cut(field, "=")
		r.Spec.Resources[corev1.ResourceName(name)] = resource.MustParse(amount)
	}
	for _, c := range change {
		c(r)
	}
	return r
}

func requires(key string, operator corev1.NodeSelectorOperator, values ...string) func(*api.CapacityRequest) {
	return func(r *api.CapacityRequest) {
		r.Spec.Requirements = append(r.Spec.Requirements, api.Requirement{Key: key, Operator: operator, Values: values})
	}
}

func together(key string, selector *metav1.LabelSelector) func(*api.CapacityRequest) {
	return func(r *api.CapacityRequest) {
		r.Spec.CoLocation = &api.CoLocation{TopologyKey: key, LabelSelector: selector}
	}
}

func in(namespace string) func(*api.CapacityRequest) {
	return func(r *api.CapacityRequest) { r.Namespace = namespace }
}

func penalty(dollars string) func(*api.CapacityRequest) {
	return func(r *api.CapacityRequest) { r.Spec.InterruptionPenalty = new(resource.MustParse(dollars)) }
}

func unread(why string) *api.CapacityRequest {
	return &api.CapacityRequest{Spec: api.CapacityRequestSpec{Unreadable: why}}
}

func priority(p int32) func(*api.CapacityRequest) {
	return func(r *api.CapacityRequest) { r.Spec.Priority = p }
}

// heard is a request that the shard has heard in a size class; 0 = an older operator reported it.
func heard(class int) func(*api.CapacityRequest) {
	return func(r *api.CapacityRequest) {
		r.Status = api.CapacityRequestStatus{Phase: api.RequestAcknowledged}
		if class > 0 {
			r.Status.SizeClass = new(int32(class))
		}
	}
}

func spread(key string, skew int32, when corev1.UnsatisfiableConstraintAction) func(*api.CapacityRequest) {
	return func(r *api.CapacityRequest) {
		r.Spec.TopologySpread = append(r.Spec.TopologySpread, api.TopologySpread{TopologyKey: key, MaxSkew: skew, WhenUnsatisfiable: when})
	}
}

func TestRows(t *testing.T) {
	labels := func(kv ...string) *metav1.LabelSelector {
		s := &metav1.LabelSelector{MatchLabels: map[string]string{}}
		for i := 0; i < len(kv); i += 2 {
			s.MatchLabels[kv[i]] = kv[i+1]
		}
		return s
	}
	for name, c := range map[string]struct {
		requests []*api.CapacityRequest
		want     string // rows as text messages, one a line
	}{
		"none": {},
		"sums and largest units": {
			requests: []*api.CapacityRequest{request("cpu=500m memory=1Gi"), request("cpu=2 memory=512Mi"), request("cpu=500m")},
			want:     `aggregate_resources:{key:"cpu" value:"3"} aggregate_resources:{key:"memory" value:"1610612736"} min_unit:{key:"cpu" value:"2"} min_unit:{key:"memory" value:"1073741824"}`,
		},
		"thousandths are kept, less is rounded up": {
			requests: []*api.CapacityRequest{request("cpu=0.1"), request("cpu=100u")},
			want:     `aggregate_resources:{key:"cpu" value:"101m"} min_unit:{key:"cpu" value:"100m"}`,
		},
		"order and repetition of requirements and values do not matter": {
			requests: []*api.CapacityRequest{
				request("cpu=1", requires("a", "In", "2", "1"), requires("b", "Exists")),
				request("cpu=1", requires("b", "Exists"), requires("a", "In", "1", "2", "2"), requires("b", "Exists")),
			},
			want: `requirements:{key:"a" operator:OPERATOR_IN values:"1" values:"2"} requirements:{key:"b" operator:OPERATOR_EXISTS} aggregate_resources:{key:"cpu" value:"2"} min_unit:{key:"cpu" value:"1"}`,
		},
		"values are not mixed up with their separators": {
			requests: []*api.CapacityRequest{request("cpu=1", requires("a", "NotIn", "1,2")), request("cpu=1", requires("a", "NotIn", "1", "2"))},
			want: `requirements:{key:"a" operator:OPERATOR_NOT_IN values:"1,2"} aggregate_resources:{key:"cpu" value:"1"} min_unit:{key:"cpu" value:"1"}
requirements:{key:"a" operator:OPERATOR_NOT_IN values:"1" values:"2"} aggregate_resources:{key:"cpu" value:"1"} min_unit:{key:"cpu" value:"1"}`,
		},
		"priorities from the highest": {
			requests: []*api.CapacityRequest{request("cpu=1", priority(-1)), request("cpu=1", priority(7)), request("cpu=1")},
			want: `aggregate_resources:{key:"cpu" value:"1"} priority:7 min_unit:{key:"cpu" value:"1"}
aggregate_resources:{key:"cpu" value:"1"} min_unit:{key:"cpu" value:"1"}
aggregate_resources:{key:"cpu" value:"1"} priority:-1 min_unit:{key:"cpu" value:"1"}`,
		},
		"penalties go up to their step": {
			requests: []*api.CapacityRequest{request("cpu=1", penalty("0.4")), request("cpu=1", penalty("500m")), request("cpu=1", penalty("1.01")), request("cpu=1", penalty("9M"))},
			want: `aggregate_resources:{key:"cpu" value:"2"} interruption_penalty_bucket:PENALTY_BUCKET_HALF_DOLLAR min_unit:{key:"cpu" value:"1"}
aggregate_resources:{key:"cpu" value:"1"} interruption_penalty_bucket:PENALTY_BUCKET_2 min_unit:{key:"cpu" value:"1"}
aggregate_resources:{key:"cpu" value:"1"} interruption_penalty_bucket:PENALTY_BUCKET_PINNED min_unit:{key:"cpu" value:"1"}`,
		},
		"only hard spread counts": {
			requests: []*api.CapacityRequest{request("cpu=1", spread("zone", 1, "ScheduleAnyway")), request("cpu=1"), request("cpu=1", spread("zone", 2, "DoNotSchedule"))},
			want: `aggregate_resources:{key:"cpu" value:"2"} min_unit:{key:"cpu" value:"1"}
aggregate_resources:{key:"cpu" value:"1"} spread:{topology_key:"zone" max_skew:2 when_unsatisfiable:WHEN_UNSATISFIABLE_DO_NOT_SCHEDULE} min_unit:{key:"cpu" value:"1"}`,
		},
		"a group is of one namespace": {
			requests: []*api.CapacityRequest{
				request("cpu=1", in("x"), together("rack", labels("b", "2", "a", "1"))),
				request("cpu=1", in("x"), together("rack", labels("a", "1", "b", "2"))),
				request("cpu=1", in("y"), together("rack", labels("a", "1", "b", "2"))),
				request("cpu=1", in("y"), together("", labels("a", "1"))),
			},
			want: `aggregate_resources:{key:"cpu" value:"1"} min_unit:{key:"cpu" value:"1"}
requirements:{key:"rack" operator:OPERATOR_SAME} aggregate_resources:{key:"cpu" value:"2"} min_unit:{key:"cpu" value:"1"} group:"x\x00rack\x00a=1,b=2,"
requirements:{key:"rack" operator:OPERATOR_SAME} aggregate_resources:{key:"cpu" value:"1"} min_unit:{key:"cpu" value:"1"} group:"y\x00rack\x00a=1,b=2,"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Aggregate(c.requests)
			if len(got.Refused) > 0 || len(got.Included) != len(c.requests) {
				t.Fatalf("%d of %d included, refused %v", len(got.Included), len(c.requests), got.Refused)
			}
			var want []*bigfleet.CapacityNeed
			for line := range strings.SplitSeq(c.want, "\n") {
				if line != "" {
					need := &bigfleet.CapacityNeed{}
					if err := prototext.Unmarshal([]byte(line), need); err != nil {
						t.Fatal(err)
					}
					want = append(want, need)
				}
			}
			same(t, got.Needs, want)
		})
	}
}

func same(t *testing.T, got, want []*bigfleet.CapacityNeed) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d rows, want %d: %v", len(got), len(want), got)
	}
	for i := range got {
		if !proto.Equal(got[i], want[i]) {
			t.Errorf("row %d is\n%v, want\n%v", i, got[i], want[i])
		}
	}
}

// TestGroup: selectors have one form, and names are bounded.
// TestSoftSpreadIsCounted: terms that no row has, of the requests that rows have; also when
// the requests are remembered.
func TestSoftSpreadIsCounted(t *testing.T) {
	soft, hard := spread("zone", 1, "ScheduleAnyway"), spread("zone", 2, "DoNotSchedule")
	requests := []*api.CapacityRequest{
		request("cpu=1"), request("cpu=1", hard), request("cpu=1", soft), request("cpu=1", soft, hard, soft),
		request("cpu=1", soft, requires("cores", corev1.NodeSelectorOpGt, "4")), // refused
	}
	var g Aggregator
	for round := range 2 {
		if got := g.Aggregate(requests); got.SoftSpread != 3 || len(got.Needs) != 2 {
			t.Errorf("round %d: %d terms left out of %d rows, want 3 of 2", round, got.SoftSpread, len(got.Needs))
		}
	}
}

func TestGroup(t *testing.T) {
	s := &metav1.LabelSelector{
		MatchLabels: map[string]string{"app": "web"},
		MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "tier", Operator: "NotIn", Values: []string{"b", "a"}}, {Key: "env", Operator: "Exists"},
		},
	}
	group := func(c *api.CoLocation) string {
		var w keyWriter
		w.writeGroup("n", c)
		return string(w.group)
	}
	if got, want := group(&api.CoLocation{TopologyKey: "rack", LabelSelector: s}), "n\x00rack\x00app=web,;env Exists ;tier NotIn a,b;"; got != want {
		t.Errorf("group is %q, want %q", got, want)
	}
	if got := group(&api.CoLocation{TopologyKey: "rack"}); got != "n\x00rack\x00" {
		t.Errorf("group without a selector is %q", got)
	}
	s.MatchLabels["long"] = strings.Repeat("x", 1000)
	g := group(&api.CoLocation{TopologyKey: "rack", LabelSelector: s})
	s.MatchLabels["long"] += "y"
	if h := group(&api.CoLocation{TopologyKey: "rack", LabelSelector: s}); len(g) > groupBytesMax || g == h {
		t.Errorf("long groups are %q and %q", g, h)
	}
}

// TestRefused: what a shard would not take is left out, and the rest is not.
func TestRefused(t *testing.T) {
	long := make([]string, 256)
	for i := range long {
		long[i] = fmt.Sprintf("%0250d", i)
	}
	for name, c := range map[string]struct {
		request *api.CapacityRequest
		want    error
		says    string
	}{
		"Gt":       {request("cpu=1", requires("cores", corev1.NodeSelectorOpGt, "4")), ErrOperator, `"cores": Gt`},
		"Lt":       {request("cpu=1", requires("cores", corev1.NodeSelectorOpLt, "4")), ErrOperator, `"cores": Lt`},
		"negative": {request("cpu=-1"), ErrQuantity, `"cpu"`},
		"cores":    {request("cpu=1000001"), ErrQuantity, `resource "cpu": quantity is not valid: at most 1000000 are taken`},
		"bytes":    {request("memory=9223372036854775807Ei"), ErrQuantity, "at most 1125899906842624"},
		"endless":  {request("x=1e30"), ErrQuantity, "look at the unit"},
		"unread":   {unread("resources: no number"), ErrUnreadable, "the request cannot be read: resources: no number"},
		"key":      {request("cpu=1", requires("rack\x1b", "In", "a")), ErrName, "the key of a requirement holds the control character U+001B"},
		"value":    {request("cpu=1", requires("rack", "In", "a", "b\u009b")), ErrName, `a value of the requirement on "rack" holds the control character U+009B`},
		"resource": {request("gpu\u202e=1"), ErrName, "the name of a resource holds the control character U+202E"},
		"long":     {request("cpu=1", requires("a", "In", long...)), ErrLarge, "at most 32768"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Aggregate([]*api.CapacityRequest{request("cpu=1"), c.request, request("cpu=2")})
			if len(got.Refused) != 1 || got.Refused[0].Request != c.request || !errors.Is(got.Refused[0].Err, c.want) || !strings.Contains(got.Refused[0].Err.Error(), c.says) {
				t.Errorf("refused %v, want %v with %s", got.Refused, c.want, c.says)
			}
			if len(got.Needs) != 1 || got.Needs[0].AggregateResources["cpu"] != "3" || len(got.Included) != 2 {
				t.Errorf("rows %v", got.Needs)
			}
		})
	}
}

// TestTooMany: beyond the limits the lowest priorities and the rarest resources
// are left out, whatever the order.
func TestTooMany(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var requests []*api.CapacityRequest
	for i := range RowsMax + 10 {
		requests = append(requests, request("cpu=1", priority(int32(i))))
	}
	random.Shuffle(len(requests), func(i, j int) { requests[i], requests[j] = requests[j], requests[i] })
	got := Aggregate(requests)
	if len(got.Needs) != RowsMax || len(got.Included) != RowsMax || len(got.Refused) != 10 {
		t.Fatalf("%d rows of %d requests, %d refused", len(got.Needs), len(got.Included), len(got.Refused))
	}
	for _, r := range got.Refused {
		if r.Request.Spec.Priority >= 10 || !errors.Is(r.Err, ErrMany) {
			t.Errorf("refused priority %d: %v", r.Request.Spec.Priority, r.Err)
		}
	}

	requests = []*api.CapacityRequest{request("cpu=1 zzz=1"), request("cpu=1 zzz=1", priority(1))}
	for i := range DimensionsMax {
		requests = append(requests, request(fmt.Sprintf("r%02d=1", i)))
	}
	got = Aggregate(requests)
	if len(got.Refused) != 2 || len(got.Included) != DimensionsMax {
		t.Errorf("%d requests refused, %d included", len(got.Refused), len(got.Included))
	}
}

// TestOrderDoesNotMatter: a set of requests has one roll-up.
func TestOrderDoesNotMatter(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	requests := mixed(3 * requestsPerWorker) // several workers
	want := Aggregate(requests)
	random.Shuffle(len(requests), func(i, j int) { requests[i], requests[j] = requests[j], requests[i] })
	got := Aggregate(requests)
	same(t, got.Needs, want.Needs)
	if t.Failed() {
		t.Logf("seed %d", seed)
	}
}

// TestSaturates: sums stop at the largest number.
// TestRowsHaveOneOrder: whatever the order of the requests, what is remembered of other
// roll-ups, and in which process, the rows stand in one order: it decides between
// needs that agree in everything else.
func TestRowsHaveOneOrder(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	requests := mixed(1500)
	text := func(r *Result) string {
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(&bigfleet.ClusterCapacityNeeds{Needs: r.Needs})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	want := text(Aggregate(requests))
	for round := range 8 {
		var g Aggregator
		for range random.IntN(4) { // others, some of which stay
			part := slices.Clone(requests[:random.IntN(len(requests))])
			g.Aggregate(append(part, crowd(random.IntN(20))...))
		}
		random.Shuffle(len(requests), func(i, j int) { requests[i], requests[j] = requests[j], requests[i] })
		for i := range requests { // objects that a cache has read again
			if random.IntN(3) == 0 {
				requests[i] = requests[i].DeepCopy()
			}
		}
		if text(g.Aggregate(requests)) != want {
			t.Fatalf("seed %d, round %d: the rows are others, or in another order", seed, round)
		}
	}
}

func TestSaturates(t *testing.T) {
	var requests []*api.CapacityRequest
	for range math.MaxInt64/unitsMax + 2 {
		requests = append(requests, request(fmt.Sprintf("x=%d", int64(unitsMax))))
	}
	if got := Aggregate(requests).Needs[0].AggregateResources["x"]; got != fmt.Sprint(int64(math.MaxInt64)) {
		t.Errorf("the sum is %s", got)
	}
}

// mixed makes requests as a busy cluster has them: a few hundred kinds, some in
// groups, some spread.
func mixed(n int) []*api.CapacityRequest {
	random := rand.New(rand.NewPCG(3, 4))
	requests := make([]*api.CapacityRequest, n)
	for i := range requests {
		r := request(fmt.Sprintf("cpu=%dm memory=%dMi", 100*(1+random.IntN(40)), 256*(1+random.IntN(32))),
			in(fmt.Sprintf("team-%d", random.IntN(40))), priority(int32(1000*random.IntN(4))),
			requires("kubernetes.io/arch", "In", "amd64"))
		switch random.IntN(8) {
		case 0:
			requires("topology.kubernetes.io/zone", "In", "eu-1b", "eu-1a")(r)
			spread("topology.kubernetes.io/zone", 1, "DoNotSchedule")(r)
		case 1:
			app := fmt.Sprintf("app-%d", random.IntN(30))
			together("topology.kubernetes.io/zone", &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}})(r)
		case 2:
			r.Spec.Resources["nvidia.com/gpu"] = resource.MustParse("8")
			penalty("12.50")(r)
		}
		if random.IntN(4) > 0 {
			heard(1 + random.IntN(3))(r)
		}
		requests[i] = r
	}
	return requests
}

// TestRemembered: a roll-up is the same whatever was added up before.
func TestRemembered(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	pool := mixed(1500)
	for i := range pool {
		switch {
		case i%37 == 0:
			requires("cores", corev1.NodeSelectorOpGt, "4")(pool[i])
		case i%41 == 0:
			for n := range random.IntN(12) {
				pool[i].Spec.Resources[corev1.ResourceName(fmt.Sprint("r", n))] = resource.MustParse("1")
			}
		case i%43 == 0:
			pool[i].Spec.Resources = nil
		}
	}
	var g Aggregator
	for round := range 30 {
		requests := make([]*api.CapacityRequest, random.IntN(len(pool)))
		for i, at := range random.Perm(len(pool))[:len(requests)] {
			requests[i] = pool[at]
			if random.IntN(20) == 0 { // one that has changed is another object
				pool[at] = pool[at].DeepCopy()
				pool[at].Spec.Priority++
			}
		}
		if round%7 == 0 {
			requests = append(requests, crowd(DimensionsMax)...)
		}
		got, want := g.Aggregate(requests), Aggregate(requests)
		same(t, got.Needs, want.Needs)
		if !slices.Equal(got.Included, want.Included) {
			t.Errorf("round %d: %d included, want %d", round, len(got.Included), len(want.Included))
		}
		if text := refusals(got); text != refusals(want) {
			t.Errorf("round %d: refused are\n%s, want\n%s", round, text, refusals(want))
		}
		g.wait()
		if len(g.known) > len(requests) || len(g.slots) > 2*len(pool)+slack {
			t.Errorf("round %d: %d requests are remembered in %d slots, of %d", round, len(g.known), len(g.slots), len(requests))
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// crowd makes requests that name more resources than are reported.
func crowd(n int) (all []*api.CapacityRequest) {
	for i := range n {
		all = append(all, request(fmt.Sprintf("z%02d=1", i), priority(int32(i))))
	}
	return all
}

func refusals(r *Result) string {
	var all []string
	for _, x := range r.Refused {
		all = append(all, fmt.Sprintf("%p %v", x.Request, x.Err))
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// TestKnownCostsLittle: of requests that are known only the sums are made anew.
func TestKnownCostsLittle(t *testing.T) {
	requests := mixed(5000)
	for _, r := range requests {
		heard(1)(r)
	}
	var g Aggregator
	first := g.Aggregate(requests)
	g.wait()
	random := rand.New(rand.NewPCG(1, 1))
	random.Shuffle(len(requests), func(i, j int) { requests[i], requests[j] = requests[j], requests[i] })
	if n := testing.AllocsPerRun(3, func() { g.Aggregate(requests) }); n > 21 {
		t.Errorf("a roll-up of what is known makes %v objects", n)
	}
	for i, need := range g.Aggregate(requests).Needs {
		if need != first.Needs[i] {
			t.Fatalf("row %d is made anew", i)
		}
	}
}

// TestForgets: rows and slots that are out of use do not pile up.
func TestForgets(t *testing.T) {
	var g Aggregator
	for round := range 16 {
		var requests []*api.CapacityRequest
		for i := range 1000 {
			requests = append(requests, request("cpu=1", priority(int32(round*1000+i))))
		}
		if got := g.Aggregate(requests); len(got.Needs) != 1000 {
			t.Fatalf("%d rows", len(got.Needs))
		}
		g.wait()
		if len(g.rows) > 2*1000+slack || len(g.slots) > 2*1000+slack || len(g.known) > 1000 {
			t.Fatalf("round %d: %d rows, %d slots, %d known", round, len(g.rows), len(g.slots), len(g.known))
		}
	}
}

// BenchmarkAggregate adds up 100,000 requests: all of them new, none, and a
// hundredth. cpu-ms is processor time, of all processors.
func BenchmarkAggregate(b *testing.B) {
	requests := mixed(100_000)
	measure := func(name string, roll func(i int) *Result) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			began, rows, i := processorTime(b), 0, 0
			for b.Loop() {
				rows = len(roll(i).Needs)
				i++
			}
			b.ReportMetric(float64((processorTime(b)-began).Microseconds())/1000/float64(i), "cpu-ms/op")
			b.ReportMetric(float64(rows), "rows")
		})
	}
	measure("new", func(int) *Result { return Aggregate(requests) })
	var g Aggregator
	measure("known", func(int) *Result { return g.Aggregate(requests) })
	measure("hundredth", func(i int) *Result {
		for j := i % 100; j < len(requests); j += 100 {
			changed := *requests[j]
			requests[j] = &changed
		}
		return g.Aggregate(requests)
	})
}

func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
