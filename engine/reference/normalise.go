package reference

import (
	"cmp"
	"fmt"
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

	// What phase 2 decided.
	victims       []*model.Machine
	inFlight      []*model.Machine
	covered       bool             // victims, in-flight and free machines cover the deficit
	hadTurn       bool             // phase 2 is over for it
	hadCandidates bool             // somebody could have been preempted
	countsOnDrain bool             // its plan of this cycle counts on what drains already, and not for it yet
	used          []*model.Machine // free machines and victims that its plans count on
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
// aggregate fits at least one machine, and it has not begun as a gang. Claims, and
// for the first the minimum unit, play no part. What supply says to all Needs of a
// class is remembered.
func (p *pass) foldTest() func(*model.Need) bool {
	known := map[string]bool{}
	return func(n *model.Need) bool {
		class := fmt.Sprintf("%q %q %q %v", n.Cluster, n.Group, n.Profile.Canonical(), n.Aggregate)
		answer, ok := known[class]
		if !ok {
			answer = slices.ContainsFunc(p.machines, func(m *model.Machine) bool { return fitsWhole(n, m) || fitsComing(n, m) })
			known[class] = answer
		}
		return answer && !slices.ContainsFunc(p.machines, func(m *model.Machine) bool { return p.begins(n, m) })
	}
}

// fitsWhole: the machine is bound to the Need's cluster or free, and holds all that
// it asks for.
func fitsWhole(n *model.Need, m *model.Machine) bool {
	ours := m.State.Bound() && m.Cluster == n.Cluster && !m.Departs()
	free := m.State == model.Idle || m.State == model.Speculative
	return (ours || free) && holdsWhole(n, m)
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
	its := false
	switch m.State {
	case model.Configured, model.Configuring:
		its = m.Cluster == n.Cluster && carriesStamp(n, m) && !m.Departs()
	case model.Creating:
		its = createdFor(n, m)
	case model.Idle, model.Draining:
		its = m.Reservation.Owner == n.Owner() && !p.expired(m)
	}
	return its && serves(n, m) && !m.EffectiveAllocatable().Covers(n.Aggregate)
}
