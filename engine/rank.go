package engine

import (
	"cmp"
	"math"
	"slices"

	"github.com/tonnage/tonnage/engine/model"
)

// rankKey orders needs: priority, interruption bucket and reclamation bucket
// descending in one number, then arrival, cluster and row ascending. Rows are
// numbered cluster by cluster in the order of their ids, so first, the number
// of the need's first row, stands for the last two, and the order is total.
type rankKey struct {
	worth   uint64
	arrival uint64 // with the sign turned, so that it compares unsigned
	first   int32
	need    int32
}

// worth packs what comes before the arrival; smaller goes first.
func worth(priority int32, interruption, reclamation model.Bucket) uint64 {
	return uint64(math.MaxInt32-int64(priority))<<16 | uint64(^uint8(interruption))<<8 | uint64(^uint8(reclamation))
}

func compareRank(a, b rankKey) int {
	if c := cmp.Compare(a.worth, b.worth); c != 0 {
		return c
	}
	if c := cmp.Compare(a.arrival, b.arrival); c != 0 {
		return c
	}
	return cmp.Compare(a.first, b.first)
}

// radixMin is from how many needs on they are dealt rather than compared.
const radixMin = 1 << 12

// rank returns the needs' numbers in rank order.
func (e *Engine) rank(f *folded) []rankKey {
	n := len(f.needs)
	e.keys[0], e.keys[1] = resize(e.keys[0], n), resize(e.keys[1], n)
	keys := e.keys[0]
	for i := range f.needs {
		x := &f.needs[i]
		keys[i] = rankKey{
			worth:   worth(x.profile.Priority(), x.profile.Interruption(), x.profile.Reclamation()),
			arrival: uint64(x.arrival) ^ 1<<63, first: x.first, need: int32(i),
		}
	}
	if n < radixMin {
		slices.SortFunc(keys, compareRank)
		return keys
	}
	return radixRank(keys, e.keys[1])
}

// radixRank sorts keys by dealing them, least significant digit first, between
// the two lists; it returns the one that they end in. Digits in which all keys
// agree are skipped, and most are: arrivals are those of a few roll-ups.
// Cost: O(keys × digits that differ).
func radixRank(keys, spare []rankKey) []rankKey {
	digits := [...]func(k *rankKey) uint16{
		func(k *rankKey) uint16 { return uint16(k.first) },
		func(k *rankKey) uint16 { return uint16(uint32(k.first) >> 16) },
		func(k *rankKey) uint16 { return uint16(k.arrival) },
		func(k *rankKey) uint16 { return uint16(k.arrival >> 16) },
		func(k *rankKey) uint16 { return uint16(k.arrival >> 32) },
		func(k *rankKey) uint16 { return uint16(k.arrival >> 48) },
		func(k *rankKey) uint16 { return uint16(k.worth) },
		func(k *rankKey) uint16 { return uint16(k.worth >> 16) },
		func(k *rankKey) uint16 { return uint16(k.worth >> 32) },
	}
	if slices.IsSortedFunc(keys, func(a, b rankKey) int { return cmp.Compare(a.first, b.first) }) {
		return deal(keys, spare, digits[2:]) // dealing keeps the order of equals
	}
	return deal(keys, spare, digits[:])
}

func deal(keys, spare []rankKey, digits []func(k *rankKey) uint16) []rankKey {
	var at [1 << 16]uint32
	for _, digit := range digits {
		clear(at[:])
		for i := range keys {
			at[digit(&keys[i])]++
		}
		if at[digit(&keys[0])] == uint32(len(keys)) {
			continue
		}
		sum := uint32(0)
		for d := range at {
			at[d], sum = sum, sum+at[d]
		}
		for i := range keys {
			d := digit(&keys[i])
			spare[at[d]] = keys[i]
			at[d]++
		}
		keys, spare = spare, keys
	}
	return keys
}
