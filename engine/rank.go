package engine

import (
	"cmp"
	"math"
	"slices"

	"github.com/tonnage/tonnage/engine/model"
)

// rankKey orders needs: priority, interruption bucket and reclamation bucket
// descending in one number, then arrival, cluster and row ascending. Clusters
// are numbered in id order, so the order is total.
type rankKey struct {
	value   uint64
	arrival int64
	cluster int32
	row     int32
	need    int32
}

// worth packs what comes before the arrival; smaller goes first.
func worth(priority int32, interruption, reclamation model.Bucket) uint64 {
	return uint64(math.MaxInt32-int64(priority))<<16 | uint64(^uint8(interruption))<<8 | uint64(^uint8(reclamation))
}

func compareRank(a, b rankKey) int {
	if c := cmp.Compare(a.value, b.value); c != 0 {
		return c
	}
	if c := cmp.Compare(a.arrival, b.arrival); c != 0 {
		return c
	}
	if c := cmp.Compare(a.cluster, b.cluster); c != 0 {
		return c
	}
	return cmp.Compare(a.row, b.row)
}

// rank returns the needs' numbers in rank order.
func (f *folded) rank() []int32 {
	keys := make([]rankKey, len(f.needs))
	for i := range f.needs {
		n := &f.needs[i]
		keys[i] = rankKey{
			value:   worth(n.profile.Priority(), n.profile.Interruption(), n.profile.Reclamation()),
			arrival: n.arrival, cluster: n.cluster, row: n.firstAt, need: int32(i),
		}
	}
	slices.SortFunc(keys, compareRank)
	out := make([]int32, len(keys))
	for i := range keys {
		out[i] = keys[i].need
	}
	return out
}
