package units

import "slices"

// SunkList is the machines of lost gangs of a scope, by key.
type SunkList struct {
	Units  []Unit
	At     int    // units before are taken
	Broken bool   // members of broken gangs are listed
	Fresh  []Unit // scratch: units to be merged
}

// Reset empties a list.
func (x *SunkList) Reset() { x.Units, x.At, x.Broken = x.Units[:0], 0, false }

// Merge sorts new units into those that are left.
func (x *SunkList) Merge() {
	x.Units = append(slices.Delete(x.Units, 0, x.At), x.Fresh...)
	x.At = 0
	slices.SortFunc(x.Units, func(a, b Unit) int { return a.Key.Compare(&b.Key) })
}
