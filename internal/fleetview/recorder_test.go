package fleetview

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/web"
)

func cpuOf(n int64) model.Resources {
	return model.NewResources(model.Amount{Name: "cpu", Value: n})
}

// pageInput is one idle machine of 4 cpu and the rows of each cluster.
func pageInput(t *testing.T, rows map[string][]model.Need) engine.Input {
	t.Helper()
	in := engine.Input{Supply: supply.New(), Demand: demand.New(), Now: 1e9}
	m := model.Machine{ID: "m", State: model.Idle, Host: "h", CapacityType: model.BareMetal, Zone: "z", PricePerHour: 1, Resources: cpuOf(4)}
	if err := in.Supply.Put(&m); err != nil {
		t.Fatal(err)
	}
	for c, list := range rows {
		if err := in.Demand.Replace(c, list); err != nil {
			t.Fatal(err)
		}
	}
	return in
}

func pageNeed(t *testing.T, priority int32, amount int64, group string, requirements ...model.Requirement) model.Need {
	t.Helper()
	p, err := model.NewProfile(model.ProfileSpec{Priority: priority, Requirements: requirements})
	if err != nil {
		t.Fatal(err)
	}
	return model.Need{Profile: p, Aggregate: cpuOf(amount), MinUnit: cpuOf(1), Group: group}
}

