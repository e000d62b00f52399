package cover_test

import (
	"cmp"
	"flag"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tonnage/tonnage/engine/internal/cover"
)

var (
	problems    = flag.Int("problems", 4000, "random problems to choose for")
	problemFrom = flag.Uint64("problem-from", 1, "the seed of the first random problem")
)

// synthetic draws types as a cloud offers them: cores in powers of two, three ratios of memory, prices
// nearly proportional. Dimensions: cores in thousandths, MiB, pods.
func synthetic(rng *rand.Rand, n int) []cover.Offer {
	var offers []cover.Offer
	for len(offers) < n {
		cores := int64(1) << (1 + rng.IntN(7))
		ratio := int64(2) << rng.IntN(3)
		generation := 0.8 + 0.4*rng.Float64()
		price := generation * float64(cores) * (0.03 + 0.004*float64(ratio))
		offers = append(offers, cover.Offer{Has: []int64{cores*1000 - 90, cores*ratio*1024 - 500, min(110, cores*15)}, Cost: price, Count: 1 << 20})
	}
	slices.SortStableFunc(offers, func(a, b cover.Offer) int { return cmp.Compare(a.Cost, b.Cost) })
	return offers
}

// drawProblem draws any problem: few or many types, few or many machines, equal costs, free machines.
func drawProblem(rng *rand.Rand) *cover.Problem {
	rows := 1 + rng.IntN(4)
	p := &cover.Problem{Want: make([]int64, rows), Unit: make([]int64, rows)}
	for d := range rows {
		p.Unit[d] = rng.Int64N(4)
		p.Want[d] = 1 + p.Unit[d] + rng.Int64N(int64(1)<<rng.IntN(12))
	}
	costs := []float64{0, 0.1, 0.25, 0.5, 1, 1.5, 2, 4}
	whole := rng.IntN(2) == 0
	for range 1 + rng.IntN(30) {
		o := cover.Offer{Has: make([]int64, rows), Count: 1 + rng.IntN(1<<rng.IntN(11))}
		total := 0.0
		for d := range rows {
			o.Has[d] = p.Unit[d] + rng.Int64N(64)
			total += float64(o.Has[d])
		}
		if total == 0 {
			o.Has[0], total = 1, 1
		}
		if o.Cost = costs[rng.IntN(len(costs))]; !whole && o.Cost > 0 {
			o.Cost = total * (0.5 + rng.Float64())
		}
		p.Offers = append(p.Offers, o)
	}
	slices.SortStableFunc(p.Offers, func(a, b cover.Offer) int { return cmp.Compare(a.Cost, b.Cost) })
	return p
}

func covers(p *cover.Problem, counts []int) bool {
	for d, want := range p.Want {
		sum := 0.0
		for i, n := range counts {
			sum += float64(n) * float64(p.Offers[i].Has[d])
		}
		if sum < float64(want) {
			return false
		}
	}
	return true
}

// walkOne is the rule `cheapest`, machine by machine, then its finish: the last picked first, what is
// covered without is given back.
func walkOne(p *cover.Problem) (counts []int, cost float64) {
	missing := slices.Clone(p.Want)
	counts = make([]int, len(p.Offers))
	var picks []int
	for i, o := range p.Offers {
		for range o.Count {
			helps := false
			for d, m := range missing {
				helps = helps || m > 0 && o.Has[d] > 0
			}
			if !helps {
				break
			}
			for d := range missing {
				missing[d] = max(missing[d]-o.Has[d], 0)
			}
			picks = append(picks, i)
			counts[i]++
		}
	}
	for _, i := range slices.Backward(picks) {
		if counts[i]--; !covers(p, counts) {
			counts[i]++
		}
	}
	for i, n := range counts {
		cost += float64(n) * p.Offers[i].Cost
	}
	return counts, cost
}

// TestChoice: it covers what is wanted with what there is, nothing in it is superfluous, it is never dearer than
// `cheapest`, it is the same where something better is looked for in vain, and less than one machine of each fractional class
// above the bound of the choice.
func TestChoice(t *testing.T) {
	c := cover.New(cover.LambdaDefault, cover.EpsilonDefault)
	fits, near := 0, 0
	for seed := *problemFrom; seed < *problemFrom+uint64(*problems); seed++ {
		p := drawProblem(rand.New(rand.NewPCG(seed, 3)))
		choice, ok := c.Choose(p)
		all := make([]int, len(p.Offers))
		for i := range all {
			all[i] = p.Offers[i].Count
		}
		if ok != covers(p, all) {
			t.Fatalf("seed %d: the offers cover it: %v; chosen: %v", seed, !ok, ok)
		}
		if !ok {
			continue
		}
		walked, cheapest := walkOne(p)
		if !slices.Equal(walked, c.Walked()) {
			t.Fatalf("seed %d: cheapest takes %v, expected %v", seed, c.Walked(), walked)
		}
		if choice.Cost > cheapest*(1+1e-12) {
			t.Fatalf("seed %d: costs %v, cheapest %v", seed, choice.Cost, cheapest)
		}
		if !covers(p, choice.Counts) {
			t.Fatalf("seed %d: %v does not cover %+v", seed, choice.Counts, p)
		}
		for i, n := range choice.Counts {
			if n < 0 || n > p.Offers[i].Count {
				t.Fatalf("seed %d: %d of %d machines", seed, n, p.Offers[i].Count)
			}
			if n > 0 {
				choice.Counts[i]--
				if covers(p, choice.Counts) {
					t.Fatalf("seed %d: a machine of offer %d is superfluous", seed, i)
				}
				choice.Counts[i]++
			}
		}
		if choice.Fit {
			fits++
		}
		chosen := slices.Clone(choice.Counts)
		if choice = c.Improved(p); !slices.Equal(choice.Counts, chosen) {
			t.Fatalf("seed %d: %v is chosen of %+v, and %v where something better is looked for", seed, chosen, p, choice.Counts)
		}
		if choice.Bound > 0 {
			near++
			over := c.FractionalCost()
			if choice.Cost >= choice.Bound+over+1e-6*choice.Bound+1e-9 && choice.Cost > choice.Bound*(1+1e-6) {
				t.Fatalf("seed %d: costs %v, bound %v, the fractional classes cost %v", seed, choice.Cost, choice.Bound, over)
			}
		}
	}
	if fits < *problems/10 || near < *problems/3 {
		t.Errorf("of %d problems the choice is other than cheapest in %d, and a bound was computed in %d: they show too little", *problems, fits, near)
	}
}

