package acquire

import (
	"cmp"
	"math"
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/cover"
	"github.com/tonnage/tonnage/engine/internal/state"
)

// With AcquireFit a Need chooses among all free machines of a stage at once: those that cover what is
// missing at the least cost, see engine/internal/cover. What costs nothing is taken before, cheapest
// first; so is everything if the stage does not cover what is missing. For a pinned Need, machines that may
// be interrupted have no finite cost and are a stage of their own, with their probability as the cost.
//
// Choices among ample machines are kept for the pass (fitMemo). Hard spread is spread_fit.go. A choice is a
// function of the offers: cost, capacity and number. What is compared, and the order of what is tried, is part
// of the answer; the twin is reference/fit.go and reference/fit_solve.go. Why this machine: engine/explain.go.

// fitSource is the available machines of one class, and in one domain, that a choice may take.
type fitSource struct {
	class uint32
	rank  uint32 // place of the cost, as AcquireCheapest orders it
	offer int32
	count int32
	cost  float64
	has   []int64        // of what is missing, at most what is missing
	rows  []columnar.Row // in the order of acquiring; taken and held ones included
	at    int            // index in rows of the next to take
	ahead int            // the same, of the walk of mixed
}

// fitter is what a worker chooses with.
type fitter struct {
	l       *Worker
	stage   int
	chooser *cover.Chooser
	problem cover.Problem
	byName  []int // the dimensions, sorted by name
	rows    []int // the dimensions that are missing, sorted by name
	sources []fitSource
	active  []int32 // indexes of sources
	left    []int64
	runs    []cover.Run
	vecs    []int64
	used    int // of vecs
	counts  []int
	tied    []fitPick // classes of which the next machine costs as much as that of the best one; see bestHelping
	memo    fitMemo
	// allowsAt reports whether the skew permits one more machine where one is, allowed the same by tuple of the layout at work.
	allowsAt func(columnar.Row) bool
	allowed  []bool
}

// fitterOf returns the worker's fitter.
func (l *Worker) fitterOf() *fitter {
	f := l.Acquiring.fit
	if f == nil {
		f = &fitter{l: l, chooser: cover.New(l.p.Opts.Fit.Lambda, l.p.Opts.Fit.Epsilon)}
		f.problem.Mixed = f.mixed
		f.allowsAt = l.Acquiring.Spread.AllowsAt
		f.memo.clear()
		l.Acquiring.fit = f
	}
	if names := l.p.Snap.Demand.Dims(); len(f.byName) != len(names) {
		f.byName = f.byName[:0]
		for d := range names {
			f.byName = append(f.byName, d)
		}
		slices.SortFunc(f.byName, func(i, j int) int { return cmp.Compare(names[i], names[j]) })
	}
	return f
}

// enter forgets what held for the last pass: the table of the demand may be another one.
func (f *fitter) enter() {
	f.memo.clear()
	f.byName = f.byName[:0]
}

// acquireFit is acquireStage with AcquireFit.
func (l *Worker) acquireFit(need int32, k *state.Kind, stage int) {
	f := l.fitterOf()
	isLeft := f.walkWhile(need, k, stage, func(cost float64) bool { return cost == 0 })
	if isLeft && !f.choose(need, k, stage, true) {
		isLeft = f.walkWhile(need, k, stage, func(cost float64) bool { return !math.IsInf(cost, 1) })
	}
	if isLeft && l.Lacks != 0 && !f.choose(need, k, stage, false) {
		f.walkWhile(need, k, stage, func(float64) bool { return true })
	}
}

// walkWhile acquires as AcquireCheapest does, up to the first machine whose cost is not wanted. It reports
// whether there is one. It helps, so the Need lacks something.
func (f *fitter) walkWhile(need int32, k *state.Kind, stage int, wanted func(cost float64) bool) bool {
	l := f.l
	if k.Same {
		return f.walkInDomain(need, k, stage, wanted)
	}
	for l.Lacks != 0 {
		c, ok := l.p.nextClass(l.p.Ladders[k.Number][stage], k, stage, l.Lacks)
		if !ok {
			return false
		}
		if !wanted(l.p.CostIn(c, k, stage)) {
			return true
		}
		l.Figures.Probes++
		l.acquireHead(c, need, stage)
	}
	return false
}

// walkInDomain is walkWhile in the Need's domain.
func (f *fitter) walkInDomain(need int32, k *state.Kind, stage int, wanted func(cost float64) bool) bool {
	l := f.l
	d := l.DomainsFor(k.Matcher)
	shelves := l.p.shelvesOf(d, need, k)
	for l.Lacks != 0 {
		r := l.nextOnShelves(d, shelves, k, stage)
		if r == columnar.None {
			return false
		}
		if !wanted(l.p.CostIn(l.p.Snap.View.Class[r], k, stage)) {
			return true
		}
		l.ClaimFree(r, need, stage)
	}
	return false
}

