package reference

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/tonnage/tonnage/engine/model"
)

// need is one Need of the pass: a row, or a fold of rows.
type need struct {
	model.Need
	rank int
	rows []int // into Input.Needs, in rank order
	fold bool
	// members are the rows of a fold, in rank order.
	members []*model.Need
	gang    *gang // nil = it belongs to none

	// What phase 1 decided.
	credited    []*model.Machine
	idle        []*model.Machine
	speculative []*model.Machine
	deficit     model.Resources
	domain      string
	couldCover  bool
	skewBlocked bool // a useful free machine was left because of the skew
	short       bool // it lacked something when phase 2 began

	// What phase 2 decided.
	victims       []*model.Machine
	inFlight      []*model.Machine
	covered       bool             // victims, in-flight and free machines cover the deficit
	hadTurn       bool             // phase 2 is over for it
	hadCandidates bool             // somebody could have been preempted
	countsOnDrain bool             // its plan of this cycle counts on what drains already, and not for it yet
	used          []*model.Machine // free machines and victims that its plans count on
	lost          bool             // plans of others count on what it acquired
	reserved      []*model.Machine // of these, what is stamped for it
	longestGrace  int              // seconds
}

// hardSpread: Same wins over spread, and it has won for the members of a fold
// although the fold no longer shows it.
func (n *need) hardSpread() []model.Spread {
	if n.fold {
		return nil
	}
	return n.Profile.HardSpread()
}

func (n *need) claims() []*model.Machine {
	return slices.Concat(n.credited, n.idle, n.speculative)
}

// normalise ranks the rows and folds: foldable Needs equal in (cluster, profile
// with Same replaced by what it says of one machine, aggregate) become one Need
// that takes the place of its first member in rank order. Then Needs of one stamp
// change places.
func (p *pass) normalise() {
	in := p.in
	order := make([]int, len(in.Needs))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, byRank(in.Needs))
	foldable := p.foldTest()
	folds := map[string]*need{}
	for _, i := range order {
		row := &in.Needs[i]
		if row.Profile.Same() == nil || p.lacks[i].waits || !foldable(row) {
			p.needs = append(p.needs, &need{Need: *row, rows: []int{i}})
			continue
		}
		key := fmt.Sprintf("%q %q %v", row.Cluster, row.Profile.Folded().Canonical(), row.Aggregate)
		fold := folds[key]
		if fold == nil {
			fold = newFold(row)
			folds[key] = fold
			p.needs = append(p.needs, fold)
		} else {
			fold.Aggregate = fold.Aggregate.Add(row.Aggregate)
			fold.Arrival = min(fold.Arrival, row.Arrival)
			fold.Parked = fold.Parked && row.Parked
		}
		fold.rows, fold.members = append(fold.rows, i), append(fold.members, row)
	}
	largestUnitFirst(p.needs)
	for rank, n := range p.needs {
		n.rank = rank
		n.deficit = n.Aggregate
		n.couldCover = true
	}
}

// newFold makes a fold of a row: Same says of one machine what it said, there is no
// group, and the minimum unit is the whole of one member.
func newFold(row *model.Need) *need {
	f := &need{Need: *row, fold: true}
	f.Profile = row.Profile.Folded()
	f.MinUnit = row.Aggregate
	f.Group = ""
	return f
}

// stampOf is what machines carry that a Need has claimed.
type stampOf struct {
	cluster, profile, group string
}

func (n *need) stamp() stampOf { return stampOf{n.Cluster, n.Profile.Canonical(), n.Group} }

// largestUnitFirst: the Needs of one stamp stand in the places that they have, the
// largest minimum unit first.
func largestUnitFirst(needs []*need) {
	places := map[stampOf][]int{}
	for i, n := range needs {
		places[n.stamp()] = append(places[n.stamp()], i)
	}
	for _, at := range places {
		var ns []*need
		for _, i := range at {
			ns = append(ns, needs[i])
		}
		slices.SortStableFunc(ns, func(a, b *need) int { return -compareByName(a.MinUnit, b.MinUnit) })
		for k, i := range at {
			needs[i] = ns[k]
		}
	}
}

// compareByName compares dimension by dimension, in the order of their names.
func compareByName(a, b model.Resources) int {
	var names []string
	for _, x := range slices.Concat(a, b) {
		names = append(names, x.Name)
	}
	slices.Sort(names)
	for _, name := range names {
		if c := cmp.Compare(a.Get(name), b.Get(name)); c != 0 {
			return c
		}
	}
	return 0
}

