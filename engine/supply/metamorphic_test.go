package supply_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
	"github.com/tonnage/tonnage/internal/fleet"
)

// describe prints everything that a table says through its API, by id and by
// name rather than by number, so that tables with different histories compare.
func describe(t *supply.Table, profiles []*model.Profile) string {
	var b strings.Builder
	ids := func(rows []uint32) (out []string) {
		for _, r := range rows {
			out = append(out, t.ID(columnar.Row(r)))
		}
		sort.Strings(out)
		return out
	}
	fmt.Fprintln(&b, "machines", t.Len())
	for s := range model.State(model.NumStates) {
		fmt.Fprintln(&b, s, t.Count(s), ids(t.InState(s).ToArray()))
	}
	classes := map[uint32][]string{}
	for r := range t.All() {
		m := t.Get(r)
		fmt.Fprintf(&b, "%+v\n", m)
		classes[t.Class(r)] = append(classes[t.Class(r)], m.ID)
	}
	for _, members := range slices.SortedFunc(maps.Values(classes), slices.Compare) {
		r, _ := t.Lookup(members[0])
		c := t.ClassInfo(t.Class(r))
		fmt.Fprintln(&b, "class", members, c.InstanceType, c.Price, c.Probability, c.Count, len(c.Matchers) > 0, vector(t, c.Vector))
	}
	for i, p := range profiles {
		m := t.Matcher(p)
		for s := range model.State(model.NumStates) {
			fmt.Fprintln(&b, "profile", i, s, t.CountMatching(s, m), ids(t.Matching(s, m).ToArray()))
		}
		describeDomains(&b, t, p, m, ids)
	}
	return b.String()
}

// describeDomains prints the values of the keys that a profile looks at, and
// its machines by domain.
func describeDomains(b *strings.Builder, t *supply.Table, p *model.Profile, m uint32, ids func([]uint32) []string) {
	for _, q := range p.Requirements() {
		for r := range t.All() {
			fmt.Fprint(b, t.ValueString(t.Values(t.Key(q.Key))[r]), " ")
		}
		fmt.Fprintln(b, q.Key)
	}
	if p.Same() == nil {
		return
	}
	byValue := map[string]uint32{}
	for r := range t.All() {
		if v, ok := t.Domain(m, r); ok {
			byValue[t.ValueString(v)] = v
		}
	}
	for _, text := range slices.Sorted(maps.Keys(byValue)) {
		for s := range model.State(model.NumStates) {
			var rows []uint32
			for _, r := range t.Matching(s, m).ToArray() {
				if v, ok := t.Domain(m, columnar.Row(r)); ok && v == byValue[text] {
					rows = append(rows, r)
				}
			}
			fmt.Fprintln(b, "domain", text, s, ids(rows))
		}
	}
}

// vector prints a vector by dimension name.
func vector(t *supply.Table, values []int64) string {
	var v []model.Amount
	for i, x := range values {
		v = append(v, model.Amount{Name: t.Dims()[i], Value: x})
	}
	return fmt.Sprint(model.NewResources(v...))
}

// rebuilt returns a table made from scratch with the same machines, one that
// remembers no verdict.
func rebuilt(tb testing.TB, machines map[string]model.Machine, profiles []*model.Profile, rng *rand.Rand) *supply.Table {
	tb.Helper()
	t := supply.New().Forgetful()
	early := rng.IntN(2) == 0
	if early {
		if err := t.Use(profiles); err != nil {
			tb.Fatal(err)
		}
	}
	order := slices.Sorted(maps.Keys(machines))
	rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	for _, id := range order {
		m := machines[id]
		if err := t.Put(&m); err != nil {
			tb.Fatal(err)
		}
	}
	if err := t.Use(profiles); err != nil {
		tb.Fatal(err)
	}
	return t
}

// script makes random edits to a table, and the same ones to a plain map.
type script struct {
	*rand.Rand
	t        *supply.Table
	want     map[string]model.Machine
	machines []model.Machine
	profiles []*model.Profile
}

func newScript(seed int64) *script {
	s := &script{Rand: rand.New(rand.NewPCG(uint64(seed), 7)), t: supply.New(), want: map[string]model.Machine{}}
	for i := range int64(2) {
		w := fleet.Random(2*seed+i, fleet.Small)
		s.machines = append(s.machines, w.Machines...)
		for _, n := range w.Needs {
			s.profiles = append(s.profiles, n.Profile, n.Profile.WithoutSame(), withLongLists(n.Profile))
		}
	}
	return s
}

// withLongLists returns a profile that lists many more values, which no machine
// has: so many that what they say of values is worth remembering.
func withLongLists(p *model.Profile) *model.Profile {
	var spec model.ProfileSpec
	for _, r := range p.Requirements() {
		if r.Operator == model.In || r.Operator == model.NotIn {
			r.Values = slices.Clone(r.Values)
			for i := range 60 {
				r.Values = append(r.Values, fmt.Sprint("nothing-", i))
			}
		}
		spec.Requirements = append(spec.Requirements, r)
	}
	out, err := model.NewProfile(spec)
	if err != nil {
		panic(err)
	}
	return out
}

