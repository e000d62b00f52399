package ledgers

import (
	"cmp"
	"slices"

	"github.com/tonnage/tonnage/engine/model"
)

// ShortfallsReportedMax is how many shortfalls are reported at most.
const ShortfallsReportedMax = 100

// Shortfall is demand of one profile that this shard could not meet and could
// not preempt for, all Needs of the profile together.
type Shortfall struct {
	Profile   *model.Profile
	Deficit   model.Resources
	AgeCycles int
	Needs     int
}

// Shortfalls is the ledger of unresolved demand by fingerprint.
type Shortfalls struct {
	open  map[uint64]*shortfall
	dims  []string // of the deficits
	cycle uint64
	// recent are entries that the running cycle has seen.
	recent [recentSlots]*shortfall
}

type shortfall struct {
	profile *model.Profile
	deficit []int64         // over dims
	beyond  model.Resources // what no machine offers
	age     int
	needs   int
	seen    uint64
}

func newShortfalls() Shortfalls { return Shortfalls{open: map[uint64]*shortfall{}} }

// lacking is what the ledger reads of a plan.
type lacking interface {
	Len() int
	Satisfied(i int) bool
	Fold(i int) int32
	AwaitsDrain(i int) bool
	Profile(i int) *model.Profile
	Dims() []string
	AddDeficit(sum []int64, i int)
	Unoffered(i int) model.Resources
}

// record takes over what a plan left unresolved: unsatisfied Needs for which
// not enough is draining either. Members of a fold count once. A cycle may
// leave hundreds of thousands of Needs short: sums are made in place, and
// memory is taken per profile, not per Need.
func (l *Shortfalls) record(plan lacking) {
	l.cycle++
	l.dims = append(l.dims[:0], plan.Dims()...)
	for i := range plan.Len() {
		if plan.Satisfied(i) || int(plan.Fold(i)) != i || plan.AwaitsDrain(i) {
			continue
		}
		x := l.entry(plan.Profile(i))
		x.needs++
		plan.AddDeficit(x.deficit, i)
		if beyond := plan.Unoffered(i); len(beyond) > 0 {
			x.addBeyond(beyond)
		}
	}
	clear(l.recent[:])
	for k, x := range l.open {
		if x.seen != l.cycle {
			delete(l.open, k)
		}
	}
}

// shortfallNamesMax is the most names of resources that no machine offers in one
// shortfall; further ones, which only rows of several clusters can bring, are not
// reported.
const shortfallNamesMax = 4 * model.UnofferedNamesMax

// addBeyond adds what a row lacks under names that no machine offers.
func (x *shortfall) addBeyond(lacks model.Resources) {
	if x.beyond = x.beyond.Add(lacks); len(x.beyond) > shortfallNamesMax {
		x.beyond = x.beyond[:shortfallNamesMax]
	}
}

// entry returns the entry of a profile, empty when it is the first of the
// cycle.
func (l *Shortfalls) entry(p *model.Profile) *shortfall {
	fingerprint := p.Fingerprint()
	slot := &l.recent[fingerprint%recentSlots]
	if x := *slot; x != nil && x.profile.Fingerprint() == fingerprint {
		return x
	}
	x := l.open[fingerprint]
	if x == nil {
		x = &shortfall{profile: p}
		l.open[fingerprint] = x
	}
	*slot = x
	if x.seen != l.cycle {
		x.seen = l.cycle
		x.age++
		x.needs, x.beyond = 0, nil
		x.deficit = slices.Grow(x.deficit[:0], len(l.dims))[:len(l.dims)]
		clear(x.deficit)
	}
	return x
}

// Count returns how many profiles are short.
func (l *Shortfalls) Count() int { return len(l.open) }

// Visit visits the profiles that are short, with their age in cycles, in no order.
func (l *Shortfalls) Visit(do func(p *model.Profile, age int)) {
	for _, x := range l.open {
		do(x.profile, x.age)
	}
}

// resources names the dimensions of a sum.
func (l *Shortfalls) resources(sum []int64) model.Resources {
	amounts := make([]model.Amount, 0, len(sum))
	for d, v := range sum {
		if v > 0 {
			amounts = append(amounts, model.Amount{Name: l.dims[d], Value: v})
		}
	}
	return model.NewResources(amounts...)
}

// Report returns the worst: priority descending, older first, at most
// ShortfallsReportedMax.
func (l *Shortfalls) Report() []Shortfall {
	all := make([]*shortfall, 0, len(l.open))
	for _, x := range l.open {
		all = append(all, x)
	}
	slices.SortFunc(all, func(a, b *shortfall) int {
		return cmp.Or(cmp.Compare(b.profile.Priority(), a.profile.Priority()), cmp.Compare(b.age, a.age),
			cmp.Compare(a.profile.Fingerprint(), b.profile.Fingerprint()))
	})
	out := make([]Shortfall, 0, min(len(all), ShortfallsReportedMax))
	for _, x := range all[:cap(out)] {
		out = append(out, Shortfall{x.profile, l.resources(x.deficit).Add(x.beyond), x.age, x.needs})
	}
	return out
}
