package victims

import (
	"cmp"
	"slices"

	"github.com/tonnage/tonnage/engine/internal/units"
	"github.com/tonnage/tonnage/engine/model"
)

// While plans are carried out, most machines of low priority are victims already, or are held for another Need. Then each Need would
// look at the same victim groups in vain; with a hundred priorities there are thousands of them. So each class notes a priority below which
// no Need can take any of its plain machines. A plain machine is one that some need claims and that is in no gang. A victim remains a
// victim until the pass ends, and so does a machine that a plan counts on. A held machine can be taken again only when its reservation
// ends, and Reserved.Ended logs that.

// IsShut reports whether it is known that nobody can take a machine of a victim group, because no plain machine of its class and
// of a priority up to its own can be taken. False may mean "not known", as it always does for excess. O(1).
func IsShut(p *Pass, f *units.VictimGroup) bool {
	return !f.Excess && f.Level < shutBelow(p, f.Class)
}

// shutBelow returns the priority below which nobody can take a plain machine of a class; math.MinInt32 if nothing is known.
func shutBelow(p *Pass, class uint32) int32 {
	t := &p.st.Gangs.Victims
	if t.Opened != len(p.Reserved.Ended) {
		reopen(p, t)
	}
	return t.Of[class].ShutBelow
}

// reopen forgets what is known of the classes in which a reservation has ended.
func reopen(p *Pass, t *units.VictimTable) {
	for _, r := range p.Reserved.Ended[t.Opened:] {
		if p.Snap.View.State[r] == model.Configured {
			t.Of[p.Snap.View.Class[r]].Reopen()
		}
	}
	t.Opened = len(p.Reserved.Ended)
}

// NoteShut is called when no machine of a victim group can be taken. If that holds whichever cluster asks, it finds out up to which
// priority it holds for the class. Amortized O(1), but for reservations that end.
func NoteShut(l *Worker, f *units.VictimGroup) {
	if f.Excess || f.Alike.Next < len(f.Rows) || f.Level < shutBelow(l.p, f.Class) {
		return
	}
	x := &l.p.st.Gangs.Victims.Of[f.Class]
	for x.Shut < len(x.Plain) && noneOpen(l, x.Plain[x.Shut]) {
		x.Shut++
	}
	if x.ShutBelow = x.Priority; x.Shut < len(x.Plain) { // the list has all machines below that priority
		x.ShutBelow = x.Plain[x.Shut].Level
	}
}

// noneOpen reports whether nobody can take a machine of an alike.
func noneOpen(l *Worker, a *units.Alike) bool {
	return !l.p.someLeft(a) || l.FirstOpen(a, AnyCluster) == len(a.Rows)
}

// sortPlain lists a class's alikes that are no excess by their level.
func sortPlain(x *units.ClassVictims) {
	x.Plain = x.Plain[:0]
	for _, a := range x.Alikes {
		if !a.Excess {
			x.Plain = append(x.Plain, a)
		}
	}
	slices.SortFunc(x.Plain, func(a, b *units.Alike) int { return cmp.Compare(a.Level, b.Level) })
	x.Reopen()
}
