package demand

import "github.com/tonnage/tonnage/engine/model"

// ArrivedBy makes rows arrive no later than at says for their profile, 0 = it
// does not know: what waited for a process that ended goes on waiting since
// then. O(rows).
func (b *Builder) ArrivedBy(at func(*model.Profile) int64) {
	known := make([]int64, len(b.profiles))
	for i, p := range b.profiles {
		known[i] = at(p)
	}
	for i, p := range b.profile {
		b.arrival[i] = earliest(b.arrival[i], known[p])
	}
}