// choose acquires the chosen machines of a stage, of those with a finite cost or of the others; false:
// they do not cover what is missing, and nothing is acquired.
func (f *fitter) choose(need int32, k *state.Kind, stage int, finite bool) bool {
	share := f.l.p.Opts.MaxMachineShare
	keeps := !k.Same && share == 0
	if keeps && f.recall(need, stage, finite) {
		return true
	}
	f.begin(stage)
	if k.Same {
		f.listShelves(need, k, finite)
	} else {
		f.listClasses(k, finite)
	}
	if len(f.sources) == 0 {
		return false
	}
	if share > 0 {
		f.keepWithinShare(need, k)
	}
	f.layOffers(k)
	choice, ok := f.chooser.Choose(&f.problem)
	if !ok {
		return false
	}
	if keeps {
		f.remember(need, stage, finite, &choice)
	}
	f.take(need, choice.Counts)
	return true
}

// begin forgets the sources of the choice before, and lists the dimensions that are missing.
func (f *fitter) begin(stage int) {
	f.stage, f.used = stage, 0
	f.sources, f.rows = f.sources[:0], f.rows[:0]
	for _, d := range f.byName {
		if f.l.Missing[d] > 0 {
			f.rows = append(f.rows, d)
		}
	}
}

// listClasses lists the classes that a kind may take from.
func (f *fitter) listClasses(k *state.Kind, finite bool) {
	l, x := f.l, &f.l.p.Free[f.stage]
	costs := l.p.Costs(k, f.stage)
	ladder := f.l.p.Ladders[k.Number][f.stage]
	for i := ladder.Low; i < len(ladder.Steps); i++ {
		s := &ladder.Steps[i]
		for _, c := range s.Classes[:s.Live] {
			if x.Has(c) && l.p.ClassMask[c]&l.Lacks != 0 && k.AcceptsClass(c) {
				f.add(c, costs[c], x.Left[c], x.Rest(c), k, finite)
			}
		}
	}
}

// listShelves lists the shelves of the Need's domain.
func (f *fitter) listShelves(need int32, k *state.Kind, finite bool) {
	l := f.l
	d := l.DomainsFor(k.Matcher)
	costs := l.p.Costs(k, f.stage)
	for _, i := range l.p.shelvesOf(d, need, k) {
		sh := &d.Shelves[i]
		if sh.Stage != f.stage || sh.Left == 0 || l.p.ClassMask[sh.Class]&l.Lacks == 0 || !k.AcceptsClass(sh.Class) {
			continue
		}
		count := int32(0)
		for _, r := range sh.Rows[sh.At:] {
			if f.isOpen(r) {
				count++
			}
		}
		if count > 0 {
			f.add(sh.Class, costs[sh.Class], count, sh.Rows[sh.At:], k, finite)
		}
	}
}

// isOpen reports whether a machine is neither taken nor held.
func (f *fitter) isOpen(r columnar.Row) bool { return !f.l.p.Taken[r] && !f.l.p.Reserved.Lower.Has(r) }

// add adds a source, if its cost is finite, or if it is not.
func (f *fitter) add(class, rank uint32, count int32, rows []columnar.Row, k *state.Kind, finite bool) {
	l := f.l
	l.Figures.Probes++
	cost := l.p.CostIn(class, k, f.stage)
	switch isFinite := !math.IsInf(cost, 1); {
	case isFinite != finite:
		return
	case !isFinite:
		cost = l.p.Snap.Classes[class].Probability
	}
	n := len(f.rows)
	if f.used+n > len(f.vecs) {
		f.vecs, f.used = make([]int64, max(1024, 2*len(f.vecs))), 0 // the sources keep the old one
	}
	has := f.vecs[f.used : f.used+n : f.used+n]
	f.used += n
	v := l.p.Vector(class)
	for i, d := range f.rows {
		has[i] = min(v[d], l.Missing[d])
	}
	f.sources = append(f.sources, fitSource{class: class, rank: rank, count: count, cost: cost, has: has, rows: rows})
}

