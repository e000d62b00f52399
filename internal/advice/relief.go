package advice

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/world"
)

// Limits of the search for relief.
const (
	reliefNeedsMax = 256 // Needs that are short, the first in their order, for which kinds are counted
	reliefKindsSee = 512 // kinds of machines that are looked at
	reliefKindsTry = 4   // of which so many are tried, and more of them while none has helped
	reliefKindsMax = 16  // but no more than that
	reliefNamesMax = 8   // names of Needs that are told
)

// Relief is machines of one kind that would satisfy many of the Needs that are short.
type Relief struct {
	Short     int       `json:"short"`              // Needs that are short and do not only wait for drains
	Satisfies int       `json:"satisfies"`          // so many of them would be satisfied, or wait for drains only
	Needs     []string  `json:"needs,omitempty"`    // their names, by priority, the first reliefNamesMax
	Capacity  *Capacity `json:"capacity,omitempty"` // by these machines and no fewer; absent = no kind helps
	Tries     int       `json:"decisions"`
	Exhausted bool      `json:"exhausted,omitempty"` // the search ended early: there may be more that helps
}

// ForShort looks for the kind of machines of which some more satisfy the most Needs that are short, and for the least number of them that
// satisfies as many. Of two kinds that satisfy as many the cheaper one is the answer. It ends, and calls next, as InParts does.
func ForShort(ctx context.Context, w *world.World, next func(Part)) (*Relief, error) {
	if len(w.Needs) == 0 {
		return &Relief{}, nil
	}
	b, err := newBench(ctx, w, "", next)
	if err != nil {
		return nil, err
	}
	defer b.close()
	s := relief{bench: b, adder: w.Adder(), short: map[int]bool{}}
	if _, err := b.start(s.look); err != nil {
		return nil, err
	}
	s.best.Short = len(s.short)
	for n, k := range s.kinds() {
		if n >= reliefKindsTry && s.best.Satisfies > 0 || s.tries >= triesMax {
			break
		}
		if err := s.try(&k); err != nil {
			if !errors.Is(err, context.DeadlineExceeded) {
				return nil, err
			}
			break
		}
	}
	s.best.Tries, s.best.Exhausted = b.tries, b.tries >= triesMax || errors.Is(ctx.Err(), context.DeadlineExceeded)
	return &s.best, nil
}

type relief struct {
	*bench
	adder *world.Adder
	best  Relief
	short map[int]bool // by place in the world
	first []shortNeed  // of them
}

type shortNeed struct {
	need    *world.Need
	deficit model.Resources
}

// look notes which Needs are short.
func (s *relief) look(plan *engine.Plan, _ int) {
	for i := range plan.Len() {
		if plan.Satisfied(i) || plan.AwaitsDrain(i) {
			continue
		}
		place := s.place(plan, i)
		s.short[place] = true
		if len(s.first) < reliefNeedsMax {
			s.first = append(s.first, shortNeed{&s.w.Needs[place], plan.Need(i).Deficit})
		}
	}
}

type reliefKind struct {
	like  *model.Machine
	needs int     // that it fits
	count int     // machines that cover what these lack
	cost  float64 // of them, an hour
}

// kinds lists the kinds of machines that fit the most Needs, the cheapest of them first.
func (s *relief) kinds() []reliefKind {
	type identity struct {
		instanceType, zone string
		capacity           model.CapacityType
		price, risk        float64
	}
	seen := map[identity]bool{}
	var out []reliefKind
	for i := range s.w.Machines {
		m := &s.w.Machines[i]
		id := identity{m.InstanceType, m.Zone, m.CapacityType, m.PricePerHour, m.InterruptionProbability}
		if m.State == model.Deleting || m.State == model.Failed || seen[id] || len(seen) >= reliefKindsSee {
			continue
		}
		seen[id] = true
		k := reliefKind{like: m}
		offers := m.EffectiveAllocatable()
		for _, n := range s.first {
			if !n.need.Profile.Matches(m) || !offers.Covers(n.need.MinUnit) {
				continue
			}
			if count := countFor(n.deficit, offers); k.count+count <= countMax {
				k.needs++
				k.count += count
			}
		}
		if k.cost = float64(k.count) * m.PricePerHour; k.needs > 0 {
			out = append(out, k)
		}
	}
	slices.SortStableFunc(out, func(a, b reliefKind) int { return cmp.Or(b.needs-a.needs, cmp.Compare(a.cost, b.cost)) })
	return out[:min(len(out), reliefKindsMax)]
}

// try finds the least number of machines of a kind that satisfies as many Needs as enough of them do.
func (s *relief) try(k *reliefKind) error {
	machines := s.adder.More(k.like, k.count)
	satisfies := func(count int) (met []int, err error) {
		_, err = s.bench.try(change{machines: machines[:count]}, func(plan *engine.Plan, _ int) {
			for i := range plan.Len() {
				if place := s.place(plan, i); s.short[place] && (plan.Satisfied(i) || plan.AwaitsDrain(i)) {
					met = append(met, place)
				}
			}
		})
		return met, err
	}
	met, err := satisfies(k.count)
	most := len(met)
	if err != nil || most == 0 || most < s.best.Satisfies {
		return err
	}
	low, high := 1, k.count
	for low < high && s.tries < triesMax && err == nil {
		var now []int
		middle := (low + high) / 2
		if now, err = satisfies(middle); err != nil {
			break
		}
		if len(now) >= most {
			high, met = middle, now
		} else {
			low = middle + 1
		}
	}
	// high has been tried, whether or not the time was enough for less.
	cost := math.Round(float64(high)*k.like.PricePerHour*1e6) / 1e6
	if most > s.best.Satisfies || cost < s.best.Capacity.AddedPerHour {
		s.best.Satisfies, s.best.Needs = most, s.names(met)
		s.best.Capacity = &Capacity{
			Count: high, Like: k.like.ID, InstanceType: k.like.InstanceType, CapacityType: k.like.CapacityType.String(), Zone: k.like.Zone,
			AddedPerHour: cost, edits: world.Edits{Machines: machines[:high]},
		}
	}
	return err
}

// names returns what some Needs are called, by priority.
func (s *relief) names(places []int) []string {
	slices.SortFunc(places, func(a, b int) int {
		return cmp.Or(cmp.Compare(s.w.Needs[b].Profile.Priority(), s.w.Needs[a].Profile.Priority()), a-b)
	})
	out := make([]string, 0, reliefNamesMax)
	for _, place := range places[:min(len(places), reliefNamesMax)] {
		out = append(out, s.w.Needs[place].Name)
	}
	return out
}
