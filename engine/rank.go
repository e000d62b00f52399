package engine

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/tonnage/tonnage/alloc"
)

// Needs have one total order: priority, interruption bucket and reclamation bucket descending, then
// arrival, cluster and row ascending. What precedes the arrival is the worth of the Need's kind, and
// kinds are few. So the distinct worths are numbered, and a Need's sort key is that number above its
// arrival, relative to the earliest one. Rows are numbered cluster by cluster in the order of the
// clusters' ids, and the radix sort is stable, so the input order settles ties.
//
// Needs of one stamp then change places; see rank_swaps.go.
//
// Most changes of demand change only how much is wanted: the order stays that of the last cycle. Rows
// that come, go, or change in worth or arrival are removed from the order and inserted again; see
// merge.

// rankSlot is the entry of the sort for one Need. It has the number of the Need's first row in rank
// order, or, after a swap, of the first row of another Need with the same stamp.
type rankSlot struct {
	arrival int64
	need    int32 // noNeed: the row is a member of a fold that has another slot
	kind    uint32
}

// noNeed stands where a column holds the number of a Need and there is none.
const noNeed int32 = -1

const (
	// digitBits is how many bits of the key one pass of the radix sort looks at.
	digitBits = 11
	// dealtBits are the leading bits that the radix sort covers. Keys that agree in them are few, and
	// are settled by comparing whole keys.
	dealtBits = 3 * digitBits
)

// fillRankSlots recomputes the rank slots of the touched rows of the cluster at work.
func (f *folder) fillRankSlots() {
	p := f.p
	st := &p.e.store
	arrivals, swaps := f.block.Arrivals(), st.clusters[f.c].swaps
	for _, row := range f.touched {
		number := f.base + row
		n := &p.lines[number]
		x := rankSlot{arrivals[row], number, n.kind}
		if n.status&(isMember|isFold) != 0 {
			need := p.needOf(number)
			if d := p.foldOf(need); d.first == number {
				x = rankSlot{d.arrival, need, p.lines[need].kind}
			} else {
				x = rankSlot{need: noNeed}
			}
		}
		if at, ok := slices.BinarySearchFunc(swaps, number, func(s swap, rankSlot int32) int { return cmp.Compare(s.rankSlot, rankSlot) }); ok {
			x.need, x.kind = swaps[at].need, p.lines[swaps[at].need].kind
		}
		was := st.rankSlots[number]
		if was == x {
			continue
		}
		st.rankSlots[number] = x
		switch {
		case p.fresh:
		case was.need != x.need || was.arrival != x.arrival || f.worth(was.kind) != f.worth(x.kind):
			f.move(was, number, x)
		case x.need != noNeed:
			st.kindAt[st.rankOf[x.need]] = x.kind
		}
	}
}

// clearRankSlots empties the rank slots of a cluster's lines.
func (f *folder) clearRankSlots() {
	src := &f.p.sources[f.c]
	rankSlots := f.p.e.store.rankSlots[src.base:][:src.room]
	for i := range rankSlots {
		rankSlots[i] = rankSlot{need: noNeed} // the other fields too: slots are compared as a whole
	}
}

// move notes that a rank slot has changed, so that its Need has another place in the order.
func (f *folder) move(was rankSlot, number int32, now rankSlot) {
	st := &f.p.e.store
	f.moved, st.sorted[f.c] = true, 0
	if was.need != noNeed {
		f.left = append(f.left, st.rankOf[was.need])
	}
	if now.need != noNeed {
		f.arrived = append(f.arrived, number)
		if x := &st.clusters[f.c]; x.replay {
			x.letGo = append(x.letGo, now.need)
		}
	}
}

// vacate empties the rank slots of rows that the cluster no longer has.
func (f *folder) vacate() {
	src, st := &f.p.sources[f.c], &f.p.e.store
	for number := src.base + int32(src.rows); number < src.base+int32(src.had); number++ {
		if was := st.rankSlots[number]; was.need != noNeed {
			st.rankSlots[number] = rankSlot{need: noNeed}
			f.move(was, number, st.rankSlots[number])
		}
	}
}

// worth returns a kind's worth. It takes the lock, since other workers may append kinds.
func (f *folder) worth(kind uint32) uint64 {
	k := &f.p.e.store.kinds
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.list[kind].worth
}

