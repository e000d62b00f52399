package bill

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize/convex/lp"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
)

// The bound is at most the optimum of the one linear program that has all kinds and their common
// limits, and near it; without limits it is the optimum.
func TestBoundIsBelowTheJointOptimum(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	ratios, limited := 0.0, 0
	for i := range 300 {
		p := randomProblem(r)
		joint, ok := jointOptimum(t, p)
		if !ok {
			continue
		}
		p.sums.Effective = joint * (1 + r.Float64())
		got := p.bound()
		if got > joint*(1+1e-6) {
			t.Fatalf("problem %d: bound %g, optimum %g: %+v", i, got, joint, p)
		}
		if hasLimit(p) {
			ratios += got / joint
			limited++
		} else if got < joint*(1-1e-3) {
			t.Fatalf("problem %d: bound %g without limits, optimum %g: %+v", i, got, joint, p)
		}
	}
	if limited < 50 {
		t.Fatalf("only %d problems with limits had a solution", limited)
	}
	mean := ratios / float64(limited)
	t.Logf("with limits: %d problems, bound %.3f of the optimum", limited, mean)
	if mean < 0.95 {
		t.Errorf("the bound is %.3f of the optimum in the mean, want 0.95 at least", mean)
	}
}

func hasLimit(p *Problem) bool {
	for i := range p.types {
		if p.types[i].limit < unlimited {
			return true
		}
	}
	return false
}

func randomProblem(r *rand.Rand) *Problem {
	p := &Problem{}
	limits := r.IntN(3) > 0
	for range 2 + r.IntN(6) {
		x := machineType{price: 0.1 + r.Float64(), has: []int64{1 + r.Int64N(16), 1 + r.Int64N(16)}, limit: unlimited}
		if limits && r.IntN(2) == 0 {
			x.price, x.limit = x.price*float64(r.IntN(2)), 1+r.IntN(20)
		}
		p.types = append(p.types, x)
	}
	for range 1 + r.IntN(4) {
		k := kind{held: []int64{r.Int64N(100), 1 + r.Int64N(100)}}
		for t := range p.types {
			if r.IntN(3) > 0 {
				k.types = append(k.types, int32(t))
			}
		}
		p.kinds = append(p.kinds, k)
	}
	return p
}

// jointOptimum solves the linear program of all kinds by gonum: a column for each kind and type, for the surplus of
// each row, and for what is left of each limit.
func jointOptimum(t *testing.T, p *Problem) (float64, bool) {
	t.Helper()
	columns, rows := 0, 0
	for i := range p.kinds {
		columns += len(p.kinds[i].types)
		for _, v := range p.kinds[i].held {
			if v > 0 {
				columns, rows = columns+1, rows+1
			}
		}
	}
	for i := range p.types {
		if p.types[i].limit < unlimited {
			columns, rows = columns+1, rows+1
		}
	}
	a, b, c := mat.NewDense(rows, columns, nil), make([]float64, rows), make([]float64, columns)
	row, col := 0, 0
	limitRow := map[int32]int{}
	for i := range p.types {
		if x := &p.types[i]; x.limit < unlimited {
			limitRow[int32(i)] = row
			a.Set(row, col, 1)
			b[row] = float64(x.limit)
			row, col = row+1, col+1
		}
	}
	for i := range p.kinds {
		k := &p.kinds[i]
		at := col
		for j, typ := range k.types {
			c[at+j] = p.types[typ].price
			if l, ok := limitRow[typ]; ok {
				a.Set(l, at+j, 1)
			}
		}
		col += len(k.types)
		for d, v := range k.held {
			if v == 0 {
				continue
			}
			for j, typ := range k.types {
				a.Set(row, at+j, float64(min(p.types[typ].has[d], v)))
			}
			a.Set(row, col, -1)
			b[row] = float64(v)
			row, col = row+1, col+1
		}
	}
	least, _, err := lp.Simplex(c, a, b, 1e-10, nil)
	return least, err == nil && least > 0
}

