package cycle

import (
	"slices"

	"github.com/tonnage/tonnage/engine/internal/state"
)

// WaitingAccept reports whether a waiting Need of the cluster accepts a class that the kind accepts: one test
// of two bitmaps.
func (x *ClusterState) WaitingAccept(k *state.Kind) bool {
	for i, w := range x.Waiting {
		if w&k.Accepts[i] != 0 {
			return true
		}
	}
	return false
}

// WaitForNone empties the list of Needs whose credit waits.
func (x *ClusterState) WaitForNone() {
	x.Waiting, x.Uncredited, x.WaitKinds = x.Waiting[:0], x.Uncredited[:0], x.WaitKinds[:0]
}

// Wait adds a Need to the list of those whose credit waits, and its classes to the set that WaitingAccept
// tests.
func (x *ClusterState) Wait(need int32, kind uint32, k *state.Kind) {
	x.Uncredited = append(x.Uncredited, need)
	if !slices.Contains(x.WaitKinds, kind) {
		x.WaitKinds = append(x.WaitKinds, kind)
	}
	if len(x.Waiting) == 0 {
		x.Waiting = append(x.Waiting, k.Accepts...)
		return
	}
	for i, w := range k.Accepts {
		x.Waiting[i] |= w
	}
}