func pagePlan(t *testing.T, in engine.Input) *engine.Plan {
	t.Helper()
	e, err := engine.New(engine.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	plan, err := e.Cycle(in)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// TestPageTellsWhatIsUnmet: a fold is one Need of no group and misses a share
// of what its members want; what is unmet longer stands first among equals.
func TestPageTellsWhatIsUnmet(t *testing.T) {
	same := model.Requirement{Key: model.KeyZone, Operator: model.Same}
	low := pageNeed(t, 10, 5, "low")
	in := pageInput(t, map[string][]model.Need{
		"c1": {low, pageNeed(t, 500, 4, "g1", same), pageNeed(t, 500, 4, "g2", same), pageNeed(t, 500, 4, "g3", same)},
	})
	p := NewRecorder(Config{})
	p.Decided(in, pagePlan(t, in))
	describe := func() (out []string) {
		for _, u := range p.next.Unmet {
			out = append(out, fmt.Sprintf("%s %d misses %v, %.3f of it, %g s", u.Cluster, u.Priority, u.Deficit, u.Missing, u.AgeSeconds))
		}
		return out
	}
	if got, want := describe(), []string{"c1 500 misses [{cpu 8}], 0.667 of it, 0 s", "c1 10 misses [{cpu 5}], 1.000 of it, 0 s"}; !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if f := p.next; f.Needs != 2 || f.Rows != 4 || f.Satisfied != 0 || len(f.Resources) != 1 || f.Resources[0].Deficit != 13 {
		t.Errorf("%d Needs of %d rows, %d satisfied, %v", f.Needs, f.Rows, f.Satisfied, f.Resources)
	}

	// A newcomer of the same priority ranks first by its cluster's id, and is
	// younger; the members of the fold change and it stays the same Need.
	for c, list := range map[string][]model.Need{
		"c0": {low},
		"c1": {low, pageNeed(t, 500, 4, "g4", same), pageNeed(t, 500, 4, "g3", same)},
	} {
		if err := in.Demand.Replace(c, list); err != nil {
			t.Fatal(err)
		}
	}
	in.Now += 5e9
	p.Decided(in, pagePlan(t, in))
	want := []string{"c1 500 misses [{cpu 4}], 0.500 of it, 5 s", "c1 10 misses [{cpu 5}], 1.000 of it, 5 s", "c0 10 misses [{cpu 5}], 1.000 of it, 0 s"}
	if got := describe(); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestWorstUnmetIsTheHeadOfTheSortedList, whatever the order they come in.
func TestWorstUnmetIsTheHeadOfTheSortedList(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for _, n := range []int{0, 1, web.MaxUnmet - 1, web.MaxUnmet, web.MaxUnmet + 1, 500} {
		var all []unmetRow
		kept := worstUnmet{most: web.MaxUnmet}
		for i := range n {
			x := unmetRow{row: int32(i), priority: r.Int32N(3), since: r.Int64N(3), rank: int32(i)}
			all = append(all, x)
		}
		r.Shuffle(n, func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, x := range all {
			kept.offer(&x)
		}
		kept.sort()
		slices.SortFunc(all, func(a, b unmetRow) int {
			return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.since, b.since), cmp.Compare(a.rank, b.rank))
		})
		if want := all[:min(n, web.MaxUnmet)]; !slices.Equal(kept.rows, want) {
			t.Errorf("seed %d, %d rows: got %v, want %v", seed, n, kept.rows, want)
		}
	}
}

// TestPageTakesNoMemoryByRow: what a frame takes does not grow with the rows
// that are unmet, once their ages are known.
func TestPageTakesNoMemoryByRow(t *testing.T) {
	took := func(rows int) float64 {
		list := make([]model.Need, rows)
		for i := range list {
			list[i] = pageNeed(t, 10, math.MaxInt32, fmt.Sprint("g", i%50))
		}
		in := pageInput(t, map[string][]model.Need{"c1": list})
		plan, p := pagePlan(t, in), NewRecorder(Config{})
		return testing.AllocsPerRun(3, func() { p.Decided(in, plan) })
	}
	if few, many := took(500), took(8000); many > few+100 {
		t.Errorf("%.0f allocations for 500 rows, %.0f for 8,000", few, many)
	}
}

func TestModesHaveThePagesNames(t *testing.T) {
	if modeOf(shard.DryRun) != web.ModeDryRun || modeOf(shard.Paused) != web.ModePaused || modeOf(shard.Execute) != web.ModeRunning {
		t.Error("the modes differ")
	}
}

func TestAlikeActionsAreCountedTogether(t *testing.T) {
	bind := shard.ReportAction{Kind: engine.Bootstrap, Reason: engine.ReasonIdle, InstanceType: "m6i.large", Cluster: "a", For: "a", Need: "instance-type in m6i.large|m6i.xlarge, same rack"}
	list := []shard.ReportAction{bind, bind, bind}
	list[0].Machine, list[1].Machine, list[2].Machine = "m1", "m2", "m3"
	list[2].Cluster = "b"
	list = append(list, shard.ReportAction{Kind: engine.Preempt, Reason: engine.ReasonPreempt, Machine: "m4", Cluster: "loser", For: "winner"})
	got := didOf(&shard.CycleReport{Actions: list, Counts: [engine.NumKinds]int{engine.Bootstrap: 10, engine.Preempt: 1}}, nil, map[string]string{"m1": "web", "m2": "shop", "m3": "shop"})
	want := []web.Action{
		{Kind: "Bootstrap", Count: 2, Machine: "m1", Type: "m6i.large", Cluster: "a", Need: "m6i.large/m6i.xlarge, same rack", Reason: "phase1.idle"},
		{Kind: "Bootstrap", Count: 1, Machine: "m3", Type: "m6i.large", Cluster: "b", Need: "m6i.large/m6i.xlarge, same rack", For: "shop", Reason: "phase1.idle"},
		{Kind: "Preempt", Count: 1, Machine: "m4", Cluster: "winner", From: "loser", Reason: "phase2.preempt"},
		{Kind: "Bootstrap", Count: 7},
	}
	if len(got) != len(want) {
		t.Fatalf("got %+v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("action %d is %+v, want %+v", i, got[i], want[i])
		}
	}
}

func TestResourcesOfAFrame(t *testing.T) {
	vector := func(cpu, memory, gpu int64) model.Resources {
		return model.NewResources(model.Amount{Name: "cpu", Value: cpu}, model.Amount{Name: "memory", Value: memory}, model.Amount{Name: "a.example/gpu", Value: gpu})
	}
	got := resourcesOf(&shard.CycleReport{Demand: vector(10, 20, 4), Bound: vector(5, 30, 2), Free: vector(1, 0, 0)}, []web.Resource{{Name: "a.example/gpu", Deficit: 9}})
	want := []web.Resource{
		{Name: "cpu", Demand: 10, Bound: 5, Idle: 1}, {Name: "memory", Demand: 20, Bound: 30},
		{Name: "a.example/gpu", Demand: 4, Deficit: 4, Bound: 2},
	}
	if len(got) != len(want) {
		t.Fatalf("got %+v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("resource %d is %+v, want %+v", i, got[i], want[i])
		}
	}
}
