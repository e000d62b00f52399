package ranks

import "sort"

// Ranking is the order of the last cycle, from which places are taken out and into which others are put.
type Ranking struct {
	Slots   Slots
	Needs   []int32  // in rank order; room for those that are put in
	KindAt  []uint32 // by place in the order: the Need's kind
	Lacking []bool   // by place in the order: moves with the Needs
	// SlotOf returns the number of the slot on which a Need sits; Compare compares two slots, by their
	// numbers, in rank order.
	SlotOf  func(need int32) int32
	Compare func(a, b int32) int
}

// TakeOut removes places, given in ascending order, and returns the first place whose Need has changed.
func (x *Ranking) TakeOut(left []int32) int {
	if len(left) == 0 {
		return len(x.Needs)
	}
	to := int(left[0])
	for i, rank := range left {
		end := len(x.Needs)
		if i+1 < len(left) {
			end = int(left[i+1])
		}
		from := int(rank) + 1
		copy(x.KindAt[to:], x.KindAt[from:end])
		copy(x.Lacking[to:], x.Lacking[from:end])
		to += copy(x.Needs[to:], x.Needs[from:end])
	}
	x.Needs, x.KindAt = x.Needs[:to], x.KindAt[:to]
	return int(left[0])
}

// PutIn inserts the Needs of slots, given in rank order, and returns the first place whose Need
// has changed. It works from the end, so that each element moves once.
func (x *Ranking) PutIn(arrived []int32) int {
	if len(arrived) == 0 {
		return len(x.Needs)
	}
	end := len(x.Needs)
	x.Needs, x.KindAt = x.Needs[:end+len(arrived)], x.KindAt[:end+len(arrived)]
	at := 0
	for i := len(arrived) - 1; i >= 0; i-- {
		number := arrived[i]
		at = x.placeFor(number, end)
		to := at + i + 1
		copy(x.Needs[to:], x.Needs[at:end])
		copy(x.KindAt[to:], x.KindAt[at:end])
		copy(x.Lacking[to:], x.Lacking[at:end])
		need := x.Slots.Needs[number]
		x.Needs[to-1], x.KindAt[to-1], x.Lacking[to-1] = need, x.Slots.kindOf(need), false
		end = at
	}
	return at
}

// placeFor returns the place before end where the Need of a slot belongs. The Need inserted before
// went to end, and the next is likely near it: the search doubles its steps downward, then bisects.
func (x *Ranking) placeFor(number int32, end int) int {
	after := func(at int) bool { return x.Compare(x.SlotOf(x.Needs[at]), number) > 0 }
	from, to := end, end
	for step := 1; from > 0; step *= 2 {
		if from = max(from-step, 0); !after(from) {
			break
		}
		to = from
	}
	return from + sort.Search(to-from, func(i int) bool { return after(from + i) })
}
