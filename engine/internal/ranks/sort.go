package ranks

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/engine/internal/reuse"
	"github.com/tonnage/tonnage/engine/internal/workers"
)

const (
	// digitBits is how many bits of the key one pass of the radix sort looks at.
	digitBits = 11
	// dealtBits are the leading bits that the radix sort covers. Keys that agree in them are few, and
	// are settled by comparing whole keys.
	dealtBits = 3 * digitBits
)

// Sorter sorts the Needs of all slots. It writes Needs, KindAt and RankOf.
type Sorter struct {
	Crew  *workers.Crew
	Arena *alloc.Arena // of the cycle
	Slots Slots
	// Worths are, by kind, what precedes the arrival in the order: the smaller goes first.
	Worths []uint64
	// Own says that each Need sits on the slot that has its number.
	Own    bool
	Needs  []int32  // in rank order
	KindAt []uint32 // by place in the order: the Need's kind
	RankOf []int32  // by Need: the place in the order
}

// Sort sorts all Needs from nothing: a parallel, stable LSD radix sort over words of 64 bits.
func (s *Sorter) Sort() {
	words, spare := alloc.MakeDirty[uint64](s.Arena, len(s.Slots.Needs)), alloc.MakeDirty[uint64](s.Arena, len(s.Slots.Needs))
	parts := s.lookOver()
	all := sumParts(parts)
	low, width := all.low, bits.Len64(uint64(all.high)-uint64(all.low))
	worths, distinct := s.numberWorths()
	words = words[:all.taken]
	if width+bits.Len(uint(distinct)) > 64 {
		s.listSlots(words)
		s.sortByComparing(words, worths)
		s.placeInOrder(words, ^uint64(0))
		return
	}
	keyAt := func(slot uint64) uint64 {
		return keyOf(worths[s.Slots.kindOf(s.Slots.Needs[slot])], width, s.Slots.Arrival(int32(slot))-low)
	}
	// A word is the leading bits of the key, above the kind if there is room for it, above the rank
	// slot's number. With the kind in the word, the order can be written without a look at the rank
	// slots.
	numbers := bits.Len(uint(len(s.Slots.Needs)))
	low64 := numbers
	if kindBits := bits.Len(uint(len(s.Worths))); s.Own && numbers+kindBits+dealtBits <= 64 {
		low64 += kindBits
	}
	number := uint64(1)<<numbers - 1
	top := width + bits.Len(uint(distinct-1))
	drop := max(0, top-min(dealtBits, 64-low64))
	s.Crew.Run(func(worker int) {
		to := words[sumParts(parts[:worker]).taken:]
		from, end := s.stretch(len(s.Slots.Needs), worker)
		i := 0
		for x := range s.Slots.runs(from, end) {
			for at, need := range x.needs {
				if need == None {
					continue
				}
				kind := s.Slots.kindOf(need)
				w := keyOf(worths[kind], width, x.arrivals[at]-low)>>drop<<low64 | uint64(x.first+at)
				if low64 > numbers {
					w |= uint64(kind) << numbers
				}
				to[i] = w
				i++
			}
		}
	})
	for shift := low64; shift < low64+top-drop; shift += digitBits {
		if s.dealDigit(words, spare[:len(words)], shift) {
			words, spare = spare[:len(words)], words
		}
	}
	if drop > 0 {
		ends := s.untiedEnds(words, low64)
		s.Crew.Run(func(worker int) {
			settleTies(words[ends[worker]:ends[worker+1]], low64, number, keyAt)
		})
	}
	if low64 > numbers {
		s.orderInOrder(words, numbers, low64)
	} else {
		s.placeInOrder(words, number)
	}
}

// keyOf returns a sort key: a worth's number above what the arrival is after the earliest one, which takes width bits.
func keyOf(worth uint64, width int, after int64) uint64 { return worth<<width | uint64(after) }

// slotsPerChunk is how many slots a worker takes at a time.
const slotsPerChunk = 1 << 14

// stretch returns the part of n things that is a worker's when they are cut into equal, consecutive
// parts.
func (s *Sorter) stretch(n, worker int) (from, to int) {
	workers := s.Crew.Size()
	return n * worker / workers, n * (worker + 1) / workers
}

// part summarises a part of the slots: how many are in use, and their earliest and latest
// arrival.
type part struct {
	taken     int
	low, high int64
}

// lookOver summarises all slots, one part for each worker.
func (s *Sorter) lookOver() []part {
	crew := s.Crew
	parts := alloc.Make[part](s.Arena, crew.Size())
	crew.Run(func(worker int) {
		x := part{low: math.MaxInt64, high: math.MinInt64}
		from, to := s.stretch(len(s.Slots.Needs), worker)
		for y := range s.Slots.runs(from, to) {
			for at, need := range y.needs {
				if need != None {
					x = part{x.taken + 1, min(x.low, y.arrivals[at]), max(x.high, y.arrivals[at])}
				}
			}
		}
		parts[worker] = x
	})
	return parts
}