// keepWithinShare drops machines that are too large a part of the Need, if the others cover what is missing.
func (f *fitter) keepWithinShare(need int32, k *state.Kind) {
	l := f.l
	want := l.p.Aggregate(need)
	limit := l.p.Opts.MaxMachineShare
	for d, w := range want {
		if w > 0 && d < len(k.Unit) {
			limit = max(limit, float64(k.Unit[d])/float64(w))
		}
	}
	isWithin := func(s *fitSource) bool {
		least := math.Inf(1)
		v := l.p.Vector(s.class)
		for d, w := range want {
			if w > 0 {
				least = min(least, float64(v[d])/float64(w))
			}
		}
		return least <= limit
	}
	for i, d := range f.rows {
		left := l.Missing[d]
		for j := range f.sources {
			if s := &f.sources[j]; isWithin(s) {
				if s.has[i] > 0 && int64(s.count) > left/s.has[i] {
					left = 0
				} else {
					left -= s.has[i] * int64(s.count)
				}
			}
			if left <= 0 {
				break
			}
		}
		if left > 0 {
			return
		}
	}
	f.sources = slices.DeleteFunc(f.sources, func(s fitSource) bool { return !isWithin(&s) })
}

// layOffers groups the sources by cost and by what they have of what is missing: the cheaper first, of equal
// cost the larger.
func (f *fitter) layOffers(k *state.Kind) {
	p := &f.problem
	slices.SortFunc(f.sources, func(a, b fitSource) int {
		return cmp.Or(cmp.Compare(a.cost, b.cost), slices.Compare(b.has, a.has), cmp.Compare(a.rank, b.rank))
	})
	p.Want, p.Unit, p.Offers = p.Want[:0], p.Unit[:0], p.Offers[:0]
	for _, d := range f.rows {
		unit := int64(0)
		if d < len(k.Unit) {
			unit = k.Unit[d]
		}
		p.Want, p.Unit = append(p.Want, f.l.Missing[d]), append(p.Unit, unit)
	}
	for i := range f.sources {
		s := &f.sources[i]
		if n := len(p.Offers); n == 0 || p.Offers[n-1].Cost != s.cost || !slices.Equal(p.Offers[n-1].Has, s.has) {
			p.Offers = append(p.Offers, cover.Offer{Has: s.has, Cost: s.cost})
		}
		s.offer = int32(len(p.Offers) - 1)
		p.Offers[s.offer].Count += int(s.count)
	}
}

// mixed lists what AcquireCheapest takes of offers that cost the same: machine by machine, in the order
// of acquiring.
func (f *fitter) mixed(from, to int, missing []int64) []cover.Run {
	f.activate(func(offer int32) bool { return from <= int(offer) && int(offer) < to })
	f.left = append(f.left[:0], missing...)
	f.runs = f.runs[:0]
	for {
		s := f.first(func(s *fitSource) (*int, bool) { return &s.ahead, f.helps(s.has) })
		if s == nil {
			return f.runs
		}
		s.ahead++
		for i, has := range s.has {
			f.left[i] = max(f.left[i]-has, 0)
		}
		if n := len(f.runs); n > 0 && f.runs[n-1].Offer == int(s.offer) {
			f.runs[n-1].Count++
		} else {
			f.runs = append(f.runs, cover.Run{Offer: int(s.offer), Count: 1})
		}
	}
}

// helps reports whether a vector has something of left.
func (f *fitter) helps(has []int64) bool {
	for i, m := range f.left {
		if m > 0 && has[i] > 0 {
			return true
		}
	}
	return false
}

// activate lists the sources of some offers.
func (f *fitter) activate(of func(offer int32) bool) {
	f.active = f.active[:0]
	for i := range f.sources {
		if of(f.sources[i].offer) {
			f.active = append(f.active, int32(i))
		}
	}
}

// first returns the active source whose next machine comes first in the order of acquiring, nil when there
// is none. Cursor returns where a source is, and whether it may give a machine.
func (f *fitter) first(cursor func(*fitSource) (*int, bool)) (best *fitSource) {
	key := uint64(math.MaxUint64)
	place := f.l.p.Free[f.stage].Place
	for _, i := range f.active {
		s := &f.sources[i]
		at, may := cursor(s)
		if !may {
			continue
		}
		for *at < len(s.rows) && !f.isOpen(s.rows[*at]) {
			*at++
		}
		if *at == len(s.rows) {
			continue
		}
		if k := uint64(s.rank)<<32 | uint64(place.Of(s.rows[*at])); k < key {
			best, key = s, k
		}
	}
	return best
}

// take acquires so many machines of each offer, in the order of acquiring.
func (f *fitter) take(need int32, counts []int) {
	f.activate(func(offer int32) bool { return counts[offer] > 0 })
	for {
		s := f.first(func(s *fitSource) (*int, bool) { return &s.at, counts[s.offer] > 0 })
		if s == nil {
			return
		}
		counts[s.offer]--
		f.l.ClaimFree(s.rows[s.at], need, f.stage)
	}
}
