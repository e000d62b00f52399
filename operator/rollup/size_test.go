package rollup

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	api "github.com/tonnage/tonnage/api/v1alpha1"
)

// cores writes the sum and the largest request of cores of each row, sorted.
func cores(r *Result) string {
	var rows []string
	for _, n := range r.Needs {
		rows = append(rows, n.AggregateResources["cpu"]+"/"+n.MinUnit["cpu"])
	}
	slices.Sort(rows)
	return strings.Join(rows, " ")
}

func TestSizesApart(t *testing.T) {
	for name, c := range map[string]struct {
		requests []*api.CapacityRequest
		want     string
	}{
		"a row for each number of GPUs": {
			[]*api.CapacityRequest{request("cpu=1"), request("cpu=2 nvidia.com/gpu=1"), request("cpu=3 nvidia.com/gpu=1"), request("cpu=32 nvidia.com/gpu=8")},
			"1/1 32/32 5/3",
		},
		"above 64 of a device a row for each power of two": {
			[]*api.CapacityRequest{request("cpu=1 x.io/slots=64"), request("cpu=2 x.io/slots=65"), request("cpu=3 x.io/slots=128"), request("cpu=4 x.io/slots=129")},
			"1/1 4/4 5/3",
		},
		"hugepages are no device": {
			[]*api.CapacityRequest{request("cpu=1"), request("cpu=2 hugepages-2Mi=1Gi")},
			"3/2",
		},
		"giants have a row of their own, by cores or by memory": {
			[]*api.CapacityRequest{request("cpu=16"), request("cpu=16001m"), request("cpu=1 memory=64Gi"), request("cpu=2 memory=65Gi")},
			"17/16 18001m/16001m",
		},
		"with devices nothing is a giant": {
			[]*api.CapacityRequest{request("cpu=4 nvidia.com/gpu=1"), request("cpu=40 nvidia.com/gpu=1")},
			"44/40",
		},
		"a group is one row": {
			[]*api.CapacityRequest{
				request("cpu=1", together("rack", nil)), request("cpu=20", together("rack", nil)), request("cpu=1 nvidia.com/gpu=1", together("rack", nil)),
				request("cpu=2", together("rack", nil), heard(3)),
			},
			"24/20",
		},
		"nobody was heard: one class": {
			[]*api.CapacityRequest{request("cpu=1"), request("cpu=8")},
			"9/8",
		},
		"who is not larger joins": {
			[]*api.CapacityRequest{request("cpu=4", heard(1)), request("cpu=4"), request("cpu=1")},
			"9/4",
		},
		"those who are larger are a class together": {
			[]*api.CapacityRequest{request("cpu=4", heard(1)), request("cpu=5"), request("cpu=8"), request("cpu=3")},
			"13/8 7/4",
		},
		"larger in one resource is larger": {
			[]*api.CapacityRequest{request("cpu=4 memory=1Gi", heard(1)), request("cpu=1 memory=2Gi")},
			"1/1 4/4",
		},
		"the first class that is large enough": {
			[]*api.CapacityRequest{request("cpu=4", heard(1)), request("cpu=8", heard(2)), request("cpu=6"), request("cpu=2")},
			"14/8 6/4",
		},
		"an empty class is taken again": {
			[]*api.CapacityRequest{request("cpu=4", heard(2)), request("cpu=6")},
			"4/4 6/6",
		},
		"who was heard without a class is in the first": {
			[]*api.CapacityRequest{request("cpu=4", heard(0)), request("cpu=2", heard(1)), request("cpu=6")},
			"6/4 6/6",
		},
		"a number that is no class is the first": {
			[]*api.CapacityRequest{request("cpu=4", heard(99)), request("cpu=2", heard(1))},
			"6/4",
		},
		"others have classes of their own": {
			[]*api.CapacityRequest{request("cpu=4", heard(1)), request("cpu=8", priority(1))},
			"4/4 8/8",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Aggregate(c.requests)
			if s := cores(got); s != c.want {
				t.Errorf("rows are %s, want %s", s, c.want)
			}
			if len(got.Classes) != len(got.Included) {
				t.Errorf("%d classes of %d requests", len(got.Classes), len(got.Included))
			}
		})
	}
}

// TestLastClassGrows: there is a bound on classes.
func TestLastClassGrows(t *testing.T) {
	var requests []*api.CapacityRequest
	for i := range ClassesMax {
		requests = append(requests, request(fmt.Sprintf("cpu=%d", i+1), heard(i+1)))
	}
	got := Aggregate(append(requests, request("cpu=10"), request("cpu=12")))
	if s := cores(got); s != "1/1 2/2 3/3 30/12 4/4 5/5 6/6 7/7" {
		t.Errorf("rows are %s", s)
	}
}