// TestOneMachineInAllIsFalse: the example of two classes each rich in one dimension.
func TestOneMachineInAllIsFalse(t *testing.T) {
	c := cover.New(0, 0)
	choice, ok := c.Choose(&cover.Problem{
		Want: []int64{1201, 1201}, Unit: []int64{0, 0},
		Offers: []cover.Offer{{Has: []int64{1000, 100}, Cost: 1, Count: 9}, {Has: []int64{100, 1000}, Cost: 1, Count: 9}},
	})
	if !ok || choice.Cost != 4 || math.Abs(choice.Bound-2.1836) > 0.001 {
		t.Errorf("the bound is 2.18 and the best whole choice costs 4: %+v, %v", choice, ok)
	}
}

// TestDeterminism: what a chooser did before has no influence.
func TestDeterminism(t *testing.T) {
	used := cover.New(cover.LambdaDefault, cover.EpsilonDefault)
	for seed := range uint64(500) {
		p := drawProblem(rand.New(rand.NewPCG(seed, 4)))
		a, _ := used.Choose(p)
		b, _ := cover.New(cover.LambdaDefault, cover.EpsilonDefault).Choose(p)
		if !slices.Equal(a.Counts, b.Counts) || a.Bound != b.Bound {
			t.Fatalf("seed %d: %v, anew %v", seed, a.Counts, b.Counts)
		}
	}
}

// TestAmple: numbers of machines that are ample do not matter.
func TestAmple(t *testing.T) {
	c := cover.New(cover.LambdaDefault, cover.EpsilonDefault)
	tried := 0
	for seed := range uint64(*problems) {
		rng := rand.New(rand.NewPCG(seed, 6))
		p := drawProblem(rng)
		choice, ok := c.Choose(p)
		if !ok || choice.Ample > 1<<11 {
			continue
		}
		tried++
		counts := slices.Clone(choice.Counts)
		for i := range p.Offers {
			p.Offers[i].Count = choice.Ample + rng.IntN(3)*rng.IntN(1000)
		}
		other, _ := c.Choose(p)
		if !slices.Equal(counts, other.Counts) || other.Cost != choice.Cost {
			t.Fatalf("seed %d: %v, with other numbers of machines %v", seed, counts, other.Counts)
		}
	}
	if tried < *problems/50 {
		t.Errorf("of %d problems %d have ample machines: they show too little", *problems, tried)
	}
}

// TestSmallOptimum compares choices without a discount with the best of all whole choices.
func TestSmallOptimum(t *testing.T) {
	c := cover.New(0, 0)
	worse, sum, tried := 0, 0.0, 0
	for seed := range uint64(600) {
		rng := rand.New(rand.NewPCG(seed, 5))
		p := &cover.Problem{Want: []int64{1 + rng.Int64N(40), 1 + rng.Int64N(40)}, Unit: []int64{0, 0}}
		for range 2 + rng.IntN(4) {
			p.Offers = append(p.Offers, cover.Offer{Has: []int64{1 + rng.Int64N(12), 1 + rng.Int64N(12)}, Cost: 0.5 + rng.Float64()*4, Count: 1 + rng.IntN(6)})
		}
		slices.SortStableFunc(p.Offers, func(a, b cover.Offer) int { return cmp.Compare(a.Cost, b.Cost) })
		choice, ok := c.Choose(p)
		if !ok {
			continue
		}
		tried++
		best := cheapestCover(p, make([]int, len(p.Offers)), 0, 0, math.Inf(1))
		if choice.Cost < best*(1-1e-9) {
			t.Fatalf("seed %d: costs %v, the optimum is %v", seed, choice.Cost, best)
		}
		if choice.Cost > best*(1+1e-9) {
			worse++
		}
		sum += choice.Cost/best - 1
	}
	if mean := sum / float64(tried); worse > tried/10 || mean > 0.01 {
		t.Errorf("%d of %d choices are not optimal; in the mean they cost %.2f %% more", worse, tried, 100*mean)
	}
}

// cheapestCover tries all whole choices.
func cheapestCover(p *cover.Problem, counts []int, from int, cost, best float64) float64 {
	if cost >= best {
		return best
	}
	if covers(p, counts) {
		return cost
	}
	for i := from; i < len(p.Offers); i++ {
		if counts[i] < p.Offers[i].Count {
			counts[i]++
			best = cheapestCover(p, counts, i, cost+p.Offers[i].Cost, best)
			counts[i]--
		}
	}
	return best
}
