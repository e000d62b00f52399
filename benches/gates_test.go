package benches

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/supply"
	"github.com/tonnage/tonnage/internal/measure"
	"github.com/tonnage/tonnage/internal/workload"
)

var update = flag.Bool("update", false, "write what is measured as what is expected")

// Costs may pass what is written down by so much before a gate fails: growth of
// maps and buffers is not the same in every run.
const (
	costSlackPercent = 1
	allocsSlack      = 8
)

// gate is what one cycle of a rung answers and costs.
type gate struct {
	Rung       string         `json:"rung"`
	Regime     string         `json:"regime"`
	Machines   int            `json:"machines"`
	Needs      int            `json:"needs"`
	Folded     int            `json:"folded"`
	Satisfied  int            `json:"satisfied"`
	Actions    map[string]int `json:"actions"`
	Plan       string         `json:"plan"` // checksum
	Candidates int64          `json:"candidates"`
	Allocs     int            `json:"allocs"` // of a cycle, once its memory is there
	// What the tables hold after the cycles, indexes included.
	BytesPerMachine int64 `json:"bytesPerMachine"`
	BytesPerNeed    int64 `json:"bytesPerNeed"`
	// WorkingBytes is what the engine holds after the cycles.
	WorkingBytes int64 `json:"workingBytes"`
}

func (g *gate) name() string { return g.Rung + "/" + g.Regime }

// seed of every gate's workload.
const seed = 1

// TestGates holds every rung's plan to its checksum, and its cost to what was.
func TestGates(t *testing.T) {
	expected := readGates(t)
	var measured []gate
	for _, rung := range []string{"tiny", "5k"} {
		for _, regime := range []workload.Regime{workload.Cold, workload.Steady, workload.Burst, workload.Shrink, workload.Contended} {
			got := run(t, rung, regime)
			measured = append(measured, got)
			if *update {
				continue
			}
			t.Run(got.name(), func(t *testing.T) {
				i := slices.IndexFunc(expected, func(g gate) bool { return g.name() == got.name() })
				if i < 0 {
					t.Fatal("nothing is expected yet; write it down with -update")
				}
				for _, fault := range compare(&got, &expected[i]) {
					t.Error(fault)
				}
			})
		}
	}
	if *update {
		writeGates(t, measured)
	}
}

// compare names what differs from what is expected. A cost that fell is no
// fault, but is worth writing down.
func compare(got, want *gate) []string {
	var faults []string
	if got.Plan != want.Plan {
		faults = append(faults, fmt.Sprintf("the plan is another one: %+v, want %+v", *got, *want))
	}
	if !costsCount {
		return faults
	}
	if most := want.Candidates + want.Candidates*costSlackPercent/100; got.Candidates > most {
		faults = append(faults, fmt.Sprintf("%d candidates were looked at, at most %d", got.Candidates, most))
	}
	if most := want.Allocs + want.Allocs*costSlackPercent/100 + allocsSlack; got.Allocs > most {
		faults = append(faults, fmt.Sprintf("%d allocations in a cycle, at most %d", got.Allocs, most))
	}
	for _, b := range []struct {
		of        string
		got, want int64
	}{
		{"a machine", got.BytesPerMachine, want.BytesPerMachine}, {"a Need", got.BytesPerNeed, want.BytesPerNeed},
		{"the engine", got.WorkingBytes, want.WorkingBytes},
	} {
		if most := b.want + b.want*costSlackPercent/100; b.got > most {
			faults = append(faults, fmt.Sprintf("%d bytes for %s, at most %d", b.got, b.of, most))
		}
	}
	return faults
}

func run(t *testing.T, name string, regime workload.Regime) gate {
	t.Helper()
	rung, err := workload.ByName(name)
	if err != nil {
		t.Fatal(err)
	}
	in, err := measure.Load(workload.Build(rung, seed), regime)
	if err != nil {
		t.Fatal(err)
	}
	opts := engine.DefaultOptions()
	opts.Workers = 1 // which of several does what, and has room for it by then, differs
	e, err := engine.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	cycle := func() *engine.Plan {
		plan, err := e.Cycle(in)
		if err != nil {
			t.Fatal(err)
		}
		return plan
	}
	plan := cycle()
	st := &plan.Stats
	g := gate{
		Rung: name, Regime: regime.String(), Machines: st.Machines, Needs: st.Needs, Folded: st.Folded, Satisfied: st.Satisfied,
		Actions: map[string]int{}, Plan: checksum(plan, in.Supply), Candidates: st.Probes,
	}
	for k, n := range st.Actions {
		g.Actions[engine.Kind(k).String()] = n
	}
	g.Allocs = int(testing.AllocsPerRun(3, func() { cycle() }))
	if again := checksum(cycle(), in.Supply); again != g.Plan {
		t.Errorf("%s: the same tables gave the plan %s, and later %s", g.name(), g.Plan, again)
	}
	g.BytesPerMachine, g.BytesPerNeed = bytesPerRow(in)
	g.WorkingBytes = working(e).Reserved
	return g
}

// working is what an engine holds, for all purposes.
func working(e *engine.Engine) (sum alloc.Usage) {
	for _, u := range e.Memory() {
		sum.Used += u.Used
		sum.Reserved += u.Reserved
	}
	return sum
}

// bytesPerRow is what the tables hold by their own accounts.
func bytesPerRow(in engine.Input) (perMachine, perNeed int64) {
	var supply, demand alloc.Accounts
	in.Supply.Account(&supply)
	in.Demand.Account(&demand)
	return supply.Total().Reserved / int64(in.Supply.Len()), demand.Total().Reserved / int64(in.Demand.Len())
}

func checksum(plan *engine.Plan, machines *supply.Table) string {
	return fmt.Sprintf("%016x", measure.Checksum(plan, machines))
}

var gatesFile = filepath.Join("testdata", "gates.json")

func readGates(t *testing.T) []gate {
	t.Helper()
	raw, err := os.ReadFile(gatesFile)
	if errors.Is(err, fs.ErrNotExist) && *update {
		return nil
	}
	var out []gate
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func writeGates(t *testing.T, gates []gate) {
	t.Helper()
	raw, err := json.MarshalIndent(gates, "", "  ")
	if err == nil {
		err = os.WriteFile(gatesFile, append(raw, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestGatesCanFail: each figure that is worse is found.
func TestGatesCanFail(t *testing.T) {
	want := gate{Plan: "a", Candidates: 1000, Allocs: 100, BytesPerMachine: 100, BytesPerNeed: 100, WorkingBytes: 100}
	costs := 0
	if costsCount {
		costs = 1
	}
	for name, c := range map[string]struct {
		got  gate
		want int
	}{
		"the same":         {want, 0},
		"another plan":     {gate{Plan: "b", Candidates: 1000, Allocs: 100}, 1},
		"within the slack": {gate{Plan: "a", Candidates: 1010, Allocs: 109}, 0},
		"more candidates":  {gate{Plan: "a", Candidates: 1011, Allocs: 100}, costs},
		"more allocations": {gate{Plan: "a", Candidates: 1000, Allocs: 110}, costs},
		"more bytes":       {gate{Plan: "a", BytesPerMachine: 102, BytesPerNeed: 102, WorkingBytes: 102}, 3 * costs},
		"less of all":      {gate{Plan: "a"}, 0},
	} {
		if got := compare(&c.got, &want); len(got) != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
