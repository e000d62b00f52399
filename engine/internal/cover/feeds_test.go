package cover_test

import (
	"cmp"
	"encoding/csv"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/tonnage/tonnage/engine/internal/cover"
)

// catalogue reads the machines of a region that have an on-demand price, without those with accelerators or with a
// part of a core. Dimensions: cores in thousandths, MiB, pods. Where the catalogue does not say what is allocatable, 98 %
// of the cores and 93 % of the memory are, and 110 pods.
func catalogue(t testing.TB, provider, region string) []cover.Offer {
	f, err := os.Open(filepath.Join("..", "..", "..", "..", "shared", "data", "catalog", "instances.csv"))
	if err != nil {
		t.Skip("the catalogue is not there: ", err)
	}
	defer f.Close()
	records, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]int{}
	for i, name := range records[0] {
		at[name] = i
	}
	var offers []cover.Offer
	for _, r := range records[1:] {
		field := func(name string) string { return r[at[name]] }
		number := func(name string) float64 { v, _ := strconv.ParseFloat(field(name), 64); return v }
		price := number("on_demand_usd_h")
		if field("provider") != provider || field("region") != region || price == 0 || number("gpu_count") > 0 || number("accel_count") > 0 || number("burstable") > 0 {
			continue
		}
		cpu, mem, pods := number("alloc_cpu_milli"), number("alloc_memory_mib"), number("alloc_pods")
		if cpu == 0 {
			cpu, mem, pods = number("vcpu")*1000*0.98, number("memory_mib")*0.93, 110
		}
		offers = append(offers, cover.Offer{Has: []int64{int64(cpu), int64(mem), int64(pods)}, Cost: price, Count: 1 << 20})
	}
	slices.SortStableFunc(offers, func(a, b cover.Offer) int { return cmp.Compare(a.Cost, b.Cost) })
	return offers
}

type pod [3]int64

// feed draws n pods of 30 shapes: 0.1 to 8 cores, 1 to 8 GiB a core.
func feed(rng *rand.Rand, n int) []pod {
	var shapes []pod
	for range 30 {
		cores := 0.1 * math.Pow(80, rng.Float64())
		shapes = append(shapes, pod{int64(cores * 1000), int64(cores * 1024 * math.Pow(8, rng.Float64())), 1})
	}
	pods := make([]pod, n)
	for i := range pods {
		pods[i] = shapes[rng.IntN(len(shapes))]
	}
	return pods
}

// pack places pods biggest first, each into the room whose shape is nearest to its own; it returns those not placed.
func pack(rooms []pod, pods []pod, scale pod) (left []pod) {
	size := func(p pod) float64 { return max(float64(p[0])/float64(scale[0]), float64(p[1])/float64(scale[1])) }
	slices.SortStableFunc(pods, func(a, b pod) int { return cmp.Compare(size(b), size(a)) })
	for _, p := range pods {
		best, score := -1, -1.0
		for i, r := range rooms {
			if r[0] < p[0] || r[1] < p[1] || r[2] < p[2] {
				continue
			}
			s := float64(r[0])/float64(scale[0])*(float64(p[0])/float64(scale[0])) + float64(r[1])/float64(scale[1])*(float64(p[1])/float64(scale[1]))
			n := math.Hypot(float64(r[0])/float64(scale[0]), float64(r[1])/float64(scale[1]))
			if s /= n; s > score {
				best, score = i, s
			}
		}
		if best < 0 {
			left = append(left, p)
			continue
		}
		for d := range p {
			rooms[best][d] -= p[d]
		}
	}
	return left
}

// place buys for pods until all are placed; it returns the bill, the rounds, and how many were pending after the first.
func place(t testing.TB, c *cover.Chooser, offers []cover.Offer, pods []pod, fit bool) (bill float64, rounds, pending int) {
	var rooms []pod
	scale, _ := sizes(pods)
	for left := pods; len(left) > 0; rounds++ {
		if rounds == 30 {
			return math.Inf(1), rounds, pending
		}
		want, unit := sizes(left)
		some := suited(offers, unit)
		choice, ok := c.Choose(&cover.Problem{Want: want[:], Unit: unit[:], Offers: some})
		if !ok {
			t.Fatal("not covered")
		}
		counts, cost := choice.Counts, choice.Cost
		if !fit {
			counts, cost = c.Walked(), choice.Cheapest
		}
		bill += cost
		for i, n := range counts {
			for range n {
				rooms = append(rooms, pod(some[i].Has))
			}
		}
		left = pack(rooms, left, scale)
		if rounds == 0 {
			pending = len(left)
		}
	}
	return bill, rounds, pending
}

// sizes returns the sums of pods, and the largest amount of each dimension.
func sizes(pods []pod) (sum, largest pod) {
	for _, p := range pods {
		for d := range p {
			sum[d] += p[d]
			largest[d] = max(largest[d], p[d])
		}
	}
	return sum, largest
}

// suited returns the offers that hold the largest pod.
func suited(offers []cover.Offer, largest pod) (some []cover.Offer) {
	for _, o := range offers {
		if o.Has[0] >= largest[0] && o.Has[1] >= largest[1] && o.Has[2] >= largest[2] {
			some = append(some, o)
		}
	}
	return some
}

// TestFeeds buys for feeds of pods of one profile until all are placed, and compares the bill with the linear bound for
// their sum on the machines that hold the largest of them.
func TestFeeds(t *testing.T) {
	const seeds = 10
	for _, region := range [][2]string{{"aws", "eu-west-1"}, {"gcp", "europe-west1"}} {
		offers := catalogue(t, region[0], region[1])
		for _, n := range []int{500, 2000, 5000} {
			var mean, worst, pending, first [2]float64
			rounds := 0
			for seed := range uint64(seeds) {
				pods := feed(rand.New(rand.NewPCG(seed, 1)), n)
				sum, largest := sizes(pods)
				low := cover.Relax(suited(offers, largest), sum[:])
				for i, fit := range []bool{true, false} {
					c := cover.New(cover.LambdaDefault, cover.EpsilonDefault)
					bill, took, left := place(t, c, offers, slices.Clone(pods), fit)
					mean[i] += (bill/low - 1) / seeds
					worst[i] = max(worst[i], bill/low-1)
					pending[i] += float64(left) / float64(n) / seeds
					if fit {
						rounds = max(rounds, took)
					}
				}
				choice, _ := cover.New(cover.LambdaDefault, cover.EpsilonDefault).Choose(&cover.Problem{Want: sum[:], Unit: largest[:], Offers: suited(offers, largest)})
				first[0] += (choice.Cost/low - 1) / seeds
				first[1] += (choice.Cheapest/low - 1) / seeds
			}
			t.Logf("%s %s, %d types, %d pods: fit %.1f %% over the bound (worst %.1f; the first purchase %.1f, %.0f %% of the pods pending after it; at most %d rounds); cheapest %.1f %% (worst %.1f; %.1f, %.0f %%)",
				region[0], region[1], len(offers), n, 100*mean[0], 100*worst[0], 100*first[0], 100*pending[0], rounds, 100*mean[1], 100*worst[1], 100*first[1], 100*pending[1])
			if mean[0] > mean[1]/3 || first[0] > 0.03 {
				t.Errorf("fit costs %.1f %% over the bound, its first purchase %.1f %%; cheapest %.1f %%", 100*mean[0], 100*first[0], 100*mean[1])
			}
		}
	}
}
