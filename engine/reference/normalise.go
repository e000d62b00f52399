package reference

import (
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
	gang *gang // nil = it belongs to none

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
	hadCandidates bool             // somebody could have been preempted
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

// normalise ranks the rows and folds: foldable Needs equal in (cluster,
// profile without Same, aggregate) become one Need that takes the place of its
// first member in rank order.
func normalise(in *Input, lacks []lack) []*need {
	order := make([]int, len(in.Needs))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, byRank(in.Needs))
	fits := foldTest(in)
	folds := map[string]*need{}
	var needs []*need
	for _, i := range order {
		row := &in.Needs[i]
		if row.Profile.Same() == nil || lacks[i].waits || !fits(row) {
			needs = append(needs, &need{Need: *row, rows: []int{i}})
			continue
		}
		key := fmt.Sprintf("%q %q %v", row.Cluster, row.Profile.WithoutSame().Canonical(), row.Aggregate)
		fold := folds[key]
		if fold == nil {
			fold = newFold(row)
			folds[key] = fold
			needs = append(needs, fold)
		} else {
			fold.Aggregate = fold.Aggregate.Add(row.Aggregate)
			fold.Arrival = min(fold.Arrival, row.Arrival)
			fold.Parked = fold.Parked && row.Parked
		}
		fold.rows = append(fold.rows, i)
	}
	for rank, n := range needs {
		n.rank = rank
		n.deficit = n.Aggregate
		n.couldCover = true
	}
	return needs
}

// newFold strips a row: no Same, no group, and the minimum unit is the whole
// of one member.
func newFold(row *model.Need) *need {
	f := &need{Need: *row, fold: true}
	f.Profile = row.Profile.WithoutSame()
	f.MinUnit = row.Aggregate
	f.Group = ""
	return f
}

// foldTest returns the test whether a Same-Need's whole aggregate fits at
// least one matching machine: its cluster's own Configured or Configuring, or
// any Idle or Speculative. Claims, reservations and the minimum unit play no
// part. The answer is remembered per class.
func foldTest(in *Input) func(*model.Need) bool {
	known := map[string]bool{}
	return func(n *model.Need) bool {
		class := fmt.Sprintf("%q %q %v", n.Cluster, n.Profile.Canonical(), n.Aggregate)
		answer, ok := known[class]
		if !ok {
			answer = slices.ContainsFunc(in.Machines, func(m model.Machine) bool { return fitsWhole(n, &m) })
			known[class] = answer
		}
		return answer
	}
}

func fitsWhole(n *model.Need, m *model.Machine) bool {
	ours := m.State.Bound() && m.Cluster == n.Cluster
	free := m.State == model.Idle || m.State == model.Speculative
	return (ours || free) && m.EffectiveAllocatable().Covers(n.Aggregate) && n.Profile.Matches(m)
}