// TestLargestRequestsOfRowsDoNotGrow: whatever comes and goes, no row that was heard gets
// a larger unit, and the rows depend on no cache.
func TestLargestRequestsOfRowsDoNotGrow(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	var g Aggregator
	var living []*api.CapacityRequest
	units := map[string]string{}
	for round := range 300 {
		for range r.IntN(4) {
			living = append(living, request(fmt.Sprintf("cpu=%d memory=%dGi", 1+r.IntN(16), 1+r.IntN(64)), priority(int32(r.IntN(2)))))
		}
		for range r.IntN(4) {
			if len(living) > 0 {
				at := r.IntN(len(living))
				living = append(living[:at], living[at+1:]...)
			}
		}
		got, fresh := g.Aggregate(living), Aggregate(living)
		same(t, got.Needs, fresh.Needs)
		rows, known := map[string][2]int64{}, map[string]bool{}
		for i, x := range got.Included {
			key := fmt.Sprint(x.Spec.Priority, " ", got.Classes[i])
			known[key] = known[key] || x.Status.SizeClass != nil
			u := rows[key]
			rows[key] = [2]int64{max(u[0], x.Spec.Resources.Cpu().Value()), max(u[1], x.Spec.Resources.Memory().Value())}
		}
		for key, u := range rows {
			if was := units[key]; was != "" && known[key] { // else all who were heard in it are gone
				var before [2]int64
				if _, err := fmt.Sscan(was, &before[0], &before[1]); err != nil {
					t.Fatal(err)
				}
				if last := strings.HasSuffix(key, fmt.Sprint(" ", ClassesMax)); !last && (u[0] > before[0] || u[1] > before[1]) {
					t.Fatalf("seed %d, round %d: the unit of row %s grew from %v to %v", seed, round, key, before, u)
				}
			}
		}
		clear(units)
		for key, u := range rows {
			units[key] = fmt.Sprint(u[0], " ", u[1])
		}
		for i, x := range got.Included { // the shard hears it; objects that change are others
			if x.Status.SizeClass == nil {
				y := x.DeepCopy()
				heard(int(got.Classes[i]))(y)
				for j := range living {
					if living[j] == x {
						living[j] = y
					}
				}
			}
		}
	}
}

// overheadOf makes the overhead of a request's row.
func overheadOf(t *testing.T, of *api.CapacityRequest, resources string) *api.CapacityRequest {
	t.Helper()
	row, err := RowOf(of)
	if err != nil {
		t.Fatal(err)
	}
	r := request(resources, in("other"), heard(7))
	r.Spec.Requirements, r.Spec.Priority, r.Spec.TopologySpread = of.Spec.Requirements, of.Spec.Priority, of.Spec.TopologySpread
	r.Labels = map[string]string{api.LabelPackingOverhead: row.Tag, "other": "x"}
	Trim(r)
	return r
}

// TestOverhead: it is what its row asks for at the least, and nobody's size.
func TestOverhead(t *testing.T) {
	plain, wide := request("cpu=2 memory=1Gi", heard(1)), request("cpu=4", heard(2))
	gpu := request("cpu=3 nvidia.com/gpu=2", heard(1), priority(5), requires("a", "Exists"))
	for name, c := range map[string]struct {
		requests []*api.CapacityRequest
		want     string
	}{
		"in its class":            {[]*api.CapacityRequest{plain, wide, overheadOf(t, plain, "cpu=10 memory=5Gi")}, "10/2 4/4"},
		"less than the sum":       {[]*api.CapacityRequest{plain, request("cpu=2", heard(1)), overheadOf(t, plain, "cpu=3")}, "4/2"},
		"in the other class":      {[]*api.CapacityRequest{plain, wide, overheadOf(t, wide, "cpu=10")}, "10/4 2/2"},
		"with devices":            {[]*api.CapacityRequest{gpu, plain, overheadOf(t, gpu, "cpu=100 nvidia.com/gpu=9")}, "100/3 2/2"},
		"new ones are no smaller": {[]*api.CapacityRequest{plain, overheadOf(t, plain, "cpu=10"), request("cpu=9")}, "10/2 9/9"},
		"of nobody it is nothing": {[]*api.CapacityRequest{wide, overheadOf(t, plain, "cpu=10")}, "4/4"},
	} {
		t.Run(name, func(t *testing.T) {
			var g Aggregator
			for range 2 {
				if s := cores(g.Aggregate(c.requests)); s != c.want {
					t.Errorf("rows are %s, want %s", s, c.want)
				}
			}
		})
	}
	for _, r := range []*api.CapacityRequest{request("cpu=1"), request("cpu=1", together("rack", nil), heard(1))} {
		if row, err := RowOf(r); err == nil {
			t.Errorf("there is a row %q for %v", row.Tag, r.Spec)
		}
	}
	for _, tag := range []string{"", "x-1", "1-0", "1-9", "1", "-", "ffffffffffffffffff-1"} {
		r := request("cpu=1", heard(1))
		r.Labels = map[string]string{api.LabelPackingOverhead: tag}
		if s := cores(Aggregate([]*api.CapacityRequest{r, plain})); s != "2/2" {
			t.Errorf("with the tag %q rows are %s", tag, s)
		}
	}
}

// TestPlaces: a pod's own place is counted where machines say how many they have.
func TestPlaces(t *testing.T) {
	plain := request("cpu=2", heard(1))
	requests := []*api.CapacityRequest{plain, request("cpu=1 pods=3", heard(1)), overheadOf(t, plain, "cpu=1 pods=40")}
	for _, c := range []struct {
		offered map[string]int64
		want    string
	}{
		{nil, "3/3"},
		{map[string]int64{"cpu": 64_000}, "3/3"}, // what somebody names counts, here as what no machine has
		{map[string]int64{"cpu": 64_000, "pods": 110}, "40/3"},
	} {
		var g Aggregator
		g.Limit(Limits{Offered: c.offered})
		var got []string
		for _, n := range g.Aggregate(requests).Needs {
			if x := n.AggregateResources["pods"]; x != "" {
				got = append(got, x+"/"+n.MinUnit["pods"])
			}
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("offered %v: places are %s, want %s", c.offered, s, c.want)
		}
	}
}
