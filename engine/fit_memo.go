package engine

import (
	"math"
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/cover"
)

// Many Needs of a kind lack the same. While there are ample machines of every class, how many there are
// does not matter, and the choice is the same; see cover.Choice.Ample. So a choice is looked up, for as long
// as that is so: no class has become scarce, and none has machines again. Choices in a domain, whose classes
// differ from domain to domain, and those under Options.MaxMachineShare are not kept.

// fitKey is what a choice is looked up by; missing is hashOf what is missing.
type fitKey struct {
	kind    uint32
	missing uint64
	stage   int8
	finite  bool
}

// fitEntry is a choice, as ranges of fitMemo.
type fitEntry struct {
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
	index   map[fitKey]int32
	entries []fitEntry
	missing []int64
	classes []uint32
	picks   []fitPick
	// reopened counts how often a class without machines has got one again. Choices made before are not
	// used.
	reopened int
}

// fitMemoMax is how many choices are kept at most.
const fitMemoMax = 1 << 16

func (m *fitMemo) clear() {
	if m.index == nil {
		m.index = map[fitKey]int32{}
	}
	clear(m.index)
	m.entries, m.missing, m.classes, m.picks = m.entries[:0], m.missing[:0], m.classes[:0], m.picks[:0]
}

// recall takes what was chosen for the same before; false if nothing was, or if it may be another choice now.
func (f *fitter) recall(need int32, stage int, finite bool) bool {
	l, m := f.l, &f.memo
	at, ok := m.index[fitKey{l.lines[need].kind, hashOf(l.missing), int8(stage), finite}]
	if !ok {
		return false
	}
	e := &m.entries[at]
	if e.reopened != m.reopened || !slices.Equal(m.missing[e.missing[0]:e.missing[1]], l.missing) {
		return false
	}
	left := l.free[stage].left
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
	l, x := f.l, &f.l.free[stage]
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
			if k := uint64(p.rank)<<32 | uint64(x.key[p.class]); f.counts[p.offer] > 0 && x.key[p.class] != exhausted && k < key {
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
	if choice.Ample > fitAmpleMax || len(m.entries) == fitMemoMax {
		return
	}
	for i := range f.sources {
		if int(f.sources[i].count) < choice.Ample {
			return
		}
	}
	e := fitEntry{ample: int32(choice.Ample), reopened: m.reopened}
	e.missing[0], e.classes[0], e.picks[0] = int32(len(m.missing)), int32(len(m.classes)), int32(len(m.picks))
	m.missing = append(m.missing, l.missing...)
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
	e.missing[1], e.classes[1], e.picks[1] = int32(len(m.missing)), int32(len(m.classes)), int32(len(m.picks))
	m.index[fitKey{l.lines[need].kind, hashOf(l.missing), int8(stage), finite}] = int32(len(m.entries))
	m.entries = append(m.entries, e)
}

// fitAmpleMax is from how many machines on a class is never ample: the largest number that a choice may be kept
// with.
const fitAmpleMax = 1 << 30

// noteReopened notes that a class without machines gets one again.
func (l *worker) noteReopened(r columnar.Row, stage int) {
	if l.fit != nil && l.free[stage].key[l.s.View.Class[r]] == exhausted {
		l.fit.memo.reopened++
	}
}
