package acquire

import (
	"math"
	"slices"

	"github.com/tonnage/tonnage/engine/internal/cover"
	"github.com/tonnage/tonnage/engine/internal/exact"
	"github.com/tonnage/tonnage/engine/internal/state"
)

// Many Needs of a kind lack the same. While there are ample machines of every class, how many there are
// does not matter, and the choice is the same; see cover.Choice.Ample. So a choice is looked up, for as long
// as that is so: no class has become scarce, and none has machines again. Choices in a domain, whose classes
// differ from domain to domain, and those under Options.MaxMachineShare are not kept. The first machine under
// hard spread is looked up, too; see bestOnly.

// fitKey is what a choice was made for, beside what is missing.
type fitKey struct {
	kind  uint32
	stage int8
	of    fitOffers
}

// fitOffers says among which machines a choice was made.
type fitOffers uint8

const (
	finiteOffers  fitOffers = iota // whose cost is finite
	endlessOffers                  // the others
	onlyOffers                     // those of which one has to do: see bestOnly
)

// offersOf returns finiteOffers or endlessOffers.
func offersOf(finite bool) fitOffers {
	if finite {
		return finiteOffers
	}
	return endlessOffers
}

// hash is what a choice is found by.
func (k fitKey) hash(missing []int64) uint64 {
	return (state.Hash(missing) ^ (uint64(k.kind)<<8 | uint64(k.stage)<<4 | uint64(k.of))) * exact.Mixer
}

// fitEntry is a choice, as ranges of fitMemo.
type fitEntry struct {
	hash                    uint64
	slot                    uint32 // of fitMemo
	key                     fitKey
	missing, classes, picks [2]int32
	ample                   int32
	reopened                int
}

// fitPick is a class to take from, and the number of the offer that it belongs to; count is how many
// machines of the offer are taken.
type fitPick struct {
	class, rank  uint32
	offer, count int32
}

// fitMemo is the choices of a worker in one pass.
type fitMemo struct {
	// slots are numbers of choices, by hash, with linear probing; at most half of the slots are used. A slot is empty unless the choice
	// of its number names the slot, so slots need not be cleared. Of two choices with one hash the later is kept.
	slots   []uint32
	entries []fitEntry
	missing []int64
	classes []uint32
	picks   []fitPick
	// reopened counts how often a class without machines has got one again. Choices made before are not
	// used.
	reopened int
}

const (
	// fitMemoMax is how many choices are kept at most.
	fitMemoMax = 1 << 16
	// fitSlotsMin is the least number of slots. Their number is a power of two.
	fitSlotsMin = 1 << 10
)

func (m *fitMemo) clear() {
	m.entries, m.missing, m.classes, m.picks = m.entries[:0], m.missing[:0], m.classes[:0], m.picks[:0]
}

// slotOf returns the slot of a hash, and the choice in it; nil if it is empty.
func (m *fitMemo) slotOf(hash uint64) (slot uint32, e *fitEntry) {
	last := uint32(len(m.slots) - 1)
	for slot = uint32(hash>>32) & last; ; slot = (slot + 1) & last {
		at := m.slots[slot]
		if int(at) >= len(m.entries) || m.entries[at].slot != slot {
			return slot, nil
		}
		if e := &m.entries[at]; e.hash == hash {
			return slot, e
		}
	}
}

// put puts the choice of a number into the slot of its hash.
func (m *fitMemo) put(at int) {
	slot, _ := m.slotOf(m.entries[at].hash)
	m.slots[slot], m.entries[at].slot = uint32(at), slot
}

// find returns the choice that was made for the same, nil when there is none or when a class has got machines again since.
func (m *fitMemo) find(key fitKey, missing []int64) *fitEntry {
	if len(m.entries) == 0 {
		return nil
	}
	_, e := m.slotOf(key.hash(missing))
	if e == nil || e.key != key || e.reopened != m.reopened || !slices.Equal(m.missing[e.missing[0]:e.missing[1]], missing) {
		return nil
	}
	return e
}

