package engine

import (
	"cmp"
	"slices"

	"github.com/tonnage/tonnage/columnar"
)

// Rows of one stamp share their machines: a stamp does not tell which row acquired which. Walked in keep
// order, as a Need's own machines are, small ones that a lower row had acquired would go to the first row,
// together with a large one that it needs anyway. So a row below which others have its stamp takes what
// fits it best.

// shared is a walk over machines that are own ones of several rows.
type shared struct {
	list   []sharedMachine // by class, then in the order of the walk
	runs   []sharedRun
	places []uint32 // what the Need takes, in the order in which it is picked
}

// sharedMachine is a machine by its place in the list that is walked.
type sharedMachine struct{ place, class uint32 }

// sharedRun is the machines of one class that are left, as a range of the list.
type sharedRun struct{ at, end int }

// begin prepares a walk.
func (x *shared) begin() { x.list, x.runs, x.places = x.list[:0], x.runs[:0], x.places[:0] }

// fitShared picks, for the Need at work, machines of the list until nothing is missing: each time the one that
// exceeds what is missing the least of those that cover it, or where none does the one that has the most
// of it; of equal ones the first. Machines of a class are alike. O(classes) for each pick.
func (l *worker) fitShared() {
	x := &l.shared
	slices.SortFunc(x.list, func(a, b sharedMachine) int {
		return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(a.place, b.place))
	})
	for i := range x.list {
		if i == 0 || x.list[i].class != x.list[i-1].class {
			x.runs = append(x.runs, sharedRun{i, i})
		}
		x.runs[len(x.runs)-1].end = i + 1
	}
	for l.lacks != 0 {
		best := -1
		for i, run := range x.runs {
			if run.at < run.end && l.classMask[x.list[run.at].class]&l.lacks != 0 && (best < 0 || l.fitsBetter(x.list[run.at], x.list[x.runs[best].at])) {
				best = i
			}
		}
		if best < 0 {
			return
		}
		run := &x.runs[best]
		m := x.list[run.at]
		run.at++
		l.subtract(m.class)
		x.places = append(x.places, m.place)
	}
}

// fitsBetter reports whether a machine is picked before another one.
func (l *worker) fitsBetter(a, b sharedMachine) bool {
	x, y := l.vector(a.class), l.vector(b.class)
	covers := columnar.Covers(x, l.missing)
	if covers != columnar.Covers(y, l.missing) {
		return covers
	}
	c := compareScores(x, y, l.missing, !covers)
	if covers {
		c = -c // the smaller one
	}
	return c > 0 || c == 0 && a.place < b.place
}

// creditShared is creditOwn where a row that ranks below the Need has the same stamp.
func (l *worker) creditShared(need int32, e *stampEntry, k *kind) {
	l.shared.begin()
	for at := e.first; at != 0; at = l.stamps.next[at-1] {
		b := &l.bound[at-1]
		l.probes++
		if !l.gone(at-1) && k.acceptsClass(b.Class) && l.inDomain(b.Row, need) {
			l.shared.list = append(l.shared.list, sharedMachine{at - 1, b.Class})
		}
	}
	l.fitShared()
	l.start(need)
	for _, place := range l.shared.places {
		l.seize(place, need)
	}
}

// creditLeftOwn claims own spares.
func (l *worker) creditLeftOwn(x *spares, need int32, k *kind) {
	l.shared.begin()
	isShared := false
	for i := range x.list {
		if s := &x.list[i]; l.isLeftFor(x, s, need, k) && l.groupOfSpare(s, need, k) == isOwnSpare {
			l.shared.list = append(l.shared.list, sharedMachine{uint32(i), s.Class})
			isShared = isShared || s.owner != unheld && l.rankOf[s.owner] > l.rankOf[need]
		}
	}
	if !isShared {
		l.creditLeft(x, need, k, isOwnSpare)
		return
	}
	l.fitShared()
	l.start(need)
	for _, at := range l.shared.places {
		l.claimSpare(&x.list[at], need, isOwnSpare)
	}
	slices.Sort(l.shared.places)
	for _, at := range slices.Backward(l.shared.places) {
		x.list = slices.Delete(x.list, int(at), int(at)+1)
	}
}
