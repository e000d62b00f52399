package model

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// randomSpec draws a valid spec over few keys and values, so that equal and
// nearly equal ones are common.
func randomSpec(rng *rand.Rand) ProfileSpec {
	word := func() string { return []string{"", "a", "b", "ab", "a=b", "=a", ","}[rng.IntN(7)] }
	s := ProfileSpec{Priority: rng.Int32N(2), Interruption: Bucket(rng.IntN(2)), Reclamation: Bucket(rng.IntN(2))}
	for range rng.IntN(3) {
		r := Requirement{Key: "k" + word(), Operator: []Operator{In, NotIn, Exists, DoesNotExist}[rng.IntN(4)]}
		for range rng.IntN(4) {
			r.Values = append(r.Values, word())
		}
		s.Requirements = append(s.Requirements, r)
	}
	for range rng.IntN(3) {
		s.Spread = append(s.Spread, Spread{Key: "k" + word(), MaxSkew: 1 + rng.Int32N(2), WhenUnsatisfiable: DoNotSchedule + WhenUnsatisfiable(rng.IntN(2))})
	}
	return s
}

// plainForm prints what a spec says, by another road than the encoding.
func plainForm(s ProfileSpec) string {
	var reqs, spread []string
	for _, r := range s.Requirements {
		values := slices.Compact(slices.Sorted(slices.Values(r.Values)))
		reqs = append(reqs, fmt.Sprintf("%q %v %q", r.Key, r.Operator, values))
	}
	for _, sp := range s.Spread {
		spread = append(spread, fmt.Sprintf("%q %d %v", sp.Key, sp.MaxSkew, sp.WhenUnsatisfiable))
	}
	slices.Sort(reqs)
	slices.Sort(spread)
	return fmt.Sprint(reqs, spread, s.Priority, s.Interruption, s.Reclamation)
}

func mustNew(tb testing.TB, s ProfileSpec) *Profile {
	tb.Helper()
	p, err := NewProfile(s)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// TestCanonicalForm: two specs have one canonical form exactly if they say the
// same, in whatever order and however often.
func TestCanonicalForm(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 2))
	for range 20_000 {
		a, b := randomSpec(rng), randomSpec(rng)
		same := plainForm(a) == plainForm(b)
		p, q := mustNew(t, a), mustNew(t, b)
		if p.Equal(q) != same || (p.Fingerprint() == q.Fingerprint()) != same {
			t.Fatalf("seed %d: equal = %v, want %v:\n%+v\n%+v", seed, p.Equal(q), same, a, b)
		}
		rng.Shuffle(len(a.Requirements), func(i, j int) { a.Requirements[i], a.Requirements[j] = a.Requirements[j], a.Requirements[i] })
		rng.Shuffle(len(a.Spread), func(i, j int) { a.Spread[i], a.Spread[j] = a.Spread[j], a.Spread[i] })
		for i := range a.Requirements {
			v := slices.Clone(a.Requirements[i].Values)
			v = append(v, v...)
			rng.Shuffle(len(v), func(i, j int) { v[i], v[j] = v[j], v[i] })
			a.Requirements[i].Values = v
		}
		if !mustNew(t, a).Equal(p) {
			t.Fatalf("seed %d: order or repetition matters in %+v", seed, a)
		}
	}
}

// FuzzForgedSeparators: values with arbitrary text in them never make two
// different requirements look alike.
func FuzzForgedSeparators(f *testing.F) {
	f.Add("k", "a,b", "c", "k", "a", "b,c")
	f.Add("k", "a\u00a0b", "", "k\u00a0a", "b", "")
	f.Fuzz(func(t *testing.T, k1, a1, b1, k2, a2, b2 string) {
		spec := func(k, a, b string) ProfileSpec {
			return ProfileSpec{Requirements: []Requirement{{Key: "x" + k, Operator: In, Values: []string{a, b}}}}
		}
		s, o := spec(k1, a1, b1), spec(k2, a2, b2)
		if s.Validate() != nil || o.Validate() != nil {
			return
		}
		if got, want := mustNew(t, s).Equal(mustNew(t, o)), plainForm(s) == plainForm(o); got != want {
			t.Errorf("equal = %v, want %v: %q and %q", got, want, s.Requirements, o.Requirements)
		}
	})
}

// TestFingerprintCollision: profiles whose fingerprints collide stay apart.
func TestFingerprintCollision(t *testing.T) {
	collide := func(string) uint64 { return 7 }
	a, b := build(ProfileSpec{Priority: 1}, collide), build(ProfileSpec{Priority: 2}, collide)
	if a.Fingerprint() != b.Fingerprint() || a.Equal(b) {
		t.Errorf("fingerprints %d and %d, equal %v", a.Fingerprint(), b.Fingerprint(), a.Equal(b))
	}
	if zero := build(ProfileSpec{}, func(string) uint64 { return 0 }); zero.Fingerprint() == 0 {
		t.Error("a profile has the fingerprint that says: no stamp")
	}
}