// rank sorts all Needs from nothing: a parallel, stable LSD radix sort over words of 64 bits.
func (p *pass) rank() {
	st := &p.e.store
	words, spare := alloc.MakeDirty[uint64](p.e.arena, len(st.rankSlots)), alloc.MakeDirty[uint64](p.e.arena, len(st.rankSlots))
	parts := p.lookOver()
	all := sumParts(parts)
	low, width := all.low, bits.Len64(uint64(all.high)-uint64(all.low))
	worths, distinct := p.numberWorths()
	words = words[:all.taken]
	if width+bits.Len(uint(distinct)) > 64 {
		p.listRankSlots(words)
		sortByComparing(words, st.rankSlots, worths)
		p.placeInOrder(words, ^uint64(0))
		return
	}
	key := func(at uint64) uint64 {
		x := &st.rankSlots[at]
		return worths[x.kind]<<width | (uint64(x.arrival) - uint64(low))
	}
	// A word is the leading bits of the key, above the kind if there is room for it, above the rank
	// slot's number. With the kind in the word, the order can be written without a look at the rank
	// slots.
	numbers := bits.Len(uint(len(st.rankSlots)))
	low64 := numbers
	if kindBits := bits.Len(uint(len(p.kinds))); !p.anyFolds && !p.anySwaps && numbers+kindBits+dealtBits <= 64 {
		low64 += kindBits
	}
	number := uint64(1)<<numbers - 1
	top := width + bits.Len(uint(distinct-1))
	drop := max(0, top-min(dealtBits, 64-low64))
	p.e.crew.run(func(worker int) {
		to := words[sumParts(parts[:worker]).taken:]
		from, end := p.stretch(len(st.rankSlots), worker)
		for i, at := 0, uint64(from); at < uint64(end); at++ {
			x := &st.rankSlots[at]
			if x.need == noNeed {
				continue
			}
			w := key(at)>>drop<<low64 | at
			if low64 > numbers {
				w |= uint64(x.kind) << numbers
			}
			to[i] = w
			i++
		}
	})
	for shift := low64; shift < low64+top-drop; shift += digitBits {
		if p.dealDigit(words, spare[:len(words)], shift) {
			words, spare = spare[:len(words)], words
		}
	}
	if drop > 0 {
		ends := p.untiedEnds(words, low64)
		p.e.crew.run(func(worker int) {
			settleTies(words[ends[worker]:ends[worker+1]], low64, number, key)
		})
	}
	if low64 > numbers {
		p.orderInOrder(words, numbers, low64)
	} else {
		p.placeInOrder(words, number)
	}
}

// rankSlotsPerChunk is how many rank slots a worker takes at a time.
const rankSlotsPerChunk = 1 << 14

// stretch returns the part of n things that is a worker's when they are cut into equal, consecutive
// parts.
func (p *pass) stretch(n, worker int) (from, to int) {
	workers := p.e.crew.size()
	return n * worker / workers, n * (worker + 1) / workers
}

// rankSlotsPart summarises a part of the rank slots: how many are in use, and their earliest and latest
// arrival.
type rankSlotsPart struct {
	taken     int
	low, high int64
}

// lookOver summarises all rank slots, one part for each worker.
func (p *pass) lookOver() []rankSlotsPart {
	rankSlots, crew := p.e.store.rankSlots, p.e.crew
	parts := alloc.Make[rankSlotsPart](p.e.arena, crew.size())
	crew.run(func(worker int) {
		x := rankSlotsPart{low: math.MaxInt64, high: math.MinInt64}
		from, to := p.stretch(len(rankSlots), worker)
		for i := range rankSlots[from:to] {
			if s := &rankSlots[from+i]; s.need != noNeed {
				x = rankSlotsPart{x.taken + 1, min(x.low, s.arrival), max(x.high, s.arrival)}
			}
		}
		parts[worker] = x
	})
	return parts
}

func sumParts(parts []rankSlotsPart) rankSlotsPart {
	all := rankSlotsPart{low: math.MaxInt64, high: math.MinInt64}
	for _, x := range parts {
		all = rankSlotsPart{all.taken + x.taken, min(all.low, x.low), max(all.high, x.high)}
	}
	if all.taken == 0 {
		all.low, all.high = 0, 0
	}
	return all
}

// listRankSlots lists the numbers of the rank slots that are in use.
func (p *pass) listRankSlots(words []uint64) {
	n := 0
	for i := range p.e.store.rankSlots {
		if p.e.store.rankSlots[i].need != noNeed {
			words[n] = uint64(i)
			n++
		}
	}
}

// placeInOrder writes the order, given words whose masked bits are numbers of rank slots.
func (p *pass) placeInOrder(words []uint64, mask uint64) {
	st := &p.e.store
	p.order, p.kindAt = grown(st.order, len(words)), grown(st.kindAt, len(words))
	st.order, st.kindAt = p.order, p.kindAt
	p.e.crew.each(len(words), rankSlotsPerChunk, func(_, from, to int) {
		for i := from; i < to; i++ {
			x := &st.rankSlots[words[i]&mask]
			p.order[i], p.kindAt[i] = x.need, x.kind
			p.rankOf[x.need] = int32(i)
		}
	})
	clear(st.sorted)
}