// Demand names resources in another order than supply, fewer of them, and some that nothing offers.
func TestOfNamesResources(t *testing.T) {
	table := supply.New()
	amounts := func(cpu, memory int64) model.Resources {
		return model.NewResources(model.Amount{Name: "cpu", Value: cpu}, model.Amount{Name: "memory", Value: memory})
	}
	for _, id := range []string{"m-1", "m-2"} {
		if err := table.Put(&model.Machine{ID: id, State: model.Speculative, PricePerHour: 1, Resources: amounts(64_000, 8)}); err != nil {
			t.Fatal(err)
		}
	}
	got := billOf(t, table,
		model.NewResources(model.Amount{Name: "memory", Value: 12}),
		model.NewResources(model.Amount{Name: "example.com/nothing", Value: 6}))
	if want := (Bill{Serving: 2, Effective: 2, Bound: 1.5}); got != want {
		t.Errorf("bill %+v, want %+v", got, want)
	}
}

// billOf decides about the table for a cluster that asks for amounts, and returns the bill.
func billOf(t *testing.T, table *supply.Table, asked ...model.Resources) Bill {
	t.Helper()
	profile, err := model.NewProfile(model.ProfileSpec{Priority: 10, Interruption: model.BucketForDollars(1)})
	if err != nil {
		t.Fatal(err)
	}
	var rows []model.Need
	for _, amount := range asked {
		rows = append(rows, model.Need{Profile: profile, Aggregate: amount})
	}
	needs := demand.New()
	if err := needs.Replace("c1", rows); err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(engine.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	plan, err := e.Cycle(engine.Input{Supply: table, Demand: needs})
	if err != nil {
		t.Fatal(err)
	}
	return Of(plan, table)
}

// A fleet whose figures can be checked by hand.
func TestOf(t *testing.T) {
	cores := func(n int64) model.Resources {
		return model.NewResources(model.Amount{Name: "cpu", Value: 1000 * n})
	}
	table := supply.New()
	for _, m := range []model.Machine{
		{ID: "owned", State: model.Idle, Host: "h1", PricePerHour: 0.10, Resources: cores(4)},
		{ID: "spare", State: model.Idle, Host: "h2", PricePerHour: 9, Resources: cores(2)},
		{ID: "offer", State: model.Speculative, PricePerHour: 0.40, Resources: cores(8)},
		{ID: "spot", State: model.Speculative, PricePerHour: 0.30, InterruptionProbability: 0.25, Resources: cores(8)},
		{ID: "broken", State: model.Failed, PricePerHour: 5, Resources: cores(8)},
	} {
		if err := table.Put(&m); err != nil {
			t.Fatal(err)
		}
	}
	got := billOf(t, table, cores(10))
	// 10 cores of which 4 come from the owned machine at $0.10 and 6 from three quarters of an offer: a spot machine costs more,
	// since its interruptions cost a dollar each.
	want := Bill{Paid: 9.10, Idle: 9, Serving: 0.50, Effective: 0.50, Bound: 0.10 + 0.75*0.40}
	for _, x := range []struct {
		name      string
		got, want float64
	}{{"paid", got.Paid, want.Paid}, {"idle", got.Idle, want.Idle}, {"serving", got.Serving, want.Serving}, {"effective", got.Effective, want.Effective}, {"bound", got.Bound, want.Bound}} {
		if math.Abs(x.got-x.want) > 1e-6 {
			t.Errorf("%s: %g, want %g", x.name, x.got, x.want)
		}
	}
	if over, ok := got.Over(); !ok || math.Abs(over-0.25) > 1e-6 {
		t.Errorf("over: %g, %v; want 0.25", over, ok)
	}
	if _, ok := (&Bill{Effective: 1}).Over(); ok {
		t.Error("a bill without a bound is above it")
	}
}

// Bills of two shards are of two moments: the sum tells the earlier.
func TestPlusTellsTheEarlierMoment(t *testing.T) {
	a, b := Bill{Paid: 5, Idle: 1, Serving: 3, At: 20}, Bill{Paid: 2, Serving: 4, At: 10}
	for _, sum := range []Bill{a.Plus(b), b.Plus(a)} {
		if want := (Bill{Paid: 7, Idle: 1, Serving: 7, At: 10}); sum != want || sum.Rest() != -1 {
			t.Errorf("sum %+v with rest %v, want %+v with rest -1", sum, sum.Rest(), want)
		}
	}
	if sum := (Bill{}).Plus(a); sum != a || sum.Rest() != 1 {
		t.Errorf("sum with nothing %+v, want %+v", sum, a)
	}
}
