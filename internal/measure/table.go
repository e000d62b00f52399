package measure

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/tonnage/tonnage/internal/terminal"

	"github.com/tonnage/tonnage/engine/history"
)

const mib = 1 << 20

// WriteTable prints the result for a reader.
func (r *Result) WriteTable(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %d machines, %d Needs (%d after folding), seed %d, %d cycles, workers %d, victims: %s, acquire: %s\n",
		r.Rung, r.Regime, r.Machines, r.Needs, r.NeedsFolded, r.Seed, r.Cycles, r.Workers, r.Victims, r.Acquire)
	fmt.Fprintf(&b, "%s, GOAMD64=%s, kernels %s, load %.2f\n\n", r.CPU, r.GOAMD64, r.SIMD, r.Load1)
	r.writeTimes(&b)
	b.WriteByte('\n')
	facts := &terminal.Table{}
	for _, f := range r.facts() {
		facts.Row(f[0], f[1])
	}
	if err := facts.Write(&b); err != nil {
		return err
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Result) writeTimes(w io.Writer) {
	p := &r.PhaseMillis
	fmt.Fprintf(w, "%-12s%12s%12s%12s%12s\n", "MS", "MIN", "P50", "P99", "MAX")
	for _, line := range []struct {
		name string
		of   Spread
	}{
		{"cycle", r.CycleMillis},
		{"  snapshot", p.Snapshot}, {"  normalise", p.Normalise}, {"  rank", p.Rank},
		{"  phase 1", p.Phase1}, {"  phase 2", p.Phase2}, {"  phase 3", p.Phase3},
		{"cpu", r.CPUMillis},
	} {
		fmt.Fprintf(w, "%-12s%12.3f%12.3f%12.3f%12.3f\n", line.name, line.of.Min, line.of.P50, line.of.P99, line.of.Max)
	}
}

// facts are what is not a time: a name and a text each.
func (r *Result) facts() [][2]string {
	facts := [][2]string{
		{"floor", fmt.Sprintf("%.3f ms, what the memory allows; the fastest cycle takes %.2f times that, the median %.2f times", r.FloorMillis, r.TimesFloor, r.P50TimesFloor)},
		{"cycles", fmt.Sprintf("%d of %d built on nothing, %d were checked", r.FullCycles, r.Cycles, r.CheckedCycles)},
		{"changed", fmt.Sprintf("%d machines and %d Needs since the cycle before; %d machines have another stamp", r.ChangedMachines, r.ChangedNeeds, r.AdoptedMachines)},
		{"satisfied", fmt.Sprintf("%d of %d Needs", r.Satisfied, r.Satisfied+r.Unsatisfied)},
		{"actions", counts(r.Actions)},
		{"candidates", fmt.Sprintf("%d looked at, in %d classes", r.Probes, r.Classes)},
		{"claims", fmt.Sprintf("%d proposals, %d of them retries, %d conflicts, %d displacements, %d retries exhausted", r.Proposals, r.Retries, r.Conflicts, r.Displacements, r.RetriesExhausted)},
		{"rest", r.restFacts()},
		{"allocations", fmt.Sprintf("%d in a cycle (at most %d), %.2f MiB", r.AllocsPerCycle, r.AllocsPerCycleMax, float64(r.AllocBytesPerCycle)/mib)},
		{"bytes", fmt.Sprintf("%.1f per machine, %.1f per Need by %s (%.1f and %.1f on the heap)", r.BytesPerMachine, r.BytesPerNeed, r.BytesFrom, r.HeapBytesPerMachine, r.HeapBytesPerNeed)},
		{"memory", r.memory()},
		{"plan", fmt.Sprintf("%s, verified: %s (%d cycles%s)", r.PlanChecksum, r.Verified, r.VerifiedCycles, r.ratio())},
	}
	if !r.AtRest {
		facts = append(facts, [2]string{"at rest", fmt.Sprintf("no, after %d cycles without any change", r.SettleCycles)})
	}
	return facts
}

// ratio says how the other way compares, minimum to minimum.
func (r *Result) ratio() string {
	if r.VerifiedCycles == 0 {
		return ""
	}
	asked := ""
	if r.ReferenceCycles > 0 && r.ReferenceCycles < r.VerifiedCycles {
		asked = fmt.Sprintf(", %d of them with it", r.ReferenceCycles)
	}
	return fmt.Sprintf("%s, %.1f ms, %.1f times the cycle", asked, r.VerifyMillis.Min, r.VerifyMillis.Min/r.CycleMillis.Min)
}

// counts writes what is not 0, most first.
func counts(of map[string]int) string {
	var out []string
	for _, k := range slices.SortedFunc(maps.Keys(of), func(a, b string) int { return of[b] - of[a] }) {
		if of[k] > 0 {
			out = append(out, fmt.Sprintf("%s %d", k, of[k]))
		}
	}
	if out == nil {
		return "none"
	}
	return strings.Join(out, ", ")
}

func (r *Result) memory() string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(r.MemoryBytes)) {
		out = append(out, fmt.Sprintf("%s %.1f", k, float64(r.MemoryBytes[k])/mib))
	}
	return fmt.Sprintf("%s MiB; resident %.1f MiB", strings.Join(out, ", "), float64(r.RSSBytes)/mib)
}

// restFacts says what was decided anew and what came to nothing, over all measured cycles.
func (r *Result) restFacts() string {
	t := &r.Rest
	return fmt.Sprintf("%d Needs credited (%s), %d taken over, %d stamps adopted; plans: %d made, %d kept, %d completed, %d ended; drained in vain %d, left bound %d; undone %d, with a change elsewhere %d",
		t.NeedsCredited, counts(r.CreditedBy), t.NeedsKept, t.StampsAdopted, t.PlansMade, t.PlansKept, t.PlansCompleted, history.Sum(t.PlansEnded), t.DrainedInVain, t.LeftBound,
		history.Sum(t.Undone), history.Sum(t.UndoneElsewhere))
}
