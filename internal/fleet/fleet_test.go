package fleet

import (
	"slices"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/engine/model"
)

func TestRandomIsLegal(t *testing.T) {
	for seed := range int64(300) {
		w := Random(seed, Tiny)
		ids := map[string]bool{}
		for i := range w.Machines {
			m := &w.Machines[i]
			if err := m.Validate(true); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if ids[m.ID] {
				t.Fatalf("seed %d: machine %s twice", seed, m.ID)
			}
			ids[m.ID] = true
		}
		for i, n := range w.Needs {
			if !w.Reported[n.Cluster] {
				t.Fatalf("seed %d: row %d is of %s, which has not reported", seed, i, n.Cluster)
			}
		}
	}
}

func TestRandomDependsOnTheSeedOnly(t *testing.T) {
	for seed := range int64(20) {
		a, b := Describe(Random(seed, Small)), Describe(Random(seed, Small))
		if a != b {
			t.Fatalf("seed %d gives two worlds:\n%s\n%s", seed, a, b)
		}
	}
	if Describe(Random(1, Small)) == Describe(Random(2, Small)) {
		t.Fatal("seeds 1 and 2 give the same world")
	}
}

// What random worlds are for is to hold everything: a generator that stops
// drawing something makes every test on it say less without failing.
func TestRandomDrawsEverything(t *testing.T) {
	seen := map[string]int{}
	for seed := range int64(200) {
		w := Random(seed, Small)
		if w.OneByOne {
			seen["one-by-one"]++
		}
		if w.Band != 1 {
			seen["band"]++
		}
		if len(w.Tenants) > 0 {
			seen["tenants"]++
		}
		if len(w.Nested) > 0 {
			seen["nested"]++
		}
		if w.TopDomains > 0 {
			seen["top-domains"]++
		}
		if w.SearchPairs > 0 {
			seen["search-pairs"]++
		}
		if w.SearchUnits > 0 {
			seen["search-units"]++
		}
		if len(w.BackingOff) > 0 {
			seen["backing-off"]++
		}
		for i := range w.Machines {
			m := &w.Machines[i]
			seen["state "+m.State.String()]++
			seen["capacity "+m.CapacityType.String()]++
			if m.Reservation.Active() {
				seen["reserved "+m.State.String()]++
			}
			if m.Reservation.Plan != 0 {
				seen["plan"]++
			}
			if m.Reservation.Domain != "" {
				seen["domain"]++
			}
			if len(m.Allocatable) > 0 {
				seen["allocatable"]++
			}
		}
		for i := range w.Needs {
			countNeed(seen, w, i)
		}
	}
	want := strings.Fields("state/Speculative state/Creating state/Idle state/Configuring state/Configured state/Draining state/Deleting state/Failed " +
		"capacity/Unspecified capacity/BareMetal capacity/Reserved capacity/OnDemand capacity/Spot " +
		"reserved/Idle reserved/Draining reserved/Configured reserved/Creating allocatable parked twin " +
		"op/In op/NotIn op/Exists op/DoesNotExist op/Same op/Gt op/Lt hard/1 hard/2 soft no-minimum huge empty " +
		"elastic short plan domain roles one-by-one band tenants nested top-domains backing-off search-pairs search-units")
	for _, name := range want {
		if seen[strings.ReplaceAll(name, "/", " ")] < 5 {
			t.Errorf("%s: drawn %d times in 200 worlds", name, seen[strings.ReplaceAll(name, "/", " ")])
		}
	}
}

func countNeed(seen map[string]int, w World, i int) {
	n := &w.Needs[i]
	for _, r := range n.Profile.Requirements() {
		seen["op "+r.Operator.String()]++
	}
	switch hard := len(n.Profile.HardSpread()); {
	case hard > 0:
		seen["hard "+string(rune('0'+hard))]++
	case len(n.Profile.Spread()) > 0:
		seen["soft"]++
	}
	if n.Parked {
		seen["parked"]++
	}
	if len(n.MinAggregate) > 0 {
		seen["elastic"]++
	}
	if n.ShortSince > 0 && n.ShortSince <= w.Now-60e9 {
		seen["short"]++
	}
	if n.Group != "" && i > 0 && w.Needs[i-1].Group == n.Group && w.Needs[i-1].Cluster == n.Cluster && !w.Needs[i-1].Profile.Equal(n.Profile) {
		seen["roles"]++
	}
	if n.MinUnit.IsZero() {
		seen["no-minimum"]++
	}
	if n.Aggregate.IsZero() {
		seen["empty"]++
	}
	if slices.ContainsFunc(n.Aggregate, func(a model.Amount) bool { return a.Value > 1<<60 }) {
		seen["huge"]++
	}
	for _, o := range w.Needs[:i] {
		if o.Cluster == n.Cluster && o.Profile.Equal(n.Profile) && o.Aggregate.Equal(n.Aggregate) && o.Group == n.Group && o.Arrival == n.Arrival {
			seen["twin"]++
		}
	}
}

func TestShuffleKeepsRowOrderInAClusterAndNothingElse(t *testing.T) {
	w := worldOfClusters(t, 3)
	s, from := Shuffle(w, 9)
	last := map[string]int{}
	for i, was := range from {
		n := s.Needs[i]
		if n.Cluster != w.Needs[was].Cluster || n.Profile != w.Needs[was].Profile {
			t.Fatalf("row %d is not row %d of before", i, was)
		}
		if prev, ok := last[n.Cluster]; ok && was < prev {
			t.Fatalf("cluster %s: row %d comes after row %d", n.Cluster, prev, was)
		}
		last[n.Cluster] = was
	}
	if slices.IsSorted(from) {
		t.Error("rows were not shuffled")
	}
	if slices.EqualFunc(w.Machines, s.Machines, func(a, b model.Machine) bool { return a.ID == b.ID }) {
		t.Error("machines were not shuffled")
	}
}

// A failure that needs one machine and one row is shrunk to one of each, with
// everything plain that the failure does not look at.
func TestMinimiseFindsTheCore(t *testing.T) {
	w := Random(3, Medium)
	fails := func(w World) bool {
		return slices.ContainsFunc(w.Machines, func(m model.Machine) bool { return m.State == model.Idle && m.PricePerHour >= 0 && m.Zone != "" }) &&
			slices.ContainsFunc(w.Needs, func(n model.Need) bool { return n.Aggregate.Get("cpu") >= 100 })
	}
	if !fails(w) {
		t.Fatal("the world does not fail to begin with")
	}
	core := Minimise(w, fails)
	if len(core.Machines) != 1 || len(core.Needs) != 1 || !fails(core) {
		t.Fatalf("not the core:\n%s", Describe(core))
	}
	m, n := core.Machines[0], core.Needs[0]
	if m.Reservation.Active() || len(m.Labels) > 0 || len(n.Profile.Requirements()) > 0 || n.Profile.Priority() != 0 || n.Aggregate.Get("cpu") >= 200 {
		t.Errorf("not plain:\n%s", Describe(core))
	}
}

// worldOfClusters draws the first world whose rows are of so many clusters.
func worldOfClusters(t *testing.T, atLeast int) World {
	t.Helper()
	for seed := range int64(100) {
		w := Random(seed, Small)
		clusters := map[string]bool{}
		for _, n := range w.Needs {
			clusters[n.Cluster] = true
		}
		if len(clusters) >= atLeast {
			return w
		}
	}
	t.Fatalf("no world with %d clusters", atLeast)
	return World{}
}