// foldTest returns the test whether a Same-Need needs no co-location: its whole
// aggregate fits at least one machine, and it has not begun as a gang; with
// AcquireFit it also has such a machine, or is not cheaper in parts. Claims, and for
// the first the minimum unit, play no part. What supply says to all Needs of a
// class is remembered.
func (p *pass) foldTest() func(*model.Need) bool {
	known := map[string]bool{}
	return func(n *model.Need) bool {
		class := fmt.Sprintf("%q %q %q %v", n.Cluster, n.Group, n.Profile.Canonical(), n.Aggregate)
		answer, ok := known[class]
		if !ok {
			answer = slices.ContainsFunc(p.machines, func(m *model.Machine) bool { return fitsWhole(n, m) && !p.heldAbove(n, m) || fitsComing(n, m) })
			known[class] = answer
		}
		has := func(test func(*model.Need, *model.Machine) bool) bool {
			return slices.ContainsFunc(p.machines, func(m *model.Machine) bool { return test(n, m) })
		}
		return answer && !has(p.begins) && (p.in.Options.Acquire != AcquireFit || has(p.hasWhole) || !p.isCheaperInParts(n))
	}
}

// fitsWhole: the machine is bound to the Need's cluster or free, and holds all that
// it asks for.
func fitsWhole(n *model.Need, m *model.Machine) bool {
	ours := m.State.Bound() && m.Cluster == n.Cluster && !m.Departs()
	free := m.State == model.Idle || m.State == model.Speculative
	return (ours || free) && holdsWhole(n, m)
}

// heldAbove: the machine is Idle and held for a higher priority than the Need's.
func (p *pass) heldAbove(n *model.Need, m *model.Machine) bool {
	return m.State == model.Idle && m.Reservation.Active() && !p.expired(m) && m.Reservation.Priority > n.Profile.Priority()
}

// fitsComing: the machine is created, or drained, for the Need or for its fold, and
// holds all that it asks for.
func fitsComing(n *model.Need, m *model.Machine) bool {
	fold := &newFold(n).Need
	switch m.State {
	case model.Creating:
		return (createdFor(n, m) || createdFor(fold, m)) && holdsWhole(n, m)
	case model.Draining:
		o := m.Reservation.Owner
		return (o == n.Owner() || o == fold.Owner()) && holdsWhole(n, m)
	}
	return false
}

func holdsWhole(n *model.Need, m *model.Machine) bool {
	return m.EffectiveAllocatable().Covers(n.Aggregate) && n.Profile.Matches(m)
}

// begins: the machine is the Need's own, or on its way to it, and of use to it as one
// of several.
func (p *pass) begins(n *model.Need, m *model.Machine) bool {
	return p.isOwn(n, m) && serves(n, m) && !m.EffectiveAllocatable().Covers(n.Aggregate)
}

// hasWhole: the machine is the Need's own or its fold's, or on its way to either, and
// holds all that the Need asks for.
func (p *pass) hasWhole(n *model.Need, m *model.Machine) bool {
	return (p.isOwn(n, m) || p.isOwn(&newFold(n).Need, m)) && holdsWhole(n, m)
}

// isOwn: the machine carries the Need's stamp, or is held for it.
func (p *pass) isOwn(n *model.Need, m *model.Machine) bool {
	switch m.State {
	case model.Configured, model.Configuring:
		return m.Cluster == n.Cluster && carriesStamp(n, m) && !m.Departs()
	case model.Creating:
		return createdFor(n, m)
	case model.Idle, model.Draining:
		return m.Reservation.Owner == n.Owner() && !p.expired(m)
	}
	return false
}

// isCheaperInParts: free machines of one size that hold a part of what a Same-Need asks for
// cost less than what holds all of it. A machine that could hold several such Needs counts
// with its share.
func (p *pass) isCheaperInParts(n *model.Need) bool {
	whole, parts := math.Inf(1), math.Inf(1)
	for _, m := range p.machines {
		if m.State != model.Idle && m.State != model.Speculative || p.heldAbove(n, m) || !n.Profile.Matches(m) {
			continue
		}
		price := math.Inf(1)
		if c := effectiveCost(m, n.Profile.Interruption()); !c.risky {
			price = c.finite
		}
		has := m.EffectiveAllocatable()
		switch {
		case has.Covers(n.Aggregate):
			whole = min(whole, price/float64(howMany(has, n.Aggregate)))
		case has.Covers(n.MinUnit) && howFew(has, n.Aggregate) > 0:
			parts = min(parts, price*float64(howFew(has, n.Aggregate)))
		}
	}
	return parts < whole
}

// howMany is how many times a machine holds what a Need asks for, 1 at least.
func howMany(has, want model.Resources) int64 {
	most := int64(math.MaxInt64)
	for _, a := range want {
		if a.Value > 0 {
			most = min(most, has.Get(a.Name)/a.Value)
		}
	}
	return most
}

// howFew is how many such machines offer what a Need asks for, 0 = none do.
func howFew(has, want model.Resources) int64 {
	least := int64(1)
	for _, a := range want {
		switch v := has.Get(a.Name); {
		case a.Value > 0 && v <= 0:
			return 0
		case a.Value > 0:
			least = max(least, (a.Value-1)/v+1)
		}
	}
	return least
}
