package contract

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/engine/reference"
	"github.com/tonnage/tonnage/internal/fleet"
)

// InputOf makes a cycle's input of a random world, with the options of the
// contract but for what the world says of victims, tenants and domains.
func InputOf(w fleet.World) reference.Input {
	opts := reference.DefaultOptions()
	opts.Band, opts.Nested = w.Band, w.Nested
	if w.TopDomains > 0 {
		opts.TopDomains = w.TopDomains
	}
	if w.SearchPairs > 0 {
		opts.SearchPairs = w.SearchPairs
	}
	if w.SearchUnits > 0 {
		opts.SearchUnits = w.SearchUnits
	}
	if opts.Victims = reference.VictimsGang; w.OneByOne {
		opts.Victims = reference.VictimsMachine
	}
	for _, t := range w.Tenants {
		opts.Tenants = append(opts.Tenants, reference.Tenant(t))
	}
	return reference.Input{
		Machines: w.Machines, Needs: w.Needs, Reported: w.Reported, Now: w.Now,
		DrainSeconds: w.DrainSeconds, BackingOff: w.BackingOff, Options: opts,
	}
}

// RunRandom checks, on worlds of the seeds from first on, the invariants of a
// plan, and that the order in which machines and clusters are listed does not
// matter. A world that fails is shrunk before it is printed.
func RunRandom(t *testing.T, decide Decide, size fleet.Size, first, seeds int64) {
	for seed := first; seed < first+seeds; seed++ {
		Check(t, seed, size, func(w fleet.World) string {
			plan := decide(InputOf(w))
			if faults := Faults(InputOf(w), plan); len(faults) > 0 {
				return strings.Join(faults, "\n")
			}
			s, from := fleet.Shuffle(w, seed)
			if d := Diff(Relabel(decide(InputOf(s)), from), plan); d != "" {
				return "listed in another order:\n" + d
			}
			return ""
		})
	}
}

// RunAgainst compares an implementation with the reference on worlds of the
// seeds from first on.
func RunAgainst(t *testing.T, decide Decide, size fleet.Size, first, seeds int64) {
	for seed := first; seed < first+seeds; seed++ {
		Check(t, seed, size, func(w fleet.World) string {
			return Diff(decide(InputOf(w)), reference.Decide(InputOf(w)))
		})
	}
}

// Check draws the seed's world and fails the test if fault finds something
// wrong with it, printing the smallest world in which it still does.
func Check(t *testing.T, seed int64, size fleet.Size, fault func(fleet.World) string) {
	t.Helper()
	w := fleet.Random(seed, size)
	if fault(w) == "" {
		return
	}
	core := fleet.Minimise(w, func(w fleet.World) bool { return fault(w) != "" })
	t.Fatalf("seed %d, size %v: %s\nin the world\n%s", seed, size, fault(core), fleet.Describe(core))
}

// Relabel turns the plan of a shuffled world into that of the world before:
// row i was row from[i].
func Relabel(p reference.Plan, from []int) reference.Plan {
	out := reference.Plan{Actions: slices.Clone(p.Actions), Ended: p.Ended, Reserved: slices.Clone(p.Reserved), Needs: make([]reference.NeedResult, len(p.Needs))}
	for i := range out.Actions {
		if a := &out.Actions[i]; a.Need >= 0 {
			a.Need = from[a.Need]
		}
	}
	for i := range out.Reserved {
		out.Reserved[i].Need = from[out.Reserved[i].Need]
	}
	for i, r := range p.Needs {
		r.Fold = from[r.Fold]
		out.Needs[from[i]] = r
	}
	return out
}

// Diff says how two plans differ, "" when they do not.
func Diff(got, want reference.Plan) string {
	var b strings.Builder
	say := func(what string, got, want any) {
		if !reflect.DeepEqual(got, want) {
			fmt.Fprintf(&b, "%s:\n  got  %+v\n  want %+v\n", what, got, want)
		}
	}
	for i := range max(len(got.Actions), len(want.Actions)) {
		say(fmt.Sprintf("action %d", i), nth(got.Actions, i), nth(want.Actions, i))
	}
	for i := range max(len(got.Needs), len(want.Needs)) {
		say(fmt.Sprintf("row %d", i), plain(nth(got.Needs, i)), plain(nth(want.Needs, i)))
	}
	for i := range max(len(got.Reserved), len(want.Reserved)) {
		say(fmt.Sprintf("reserved %d", i), nth(got.Reserved, i), nth(want.Reserved, i))
	}
	say("ended", strings.Join(got.Ended, " "), strings.Join(want.Ended, " "))
	return b.String()
}

func nth[T any](list []T, i int) *T {
	if i < len(list) {
		return &list[i]
	}
	return nil
}

// plain makes empty and absent lists equal.
func plain(r *reference.NeedResult) *reference.NeedResult {
	if r == nil {
		return nil
	}
	c := *r
	if len(c.Claimed) == 0 {
		c.Claimed = nil
	}
	if len(c.Deficit) == 0 {
		c.Deficit = nil
	}
	if len(c.InFlight) == 0 {
		c.InFlight = nil
	}
	return &c
}