// add adds a choice; nil when there are too many. The caller appends its classes and picks, and calls end then.
func (m *fitMemo) add(key fitKey, missing []int64, ample int) *fitEntry {
	n := len(m.entries)
	if n == fitMemoMax {
		return nil
	}
	e := fitEntry{hash: key.hash(missing), key: key, ample: int32(ample), reopened: m.reopened}
	e.missing[0], e.classes[0], e.picks[0] = int32(len(m.missing)), int32(len(m.classes)), int32(len(m.picks))
	m.missing = append(m.missing, missing...)
	e.missing[1] = int32(len(m.missing))
	if 2*n >= len(m.slots) {
		m.slots = make([]uint32, max(fitSlotsMin, 2*len(m.slots)))
		for at := range m.entries {
			m.put(at)
		}
	}
	m.entries = append(m.entries, e)
	m.put(n)
	return &m.entries[n]
}

func (m *fitMemo) end(e *fitEntry) {
	e.classes[1], e.picks[1] = int32(len(m.classes)), int32(len(m.picks))
}

// recall takes what was chosen for the same before; false if nothing was, or if it may be another choice now.
func (f *fitter) recall(need int32, stage int, finite bool) bool {
	l, m := f.l, &f.memo
	e := m.find(fitKey{l.p.Lines[need].Kind, int8(stage), offersOf(finite)}, l.Missing)
	if e == nil {
		return false
	}
	left := l.p.Free[stage].Left
	for _, c := range m.classes[e.classes[0]:e.classes[1]] {
		if left[c] < e.ample {
			return false
		}
	}
	f.takeHeads(need, stage, m.picks[e.picks[0]:e.picks[1]])
	return true
}

// takeHeads acquires what picks say, in the order of acquiring. The heads of classes are in that order.
func (f *fitter) takeHeads(need int32, stage int, picks []fitPick) {
	l, x := f.l, &f.l.p.Free[stage]
	if len(picks) == 1 {
		for range picks[0].count {
			l.acquireHead(picks[0].class, need, stage)
		}
		return
	}
	f.counts = f.counts[:0]
	for i := range picks {
		if int(picks[i].offer) == len(f.counts) {
			f.counts = append(f.counts, int(picks[i].count))
		}
	}
	for {
		best, key := -1, uint64(math.MaxUint64)
		for i := range picks {
			p := &picks[i]
			if k := uint64(p.rank)<<32 | uint64(x.Key[p.class]); f.counts[p.offer] > 0 && x.Has(p.class) && k < key {
				best, key = i, k
			}
		}
		if best < 0 {
			return
		}
		f.counts[picks[best].offer]--
		l.acquireHead(picks[best].class, need, stage)
	}
}

// remember keeps a choice among the sources, if other numbers of machines would not change it. what is missing
// is as it was before the choice.
func (f *fitter) remember(need int32, stage int, finite bool, choice *cover.Choice) {
	l, m := f.l, &f.memo
	if choice.Ample > fitAmpleMax {
		return
	}
	for i := range f.sources {
		if int(f.sources[i].count) < choice.Ample {
			return
		}
	}
	e := m.add(fitKey{l.p.Lines[need].Kind, int8(stage), offersOf(finite)}, l.Missing, choice.Ample)
	if e == nil {
		return
	}
	offer, last := int32(-1), int32(-1)
	for i := range f.sources {
		s := &f.sources[i]
		m.classes = append(m.classes, s.class)
		if choice.Counts[s.offer] == 0 {
			continue
		}
		if s.offer != last {
			offer, last = offer+1, s.offer
		}
		m.picks = append(m.picks, fitPick{s.class, s.rank, offer, int32(choice.Counts[s.offer])})
	}
	m.end(e)
}

// fitAmpleMax is from how many machines on a class is never ample: the largest number that a choice may be kept
// with.
const fitAmpleMax = 1 << 30
