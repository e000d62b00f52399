package advice

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/world"
)

// For computes what would help a Need of a world. It makes up to triesMax decisions, one at a time; the
// first looks at everything, the others at what differs. When the context's time is up, what was found
// until then is the answer; it ends after the decision that is being made. The error is a Need that does not exist, a
// limit that the world passes, or that of a context that was cancelled, or was over before the first decision.
func For(ctx context.Context, w *world.World, name string) (*Advice, error) {
	return InParts(ctx, w, name, func(Part) {})
}

// Part is a part of the work that takes milliseconds: of the tables, or a stage of a decision.
type Part struct {
	Stage model.Stage // StageSnapshot to StagePhase3; StageReconcile = the tables are built
	First bool        // the decision looks at everything
}

// InParts is For. It calls next before each part of the work, which may wait.
func InParts(ctx context.Context, w *world.World, name string, next func(Part)) (*Advice, error) {
	b, err := newBench(ctx, w, name, next)
	if err != nil {
		return nil, err
	}
	defer b.close()
	s := search{bench: b, advice: Advice{Need: name}, adder: w.Adder()}
	helped, err := b.start(func(plan *engine.Plan, at int) {
		s.advice.Satisfied = plan.Satisfied(at)
		s.deficit = plan.Need(at).Deficit
		s.claims(plan)
	})
	switch {
	case err != nil:
		return nil, err
	case helped:
		s.advice.Waiting = !s.advice.Satisfied
	default:
		for _, step := range []func() error{s.priority, s.relax, s.capacity} {
			if err := step(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
				return nil, err
			}
		}
	}
	s.advice.Tries, s.advice.Exhausted = b.tries, b.tries >= triesMax || s.over()
	return &s.advice, nil
}

// search looks for what helps.
type search struct {
	*bench
	advice  Advice
	deficit model.Resources
	taken   map[string]bool // ids of machines that other Needs claim, or that others are bound to
	adder   *world.Adder
}

// claims notes which machines the Need cannot have without taking them from somebody.
func (s *search) claims(plan *engine.Plan) {
	s.taken = map[string]bool{}
	for i := range plan.Len() {
		if s.place(plan, i) == s.target {
			continue
		}
		for _, r := range plan.Need(i).Claimed {
			s.taken[s.supply.ID(r)] = true
		}
	}
	for i := range s.w.Machines {
		m := &s.w.Machines[i]
		if m.State.Bound() && m.Cluster != s.need().Cluster {
			s.taken[m.ID] = true
		}
	}
}

// left tells whether more decisions may be made.
func (s *search) left() bool { return s.tries < triesMax && !s.over() }

// over tells whether the time is up.
func (s *search) over() bool { return errors.Is(s.ctx.Err(), context.DeadlineExceeded) }

// priority looks for the lowest priority that helps, among those at which the order of Needs differs.
func (s *search) priority() error {
	n := s.need()
	now := n.Profile.Priority()
	seen := map[int32]bool{}
	var list []int32
	for i := range s.w.Needs {
		p := s.w.Needs[i].Profile.Priority()
		for _, at := range []int32{p, satAdd(p)} {
			if at > now && !seen[at] {
				seen[at] = true
				list = append(list, at)
			}
		}
	}
	slices.Sort(list)
	try := func(p int32) (found *Priority, err error) {
		need, ok := with(n, func(spec *model.ProfileSpec) { spec.Priority = p })
		if !ok {
			return nil, nil
		}
		var e Effect
		helps, err := s.try(change{need: need}, func(plan *engine.Plan, at int) { e = s.effect(plan, at) })
		if err != nil || !helps {
			return nil, err
		}
		return &Priority{Priority: p, Effect: e, edits: world.Edits{Needs: []world.Need{*need}}}, nil
	}
	return least(len(list), s.left, func(i int) (bool, error) {
		found, err := try(list[i])
		if found != nil && (s.advice.Priority == nil || found.Priority < s.advice.Priority.Priority) {
			s.advice.Priority = found
		}
		return found != nil, err
	})
}

func satAdd(p int32) int32 {
	if p == math.MaxInt32 {
		return p
	}
	return p + 1
}

