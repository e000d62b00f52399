package victims

import (
	"cmp"
	"slices"

	"github.com/tonnage/tonnage/engine/internal/units"
	"github.com/tonnage/tonnage/engine/model"
)

// While plans are carried out, most machines of low priority are victims already or held for somebody. Then each Need passes over the
// same victim groups: with a hundred priorities thousands of them. So each class notes up to which priority nobody can take any of its
// machines. A machine that nobody can take turns takeable only when its reservation ends.

// IsShut reports whether it is known that nobody can take a machine of a victim group, because all machines of its class
// up to its priority are taken or held. False may mean "not known". O(1).
func IsShut(p *Pass, f *units.VictimGroup) bool {
	return !f.Excess && f.Level < shutBelow(p, f.Class)
}

// shutBelow returns the priority below which nobody can take a Configured machine of a class that some need claims and that
// is in no gang.
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

// NoteShut notes that nobody can take a machine of a victim group. Amortized O(1) but for reservations that end.
func NoteShut(l *Worker, f *units.VictimGroup) {
	if f.Excess || f.Alike.Next < len(f.Rows) || f.Level < shutBelow(l.p, f.Class) {
		return
	}
	x := &l.p.st.Gangs.Victims.Of[f.Class]
	for x.Shut < len(x.Plain) && isShut(l, x.Plain[x.Shut]) {
		x.Shut++
	}
	if x.ShutBelow = x.Priority; x.Shut < len(x.Plain) {
		x.ShutBelow = x.Plain[x.Shut].Level
	}
}

// isShut reports whether nobody can take a machine of an alike.
func isShut(l *Worker, a *units.Alike) bool {
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