func sumParts(parts []part) part {
	all := part{low: math.MaxInt64, high: math.MinInt64}
	for _, x := range parts {
		all = part{all.taken + x.taken, min(all.low, x.low), max(all.high, x.high)}
	}
	if all.taken == 0 {
		all.low, all.high = 0, 0
	}
	return all
}

// listSlots lists the numbers of the slots that are in use.
func (s *Sorter) listSlots(words []uint64) {
	n := 0
	for x := range s.Slots.runs(0, len(s.Slots.Needs)) {
		for at, need := range x.needs {
			if need != None {
				words[n] = uint64(x.first + at)
				n++
			}
		}
	}
}

// placeInOrder writes the order, given words whose masked bits are numbers of slots.
func (s *Sorter) placeInOrder(words []uint64, mask uint64) {
	s.Needs, s.KindAt = reuse.Grown(s.Needs, len(words)), reuse.Grown(s.KindAt, len(words))
	s.Crew.Each(len(words), slotsPerChunk, func(_, from, to int) {
		for i := from; i < to; i++ {
			need := s.Slots.Needs[words[i]&mask]
			s.Needs[i], s.KindAt[i] = need, s.Slots.kindOf(need)
			s.RankOf[need] = int32(i)
		}
	})
}

// orderInOrder is placeInOrder for words that hold the kind above the number, where each Need sits on
// its own slot: no slot is looked up.
func (s *Sorter) orderInOrder(words []uint64, numbers, low64 int) {
	s.Needs, s.KindAt = reuse.Grown(s.Needs, len(words)), reuse.Grown(s.KindAt, len(words))
	number, kind := uint64(1)<<numbers-1, uint64(1)<<(low64-numbers)-1
	s.Crew.Each(len(words), slotsPerChunk, func(_, from, to int) {
		for i := from; i < to; i++ {
			need := int32(words[i] & number)
			s.Needs[i], s.KindAt[i] = need, uint32(words[i]>>numbers&kind)
			s.RankOf[need] = int32(i)
		}
	})
}

// dealDigit is one pass of the radix sort, from words into spare, stable. It returns false, and moves
// nothing, when all words agree in the digit. Each worker counts and moves a stretch of its own.
func (s *Sorter) dealDigit(words, spare []uint64, shift int) bool {
	const digits, mask = 1 << digitBits, 1<<digitBits - 1
	crew := s.Crew
	n := crew.Size()
	stretch := func(worker int) []uint64 {
		from, to := s.stretch(len(words), worker)
		return words[from:to]
	}
	at := alloc.Make[uint32](s.Arena, n*digits)
	crew.Run(func(worker int) {
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
	crew.Run(func(worker int) {
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
func (s *Sorter) numberWorths() (place []uint64, distinct int) {
	sorted := alloc.Make[uint64](s.Arena, len(s.Worths))
	place = alloc.Make[uint64](s.Arena, len(s.Worths))
	copy(sorted, s.Worths)
	slices.Sort(sorted)
	sorted = slices.Compact(sorted)
	for i, worth := range s.Worths {
		at, _ := slices.BinarySearch(sorted, worth)
		place[i] = uint64(at)
	}
	return place, len(sorted)
}

// untiedEnds cuts the words into one stretch for each worker, and returns the bounds. It moves bounds
// forward so that words which agree from bit from on stay in one stretch.
func (s *Sorter) untiedEnds(words []uint64, from int) []int {
	ends := alloc.Make[int](s.Arena, s.Crew.Size()+1)
	for worker := range ends {
		at, _ := s.stretch(len(words), worker)
		for at > 0 && at < len(words) && words[at]>>from == words[at-1]>>from {
			at++
		}
		ends[worker] = at
	}
	return ends
}

// settleTies sorts runs of words that agree from bit from on by their whole keys, then by number.
func settleTies(words []uint64, from int, number uint64, key func(slot uint64) uint64) {
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

// sortByComparing sorts numbers of slots by comparison, for arrivals too far apart for a key of 64
// bits.
func (s *Sorter) sortByComparing(numbers, worths []uint64) {
	worth := func(slot uint64) uint64 { return worths[s.Slots.kindOf(s.Slots.Needs[slot])] }
	slices.SortFunc(numbers, func(a, b uint64) int {
		return cmp.Or(cmp.Compare(worth(a), worth(b)), cmp.Compare(s.Slots.Arrival(int32(a)), s.Slots.Arrival(int32(b))), cmp.Compare(a, b))
	})
}