// least finds the first of so many choices that is good, where those behind a good one are good too. The last
// is looked at first: where it is bad, all are.
func least(n int, left func() bool, good func(int) (bool, error)) error {
	if n == 0 || !left() {
		return nil
	}
	ok, err := good(n - 1)
	if err != nil || !ok {
		return err
	}
	low, high := 0, n-1 // high is good
	for low < high && left() {
		middle := (low + high) / 2
		ok, err := good(middle)
		if err != nil {
			return err
		}
		if ok {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return nil
}

// relax leaves out one requirement after the other.
func (s *search) relax() error {
	n := s.need()
	type relaxed struct {
		says, key string
		need      *world.Need
	}
	var list []relaxed
	for i := range n.Profile.Requirements() {
		q := &n.Profile.Requirements()[i]
		if need, ok := with(n, func(spec *model.ProfileSpec) { spec.Requirements = slices.Delete(spec.Requirements, i, i+1) }); ok {
			key := q.Key
			if slices.ContainsFunc(n.Profile.Requirements(), func(o model.Requirement) bool {
				return o.Key == key && world.SaysRequirement(&o) != world.SaysRequirement(q)
			}) {
				key = ""
			}
			list = append(list, relaxed{world.SaysRequirement(q), key, need})
		}
	}
	for i := range n.Profile.Spread() {
		of := &n.Profile.Spread()[i]
		if need, ok := with(n, func(spec *model.ProfileSpec) { spec.Spread = slices.Delete(spec.Spread, i, i+1) }); ok && of.WhenUnsatisfiable == model.DoNotSchedule {
			list = append(list, relaxed{"spread over " + of.Key, "", need})
		}
	}
	if len(n.MinUnit) > 0 {
		need := *n
		need.MinUnit = nil
		list = append(list, relaxed{"the minimum unit", "", &need})
	}
	for _, x := range list {
		if !s.left() {
			return nil
		}
		var e Effect
		helps, err := s.try(change{need: x.need}, func(plan *engine.Plan, at int) { e = s.effect(plan, at) })
		if err != nil {
			return err
		}
		if helps {
			s.advice.Relax = append(s.advice.Relax, Relaxation{Leave: x.says, Key: x.key, Effect: e, edits: world.Edits{Needs: []world.Need{*x.need}}})
		}
	}
	return nil
}

// kind is a kind of machines that could be added.
type kind struct {
	like   *model.Machine
	domain string
	// least is how many are needed at least by what is missing, and cost what these are an hour.
	least int
	cost  float64
}

// kinds lists the kinds of machines that exist and suit the Need, the cheapest first. With a Same
// requirement each domain has its own, of those that hold most that is free.
func (s *search) kinds() []kind {
	n := s.need()
	same := n.Profile.Same()
	missing := map[string]model.Resources{"": s.deficit}
	if same != nil {
		missing = s.domains(same.Key)
	}
	type identity struct {
		instanceType, zone, domain string
		capacity                   model.CapacityType
		price, risk                float64
	}
	seen := map[identity]bool{}
	var out []kind
	for i := range s.w.Machines {
		m := &s.w.Machines[i]
		offers := m.EffectiveAllocatable()
		if m.State == model.Deleting || m.State == model.Failed || !n.Profile.Matches(m) || !offers.Covers(n.MinUnit) {
			continue
		}
		domain := ""
		if same != nil {
			domain, _ = m.Attribute(same.Key)
		}
		lacks, wanted := missing[domain]
		id := identity{m.InstanceType, m.Zone, domain, m.CapacityType, m.PricePerHour, m.InterruptionProbability}
		if !wanted || seen[id] {
			continue
		}
		seen[id] = true
		if count := countFor(lacks, offers); count <= countMax {
			out = append(out, kind{like: m, domain: domain, least: count, cost: float64(count) * m.PricePerHour})
		}
	}
	slices.SortStableFunc(out, func(a, b kind) int { return cmp.Or(cmp.Compare(a.cost, b.cost), a.least-b.least) })
	return out[:min(len(out), kindsMax)]
}

// countFor returns how many machines cover what is missing, at least 1; more than countMax when they
// never do.
func countFor(lacks, offers model.Resources) int {
	count := 1
	for _, a := range lacks {
		of := offers.Get(a.Name)
		if of == 0 {
			return countMax + 1
		}
		if n := (a.Value-1)/of + 1; n > countMax {
			return countMax + 1
		} else if int(n) > count {
			count = int(n)
		}
	}
	return count
}

// domains returns, of the domains that have most that the Need could have at once, what they lack.
func (s *search) domains(key string) map[string]model.Resources {
	n := s.need()
	sums := map[string]model.Resources{}
	for i := range s.w.Machines {
		m := &s.w.Machines[i]
		value, there := m.Attribute(key)
		if !there || m.State == model.Deleting || m.State == model.Failed || !n.Profile.Matches(m) || !m.EffectiveAllocatable().Covers(n.MinUnit) {
			continue
		}
		if _, known := sums[value]; !known {
			sums[value] = nil
		}
		if !s.taken[m.ID] {
			sums[value] = sums[value].Add(m.EffectiveAllocatable())
		}
	}
	share := func(value string) float64 {
		least := 1.0
		for _, a := range n.Aggregate {
			least = min(least, float64(sums[value].Get(a.Name))/float64(a.Value))
		}
		return least
	}
	var values []string
	for value := range sums {
		values = append(values, value)
	}
	slices.SortFunc(values, func(a, b string) int { return cmp.Or(-cmp.Compare(share(a), share(b)), strings.Compare(a, b)) })
	out := map[string]model.Resources{}
	for _, value := range values[:min(len(values), domainsMax)] {
		out[value] = n.Aggregate.Sub(sums[value])
	}
	return out
}

// capacity looks for the least number of machines of each kind that helps.
func (s *search) capacity() (failed error) {
	for _, k := range s.kinds() {
		found, err := s.least(&k)
		if found != nil {
			s.advice.Capacity = append(s.advice.Capacity, *found)
		}
		if err != nil {
			failed = err
			break
		}
	}
	slices.SortStableFunc(s.advice.Capacity, func(a, b Capacity) int {
		return cmp.Or(cmp.Compare(a.AddedPerHour, b.AddedPerHour), a.Count-b.Count)
	})
	s.advice.Capacity = s.advice.Capacity[:min(len(s.advice.Capacity), optionsMax)]
	return failed
}

// least finds how many machines of a kind help; nil = not up to a bound.
func (s *search) least(k *kind) (found *Capacity, err error) {
	most := min(2*countFor(s.need().Aggregate, k.like.EffectiveAllocatable())+len(s.deficit), countMax)
	machines := s.adder.More(k.like, max(most, k.least))
	try := func(count int) (bool, error) {
		c := Capacity{
			Count: count, Like: k.like.ID, InstanceType: k.like.InstanceType, CapacityType: k.like.CapacityType.String(), Zone: k.like.Zone, Domain: k.domain,
			AddedPerHour: math.Round(float64(count)*k.like.PricePerHour*1e6) / 1e6, edits: world.Edits{Machines: machines[:count]},
		}
		helps, err := s.try(change{machines: c.edits.Machines}, func(plan *engine.Plan, at int) { c.Effect = s.effect(plan, at) })
		if helps && err == nil && (found == nil || count < found.Count) {
			found = &c
		}
		return helps, err
	}
	low, high := 1, k.least // low−1 is known not to help
	for s.left() {
		helps, err := try(high)
		if err != nil {
			return found, err
		}
		if helps {
			break
		}
		if low = high + 1; high >= most {
			return nil, nil
		}
		high = min(2*high, most)
	}
	if found == nil {
		return nil, nil
	}
	// What is missing says how many are needed: one less is tried first.
	for probe := found.Count - 1; probe >= low && s.left(); probe = (low + found.Count - 1) / 2 {
		helps, err := try(probe)
		if err != nil {
			return found, err
		}
		if !helps {
			low = probe + 1
		}
		if low >= found.Count {
			break
		}
	}
	return found, nil
}

// Command returns the change as a question to what-if, where flags can say it.
func (c *Capacity) Command() string { return fmt.Sprintf("--add %s=%d", c.Like, c.Count) }

// Command returns the change as a question to what-if.
func (p *Priority) Command(need string) string {
	return fmt.Sprintf("--priority %s=%d", need, p.Priority)
}

// Command returns the change as a question to what-if, "" where flags cannot say it.
func (r *Relaxation) Command(need string) string {
	if r.Key == "" {
		return ""
	}
	return fmt.Sprintf("--relax %s=%s", need, r.Key)
}