// some returns a machine of the table, false when there is none.
func (s *script) some() (columnar.Row, model.Machine, bool) {
	m, ok := s.want[s.machines[s.IntN(len(s.machines))].ID]
	if !ok {
		return 0, m, false
	}
	r, ok := s.t.Lookup(m.ID)
	return r, m, ok
}

func (s *script) step() error {
	switch k := s.IntN(12); k {
	case 0, 1, 2, 3:
		m := s.machines[s.IntN(len(s.machines))]
		m.PricePerHour = []float64{m.PricePerHour, 0, 2.5}[s.IntN(3)]
		s.want[m.ID] = m
		return s.t.Put(&m)
	case 4:
		id := s.machines[s.IntN(len(s.machines))].ID
		_, there := s.want[id]
		if s.t.Remove(id) != there {
			return fmt.Errorf("removal of %q: was there = %v", id, there)
		}
		delete(s.want, id)
	case 5:
		return s.t.Use(s.someProfiles())
	case 6:
		s.t.Order()
	default:
		if r, m, ok := s.some(); ok {
			return s.change(k, r, m)
		}
	}
	return nil
}

func (s *script) someProfiles() (out []*model.Profile) {
	for _, p := range s.profiles {
		if s.IntN(3) == 0 {
			out = append(out, p)
		}
	}
	return out
}

// change makes one of the changes that keep a machine.
func (s *script) change(k int, r columnar.Row, m model.Machine) error {
	switch k {
	case 7:
		m.Assigned = model.Assignment{Priority: s.Int32(), Fingerprint: s.Uint64N(3), Group: fmt.Sprint("g", s.IntN(3)), Reclamation: model.Bucket(s.IntN(model.NumBuckets))}
		s.t.Stamp(r, m.Assigned)
	case 8:
		m.Reservation = model.Reservation{}
		if s.IntN(2) == 0 {
			m.Reservation.Owner.Cluster, m.Reservation.Deadline = "owner", s.Int64N(9)
		}
		s.t.Reserve(r, m.Reservation)
	case 9:
		m.PricePerHour, m.InterruptionProbability = float64(s.IntN(3)), float64(s.IntN(3))/2
		if err := s.t.SetPrice(r, m.PricePerHour, m.InterruptionProbability); err != nil {
			return err
		}
	default:
		to := model.State(s.IntN(model.NumStates))
		if err := s.t.Transition(r, to, "c1", 77); (err == nil) != model.LegalMove(m.State, to) {
			return fmt.Errorf("%s -> %s: %w", m.State, to, err)
		}
		m = s.t.Get(r) // what a move sets is another test's business
	}
	s.want[m.ID] = m
	return nil
}

// seedsOf is how many scripts a test plays, a fifth of them where time is short.
func seedsOf(n int64) int64 {
	if testing.Short() {
		return n / 5
	}
	return n
}

// TestEditedTableEqualsRebuiltOne: after any script of edits, everything that
// the table says is what a table says that was filled with the result.
func TestEditedTableEqualsRebuiltOne(t *testing.T) {
	start := time.Now().UnixNano()
	for i := range seedsOf(60) {
		seed := (start + i) & 0xffffff
		s := newScript(seed)
		for round := range 4 {
			for range 150 {
				if err := s.step(); err != nil {
					t.Fatalf("seed %d, round %d: %v", seed, round, err)
				}
			}
			profiles := s.someProfiles()
			for range 500 { // long enough for everything else to be let go
				if err := s.t.Use(profiles); err != nil {
					t.Fatalf("seed %d, round %d: %v", seed, round, err)
				}
			}
			other := rebuilt(t, s.want, profiles, s.Rand)
			got, want := describe(s.t, profiles), describe(other, profiles)
			if got != want {
				t.Fatalf("seed %d, round %d: %s", seed, round, firstDifference(got, want))
			}
		}
	}
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range g {
		if i >= len(w) || g[i] != w[i] {
			return fmt.Sprintf("line %d of the edited table is\n%s\nof the rebuilt one\n%s", i, g[i], append(w, "nothing")[min(i, len(w))])
		}
	}
	return "the rebuilt table says more: " + w[len(g)]
}

// TestMatchersAgreeWithTheModel: what the index says is what the model says of
// every record, while profiles come and go.
func TestMatchersAgreeWithTheModel(t *testing.T) {
	start := time.Now().UnixNano()
	for i := range seedsOf(100) {
		seed := (start + i) & 0xffffff
		s := newScript(seed)
		for range 40 {
			for range 10 {
				if err := s.step(); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
			profiles := s.someProfiles()
			if err := s.t.Use(profiles); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			for r := range s.t.All() {
				m := s.t.Get(r)
				want := s.want[m.ID]
				if len(want.Labels) == 0 {
					m.Labels, want.Labels = nil, nil
				}
				if !reflect.DeepEqual(m, want) {
					t.Fatalf("seed %d: machine is\n%+v, want\n%+v", seed, m, want)
				}
				for _, p := range profiles {
					if got, want := s.t.Matching(m.State, s.t.Matcher(p)).Contains(uint32(r)), p.Matches(&m); got != want {
						t.Fatalf("seed %d: %+v matched by %+v: %v, want %v", seed, m, p.Requirements(), got, want)
					}
				}
			}
		}
	}
}