// orderInOrder is placeInOrder for words that hold the kind above the number, where each Need sits on
// its own rank slot: no rank slot is looked up.
func (p *pass) orderInOrder(words []uint64, numbers, low64 int) {
	st := &p.e.store
	p.order, p.kindAt = grown(st.order, len(words)), grown(st.kindAt, len(words))
	st.order, st.kindAt = p.order, p.kindAt
	number, kind := uint64(1)<<numbers-1, uint64(1)<<(low64-numbers)-1
	p.e.crew.each(len(words), rankSlotsPerChunk, func(_, from, to int) {
		for i := from; i < to; i++ {
			need := int32(words[i] & number)
			p.order[i], p.kindAt[i] = need, uint32(words[i]>>numbers&kind)
			p.rankOf[need] = int32(i)
		}
	})
	clear(st.sorted)
}

// dealDigit is one pass of the radix sort, from words into spare, stable. It returns false, and moves
// nothing, when all words agree in the digit. Each worker counts and moves a stretch of its own.
func (p *pass) dealDigit(words, spare []uint64, shift int) bool {
	const digits, mask = 1 << digitBits, 1<<digitBits - 1
	crew := p.e.crew
	n := crew.size()
	stretch := func(worker int) []uint64 {
		from, to := p.stretch(len(words), worker)
		return words[from:to]
	}
	at := alloc.Make[uint32](p.e.arena, n*digits)
	crew.run(func(worker int) {
		count := at[worker*digits:][:digits]
		for _, w := range stretch(worker) {
			count[w>>shift&mask]++
		}
	})
	sum := uint32(0)
	for d := range digits {
		before := sum
		for worker := range n {
			i := worker*digits + d
			at[i], sum = sum, sum+at[i]
		}
		if sum-before == uint32(len(words)) {
			return false
		}
	}
	crew.run(func(worker int) {
		to := at[worker*digits:][:digits]
		for _, w := range stretch(worker) {
			d := w >> shift & mask
			spare[to[d]] = w
			to[d]++
		}
	})
	return true
}

// numberWorths numbers the distinct worths in ascending order; it returns each kind's number, and how
// many worths there are.
func (p *pass) numberWorths() (place []uint64, distinct int) {
	sorted := alloc.Make[uint64](p.e.arena, len(p.kinds))
	place = alloc.Make[uint64](p.e.arena, len(p.kinds))
	for i := range p.kinds {
		sorted[i] = p.kinds[i].worth
	}
	slices.Sort(sorted)
	sorted = slices.Compact(sorted)
	for i := range p.kinds {
		at, _ := slices.BinarySearch(sorted, p.kinds[i].worth)
		place[i] = uint64(at)
	}
	return place, len(sorted)
}

// untiedEnds cuts the words into one stretch for each worker, and returns the bounds. It moves bounds
// forward so that words which agree from bit from on stay in one stretch.
func (p *pass) untiedEnds(words []uint64, from int) []int {
	ends := alloc.Make[int](p.e.arena, p.e.crew.size()+1)
	for worker := range ends {
		at, _ := p.stretch(len(words), worker)
		for at > 0 && at < len(words) && words[at]>>from == words[at-1]>>from {
			at++
		}
		ends[worker] = at
	}
	return ends
}

// settleTies sorts runs of words that agree from bit from on by their whole keys, then by number.
func settleTies(words []uint64, from int, number uint64, key func(rankSlot uint64) uint64) {
	for i := 0; i < len(words); {
		j := i + 1
		for j < len(words) && words[j]>>from == words[i]>>from {
			j++
		}
		if j-i > 1 {
			slices.SortFunc(words[i:j], func(a, b uint64) int {
				return cmp.Or(cmp.Compare(key(a&number), key(b&number)), cmp.Compare(a&number, b&number))
			})
		}
		i = j
	}
}

// sortByComparing sorts numbers of rank slots by comparison, for arrivals too far apart for a key of 64
// bits.
func sortByComparing(numbers []uint64, rankSlots []rankSlot, worths []uint64) {
	slices.SortFunc(numbers, func(a, b uint64) int {
		x, y := &rankSlots[a], &rankSlots[b]
		return cmp.Or(cmp.Compare(worths[x.kind], worths[y.kind]), cmp.Compare(x.arrival, y.arrival), cmp.Compare(a, b))
	})
}

// grown returns a slice of n elements, in the memory of s if it suffices. Elements keep what was in
// that memory.
func grown[T any](s []T, n int) []T { return slices.Grow(s[:0], n)[:n] }

// resize is grown with zeroed elements.
func resize[T any](s []T, n int) []T {
	s = grown(s, n)
	clear(s)
	return s
}
