package engine

import (
	"cmp"
	"slices"
	"sort"
)

// mergeShare bounds merge: above one changed place in mergeShare Needs, a full sort is cheaper.
const mergeShare = 8

// merge updates the order incrementally if few rank slots have changed; it returns false when all Needs
// must be sorted. The column lacking moves with the Needs.
func (p *pass) merge() bool {
	left, arrived := p.e.workers[0].folder.left, p.e.workers[0].folder.arrived
	for _, l := range p.e.workers[1:] {
		left, arrived = append(left, l.folder.left...), append(arrived, l.folder.arrived...)
	}
	p.e.workers[0].folder.left, p.e.workers[0].folder.arrived = left, arrived // keep their capacity
	if p.fresh || (len(left)+len(arrived))*mergeShare > len(p.order) {
		return false
	}
	slices.Sort(left)
	slices.SortFunc(arrived, p.compareRankSlots)
	first := p.takeOut(left)
	first = min(first, p.putIn(arrived))
	for i, need := range p.order[first:] {
		p.rankOf[need] = int32(first + i)
	}
	st := &p.e.store
	st.order, st.kindAt = p.order, p.kindAt
	return true
}

// compareRankSlots compares the numbers of two rank slots in rank order.
func (p *pass) compareRankSlots(a, b int32) int {
	x, y := &p.e.store.rankSlots[a], &p.e.store.rankSlots[b]
	return cmp.Or(cmp.Compare(p.kinds[x.kind].worth, p.kinds[y.kind].worth), cmp.Compare(x.arrival, y.arrival), cmp.Compare(a, b))
}

// takeOut removes places, given in ascending order, and returns the first place whose Need has changed.
func (p *pass) takeOut(left []int32) int {
	if len(left) == 0 {
		return len(p.order)
	}
	to := int(left[0])
	for i, rank := range left {
		end := len(p.order)
		if i+1 < len(left) {
			end = int(left[i+1])
		}
		from := int(rank) + 1
		copy(p.kindAt[to:], p.kindAt[from:end])
		copy(p.lacking[to:], p.lacking[from:end])
		to += copy(p.order[to:], p.order[from:end])
	}
	p.order, p.kindAt = p.order[:to], p.kindAt[:to]
	return int(left[0])
}

// putIn inserts the Needs of rank slots, given in rank order, and returns the first place whose Need
// has changed. It works from the end, so that each element moves once.
func (p *pass) putIn(arrived []int32) int {
	if len(arrived) == 0 {
		return len(p.order)
	}
	rankSlots := p.e.store.rankSlots
	end := len(p.order)
	p.order, p.kindAt = p.order[:end+len(arrived)], p.kindAt[:end+len(arrived)]
	at := 0
	for i := len(arrived) - 1; i >= 0; i-- {
		number := arrived[i]
		at = p.placeFor(number, end)
		to := at + i + 1
		copy(p.order[to:], p.order[at:end])
		copy(p.kindAt[to:], p.kindAt[at:end])
		copy(p.lacking[to:], p.lacking[at:end])
		p.order[to-1], p.kindAt[to-1], p.lacking[to-1] = rankSlots[number].need, rankSlots[number].kind, false
		end = at
	}
	return at
}

// placeFor returns the place before end where the Need of a rank slot belongs. The Need inserted before
// went to end, and the next is likely near it: the search doubles its steps downward, then bisects.
func (p *pass) placeFor(number int32, end int) int {
	after := func(at int) bool { return p.compareRankSlots(p.rankSlotOf(p.order[at]), number) > 0 }
	from, to := end, end
	for step := 1; from > 0; step *= 2 {
		if from = max(from-step, 0); !after(from) {
			break
		}
		to = from
	}
	return from + sort.Search(to-from, func(i int) bool { return after(from + i) })
}