// TestWithoutSame strips the one requirement and nothing else.
func TestWithoutSame(t *testing.T) {
	in := Requirement{Key: "zone", Operator: In, Values: []string{"a"}}
	spread := []Spread{{Key: "zone", MaxSkew: 1, WhenUnsatisfiable: DoNotSchedule}, {Key: "host", MaxSkew: 1, WhenUnsatisfiable: ScheduleAnyway}}
	p := mustNew(t, ProfileSpec{Requirements: []Requirement{{Key: "rack", Operator: Same}, in}, Spread: spread, Priority: 3})
	plain := mustNew(t, ProfileSpec{Requirements: []Requirement{in}, Spread: spread, Priority: 3})
	if !p.WithoutSame().Equal(plain) || p.Same().Key != "rack" || plain.Same() != nil || plain.WithoutSame() != plain {
		t.Errorf("without Same: %+v", p.WithoutSame().Requirements())
	}
	if p.HardSpread() != nil || len(plain.HardSpread()) != 1 || plain.HardSpread()[0].Key != "zone" {
		t.Errorf("hard spread is %v with Same, %v without", p.HardSpread(), plain.HardSpread())
	}
}

// TestFolded replaces the one requirement by what it says of one machine.
func TestFolded(t *testing.T) {
	zone := Requirement{Key: "zone", Operator: In, Values: []string{"a"}}
	rack := func(op Operator, values ...string) Requirement {
		return Requirement{Key: "rack", Operator: op, Values: values}
	}
	for _, c := range []struct{ same, want Requirement }{
		{rack(Same), rack(Exists)},
		{rack(Same, "r2", "r1"), rack(In, "r1", "r2")},
	} {
		p := mustNew(t, ProfileSpec{Requirements: []Requirement{zone, c.same, rack(NotIn, "r9")}, Priority: 3})
		want := mustNew(t, ProfileSpec{Requirements: []Requirement{zone, c.want, rack(NotIn, "r9")}, Priority: 3})
		fold := p.Folded()
		if !fold.Equal(want) || fold.Fingerprint() != want.Fingerprint() || fold.Same() != nil || fold.Folded() != fold || fold.WithoutSame() != fold {
			t.Errorf("%v folds to %v, want %v", p.Requirements(), fold.Requirements(), want.Requirements())
		}
		if r := fold.WasSame(); r == nil || r.Operator != c.want.Operator || r.Key != "rack" || p.WasSame() != nil || want.WasSame() != nil {
			t.Errorf("%v stands for Same", r)
		}
	}
	if p := mustNew(t, ProfileSpec{}); p.Folded() != p {
		t.Error("a profile without Same is not its own fold")
	}
}

// TestSpecFaults: every fault is reported, with its path.
func TestSpecFaults(t *testing.T) {
	spec := ProfileSpec{
		Requirements: []Requirement{
			{Key: "a", Operator: Same}, {Key: "b", Operator: Same}, {Key: "", Operator: In}, {Key: "c", Operator: 99}, {Key: "d"},
			{Key: "e", Operator: Gt, Values: []string{"1", "2"}}, {Key: "f", Operator: Lt, Values: []string{"x"}},
		},
		Spread:       []Spread{{Key: "", MaxSkew: 0, WhenUnsatisfiable: 7}},
		Interruption: 28, Reclamation: 255,
	}
	var paths []string
	for _, f := range spec.Validate() {
		paths = append(paths, f.Path)
	}
	want := []string{
		"requirements[1]", "requirements[2].key", "requirements[3].operator", "requirements[4].operator",
		"requirements[5].values", "requirements[6].values[0]", "spread[0].topologyKey", "spread[0].maxSkew",
		"spread[0].whenUnsatisfiable", "interruptionPenalty", "reclamationPenalty",
	}
	if !slices.Equal(paths, want) {
		t.Errorf("faults at %q, want %q", paths, want)
	}
	if _, err := NewProfile(spec); err == nil || !strings.Contains(err.Error(), "requirements[1]: a second Same") {
		t.Errorf("error is %v", err)
	}
}

// TestOperators goes through the table of operators.
func TestOperators(t *testing.T) {
	for _, c := range []struct {
		op      Operator
		values  string
		value   string
		present bool
		want    bool
	}{
		{In, "a,b", "a", true, true}, {In, "a,b", "c", true, false}, {In, "a", "", false, false}, {In, "", "a", true, false},
		{NotIn, "a", "a", true, false}, {NotIn, "a", "b", true, true}, {NotIn, "a", "", false, true},
		{Exists, "", "", true, true}, {Exists, "", "", false, false}, {DoesNotExist, "", "", false, true}, {DoesNotExist, "", "", true, false},
		{Same, "", "x", true, true}, {Same, "", "", false, false}, {Same, "a", "x", true, false}, {Same, "a", "a", true, true},
		{Gt, "3", "4", true, true}, {Gt, "3", "3", true, false}, {Gt, "3", "x", true, false}, {Gt, "3", "4", false, false}, {Gt, "x", "4", true, false},
		{Lt, "3", "-4", true, true}, {Lt, "3", "3", true, false}, {OpUnspecified, "a", "a", true, false}, {99, "a", "a", true, false},
	} {
		r := Requirement{Operator: c.op}
		if c.values != "" {
			r.Values = strings.Split(c.values, ",")
		}
		if got := r.Matches(c.value, c.present); got != c.want {
			t.Errorf("%v %q on %q (present %v): %v", c.op, r.Values, c.value, c.present, got)
		}
	}
}
