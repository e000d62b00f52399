package supply_test

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
	"github.com/tonnage/tonnage/internal/workload"
)

// records returns the machines of a rung in the steady regime, and the profiles
// of its demand.
func records(tb testing.TB, rung string) ([]model.Machine, []*model.Profile) {
	tb.Helper()
	r, err := workload.ByName(rung)
	if err != nil {
		tb.Fatal(err)
	}
	f := workload.Build(r, 1)
	var machines []model.Machine
	for m := range f.Machines(workload.Steady, int64(time.Hour)) {
		machines = append(machines, *m)
	}
	var profiles []*model.Profile
	seen := map[*model.Profile]bool{}
	for i := range f.Clusters() {
		for _, n := range f.Needs(workload.Steady, i) {
			if !seen[n.Profile] {
				seen[n.Profile] = true
				profiles = append(profiles, n.Profile)
			}
		}
	}
	return machines, profiles
}

// fill puts all machines into a new table that tracks the profiles.
func fill(tb testing.TB, machines []model.Machine, profiles []*model.Profile) *supply.Table {
	tb.Helper()
	t := supply.New()
	if err := t.Use(profiles); err != nil {
		tb.Fatal(err)
	}
	for i := range machines {
		if err := t.Put(&machines[i]); err != nil {
			tb.Fatal(err)
		}
	}
	return t
}

// BenchmarkPut fills a table of 225,000 machines that tracks no profile yet.
func BenchmarkPut(b *testing.B) {
	machines, _ := records(b, "50k")
	b.ReportAllocs()
	for b.Loop() {
		fill(b, machines, nil)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(machines)), "ns/machine")
}

// BenchmarkPutTracked is BenchmarkPut into a table that tracks the demand.
func BenchmarkPutTracked(b *testing.B) {
	machines, profiles := records(b, "50k")
	b.ReportAllocs()
	for b.Loop() {
		fill(b, machines, profiles)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(machines)), "ns/machine")
}

// BenchmarkOrder sorts 225,000 ids that come in no order.
func BenchmarkOrder(b *testing.B) {
	machines, _ := records(b, "50k")
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(machines), func(i, j int) { machines[i], machines[j] = machines[j], machines[i] })
	for b.Loop() {
		b.StopTimer()
		t := fill(b, machines, nil)
		b.StartTimer()
		t.Order()
	}
}

// BenchmarkOrderDelta has 1 % of the machines go and others come.
func BenchmarkOrderDelta(b *testing.B) {
	machines, _ := records(b, "50k")
	t := fill(b, machines, nil)
	t.Order()
	for b.Loop() {
		b.StopTimer()
		for i := 0; i < len(machines); i += 100 {
			t.Remove(machines[i].ID)
			machines[i].ID += "'"
			if err := t.Put(&machines[i]); err != nil {
				b.Fatal(err)
			}
		}
		b.StartTimer()
		t.Order()
	}
}

// BenchmarkUse is what a cycle with known profiles costs.
func BenchmarkUse(b *testing.B) {
	machines, profiles := records(b, "50k")
	t := fill(b, machines, profiles)
	b.ReportAllocs()
	for b.Loop() {
		if err := t.Use(profiles); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(profiles)), "profiles")
}

// heap returns the bytes that live objects occupy.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

// BenchmarkBytesPerMachine measures the memory of a full table, by the heap.
func BenchmarkBytesPerMachine(b *testing.B) {
	for _, rung := range []string{"50k", "500k"} {
		b.Run(rung, func(b *testing.B) {
			machines, profiles := records(b, rung)
			for b.Loop() {
				before := heap()
				t := fill(b, machines, profiles)
				t.Order()
				b.ReportMetric(float64(heap()-before)/float64(len(machines)), "bytes/machine")
				b.ReportMetric(float64(t.Memory().Total())/float64(len(machines)), "accounted-bytes/machine")
				runtime.KeepAlive(t)
			}
			runtime.KeepAlive(machines)
		})
	}
}

// BenchmarkUseFirst is what the first cycle costs: every profile of the demand
// is new to a full table.
func BenchmarkUseFirst(b *testing.B) {
	for _, rung := range []string{"50k", "500k"} {
		b.Run("rung="+rung, func(b *testing.B) {
			machines, profiles := records(b, rung)
			for b.Loop() {
				b.StopTimer()
				t := fill(b, machines, nil)
				t.Order()
				runtime.GC()
				b.StartTimer()
				if err := t.Use(profiles); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(profiles)), "profiles")
			b.ReportMetric(float64(len(machines)), "machines")
		})
	}
}
