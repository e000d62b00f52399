package engine_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/reference"
	"github.com/tonnage/tonnage/internal/measure"
	"github.com/tonnage/tonnage/internal/twin"
	"github.com/tonnage/tonnage/internal/workload"
)

// TestTooMuchMemoryIsAnError: a cycle that would need more memory than the engine may have
// is an error, whichever worker finds out, and the next one decides as if nothing were.
func TestTooMuchMemoryIsAnError(t *testing.T) {
	rung, err := workload.ByName("5k")
	if err != nil {
		t.Fatal(err)
	}
	in, err := measure.Load(workload.Build(rung, 1), workload.Contended)
	if err != nil {
		t.Fatal(err)
	}
	want := uint64(0)
	for _, workers := range []int{1, 3} {
		refused := map[bool]int{}
		for limit := int64(64 << 20); limit >= 0; limit = limit*3/4 - 1<<16 {
			opts := engine.DefaultOptions()
			opts.Workers = workers
			e, err := engine.New(opts)
			if err != nil {
				t.Fatal(err)
			}
			e.SetMemoryLimit(limit)
			var full *alloc.LimitError
			_, err = e.Cycle(in)
			if err != nil && !errors.As(err, &full) {
				t.Fatalf("%d workers, %d bytes: %v", workers, limit, err)
			}
			refused[err != nil]++
			e.SetMemoryLimit(alloc.MaxBytes)
			plan, err := e.Cycle(in)
			if err != nil {
				t.Fatalf("%d workers, after %d bytes: %v", workers, limit, err)
			}
			if want == 0 {
				want = plan.Digest()
			}
			if plan.Digest() != want {
				t.Errorf("%d workers, after %d bytes: another plan", workers, limit)
			}
			e.Close()
		}
		if refused[true] < 4 || refused[false] == 0 {
			t.Errorf("%d workers: of the limits %d were too low, %d not: too few were tried", workers, refused[true], refused[false])
		}
	}
}

// TestManyKinds: rows with a minimum unit of their own each, and machines that differ by
// what little they have, take memory for each row and machine, not for each pair.
func TestManyKinds(t *testing.T) {
	if testing.Short() {
		t.Skip("decides on very many kinds")
	}
	many := func(machines, rows int) reference.Input {
		profile, err := model.NewProfile(model.ProfileSpec{Priority: 1})
		if err != nil {
			t.Fatal(err)
		}
		in := reference.Input{Reported: map[string]bool{"c": true}, Now: 1e18, Options: reference.DefaultOptions()}
		vector := func(cpu, memory int64) model.Resources {
			return model.Resources{{Name: "cpu", Value: cpu}, {Name: "memory", Value: memory}}
		}
		for i := range machines {
			id := fmt.Sprintf("m%06d", i)
			in.Machines = append(in.Machines, model.Machine{ID: id, Host: id, State: model.Idle, Resources: vector(4000, 1<<32-int64(i))})
		}
		for i := range rows {
			in.Needs = append(in.Needs, model.Need{
				Cluster: "c", Profile: profile, Aggregate: vector(4000, 1<<20), MinUnit: vector(100, 1<<20+int64(i)),
			})
		}
		return in
	}
	in := many(25, 40)
	got, err := twin.Decide(in)
	if err != nil {
		t.Fatal(err)
	}
	if d := twin.Diff(got, reference.Decide(in)); d != "" {
		t.Error(d)
	}
	const n, most = 6_000, 64 << 20 // a list of classes for each row would be 144 MB
	supply, demand, _, err := twin.Tables(many(n, n))
	if err != nil {
		t.Fatal(err)
	}
	opts := engine.DefaultOptions()
	opts.Workers = 1
	e, err := engine.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if _, err := e.Cycle(engine.Input{Supply: supply, Demand: demand, Now: in.Now}); err != nil {
		t.Fatal(err)
	}
	total := int64(0)
	for _, u := range e.Memory() {
		total += u.Reserved
	}
	if total > most {
		t.Errorf("%d rows and machines that are all different take %d bytes", n, total)
	}
}
