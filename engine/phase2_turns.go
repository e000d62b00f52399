package engine

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/bitmap"
	"github.com/tonnage/tonnage/columnar"
)

// With gangs, a need that lacks something has a turn in phase 2 when its kind may
// find something there. Most kinds that are short may not, so the needs that have
// one are found first, by all workers, cluster by cluster as lines lie in memory;
// and with them what their turns look at, so that these need not. What only plans
// could give a kind is watched: its needs have their turns from then on.

// The marks of needs, by place in the order.
const (
	hasTurn uint8 = 1 << iota
	// isOutlined: of a gang for which nothing is held it is known what it wants, and
	// what could be its own. Plans take from that, and give nothing to it.
	isOutlined
)

// turns are the needs that have a turn.
type turns struct {
	marks []uint8      // by place in the order
	short []uint64     // the places of those that lack something yet, as a set
	gangs bitmap.Dense // by need: those whose outlines are wanted
	// Of the gangs before each word of that set, how many there are, and of each
	// where its outline is.
	before []uint32
	at     []outlineAt
	// kinds are those whose needs have turns; asked those of which some need lacks
	// something.
	kinds, asked []bool
	// since is what had happened when kinds was found.
	since uint64
}

// outlineAt is a place in the outlines of a worker.
type outlineAt struct{ worker, at uint32 }

// outlineOf returns what the gang in a place of the order wants, and what could be
// its own: value of a domain and vector by turns.
func (l *worker) outlineOf(t *turns, rank int) (want, own []int64) {
	at := t.at[t.placeOf(l.order[rank])]
	x := l.e.workers[at.worker].outlines[at.at:]
	n := int(x[l.dims]) * (1 + l.dims)
	return x[:l.dims], x[l.dims+1:][:n]
}

// placeOf returns the place of a gang among those whose outlines are wanted.
func (t *turns) placeOf(need int32) int {
	word := uint32(need) >> 6
	return int(t.before[word]) + bits.OnesCount64(t.gangs.Words()[word]&(1<<(need&63)-1))
}

// isShort reports whether the need in a place of the order lacks something yet.
func (l *worker) isShort(rank int) bool { return l.lacking[rank] && !l.gained[rank] }

// ranksPerChunk is how many places of the order a worker takes at a time, in words of a
// set of them: what needs lack and have gained lies in columns of bytes, of which all
// are read, and a third are set.
const (
	ranksPerChunk     = 1 << 12
	rankWordsPerChunk = ranksPerChunk / 64
)

// rankWords returns how many words a set of places in the order has.
func (p *pass) rankWords() int { return (len(p.order) + 63) / 64 }

// ranksOf returns the places in the order that some words of a set of them stand for.
func (p *pass) ranksOf(fromWord, toWord int) (from, to int) {
	return fromWord * 64, min(toWord*64, len(p.order))
}

// nobodyHasTurn reports whether phase 2 can do nothing for anybody, as in a fleet that
// has nobody to preempt yet: which needs lack something is not looked up then.
func (l *worker) nobodyHasTurn() bool {
	if len(l.reserved.rows) > 0 {
		return false
	}
	for i := range l.kinds {
		if k := &l.kinds[i]; k.victims != l.noVictims || l.skewed[i] != 0 || !l.noneFreed(k) {
			return false
		}
	}
	return true
}

// findTurns finds the needs that have a turn, and the gangs that they may look at.
func (l *worker) findTurns() *turns {
	t := &l.turns
	*t = turns{
		marks: alloc.Make[uint8](l.arena, len(l.order)), short: alloc.MakeDirty[uint64](l.arena, l.rankWords()),
		kinds: alloc.Make[bool](l.arena, len(l.kinds)),
	}
	t.asked = l.findAskers()
	classVictims := &l.e.store.gangs.victims
	classVictims.most = l.mostAsked(t.asked)
	l.findVictimGangs()
	for i, asks := range t.asked {
		t.kinds[i] = asks && (l.skewed[i] != 0 || !l.isExhausted(uint32(i)))
	}
	for _, other := range l.e.workers {
		other.outlines, other.short = other.outlines[:0], other.short[:0]
	}
	l.e.crew.each(len(t.short), rankWordsPerChunk, l.e.tasks.marks)
	l.outlineGangs()
	for need := range l.reserved.rows {
		t.marks[l.rankOf[need]] |= hasTurn
	}
	t.since = l.happened()
	return t
}

// findAskers returns, by kind, whether some need of it lacks something.
func (l *worker) findAskers() []bool {
	for _, other := range l.e.workers {
		other.asks = alloc.Make[bool](other.arena, len(l.kinds))
	}
	l.e.crew.each(l.rankWords(), rankWordsPerChunk, l.e.tasks.askers)
	for i := range l.asks {
		for _, other := range l.e.workers {
			l.asks[i] = l.asks[i] || other.asks[i]
		}
	}
	return l.asks
}

// noteAskers is findAskers for some words of the places of the order.
func (l *worker) noteAskers(fromWord, toWord int) {
	from, to := l.ranksOf(fromWord, toWord)
	short, gained := l.turns.short[fromWord:toWord], l.setOf(l.gained[from:to])
	bitmap.FilterTrue(short, l.lacking[from:to])
	bitmap.AndNot(short, short, gained)
	for w, word := range short {
		for ; word != 0; word &= word - 1 {
			l.asks[l.kindAt[from+w<<6+bits.TrailingZeros64(word)]] = true
		}
	}
}

// setOf returns the places at which a column is true; it is good until the next call.
func (l *worker) setOf(column []bool) []uint64 {
	l.places = resize(l.places, (len(column)+63)/64)
	bitmap.FilterTrue(l.places, column)
	return l.places
}

// mostAsked returns, by class, the highest priority that asks for victims of it.
func (l *worker) mostAsked(asks []bool) []int32 {
	most := alloc.MakeDirty[int32](l.arena, len(l.s.Classes))
	for c := range most {
		most[c] = math.MinInt32
	}
	for i := range l.kinds {
		if asks[i] && l.kinds[i].victims != l.noVictims {
			for _, c := range l.classesOf[l.kinds[i].matcher] {
				most[c] = max(most[c], l.kinds[i].priority)
			}
		}
	}
	return most
}

// markTurns marks, of the needs in some words of the places of the order, those that
// have a turn, and notes the gangs among them.
func (l *worker) markTurns(fromWord, toWord int) {
	t := &l.turns
	for w := fromWord; w < toWord; w++ {
		for word := t.short[w]; word != 0; word &= word - 1 {
			rank := w<<6 + bits.TrailingZeros64(word)
			if kind := l.kindAt[rank]; t.kinds[kind] {
				if t.marks[rank] = hasTurn; l.kinds[kind].same && !l.special[rank] {
					l.short = append(l.short, l.order[rank])
				}
			}
		}
	}
}

// outlineGangs finds out what the gangs that were noted want, and have. It goes from
// cluster to cluster, as needs are numbered: the order of ranks would have it wait
// for memory each time.
func (l *worker) outlineGangs() {
	l.turns.gangs = bitmap.DenseIn(l.arena, len(l.lines))
	for _, other := range l.e.workers {
		for _, need := range other.short {
			l.turns.gangs.Set(uint32(need))
		}
	}
	words := l.turns.gangs.Words()
	l.turns.before = alloc.MakeDirty[uint32](l.arena, len(words))
	n := 0
	for i, word := range words {
		l.turns.before[i] = uint32(n)
		n += bits.OnesCount64(word)
	}
	l.turns.at = alloc.MakeDirty[outlineAt](l.arena, n)
	l.e.crew.each(len(words), wordsPerChunk, l.e.tasks.outlines)
}

// outlineSome is outlineGangs for some words of the set.
func (l *worker) outlineSome(from, to int) {
	for i, word := range l.turns.gangs.Words()[from:to] {
		for ; word != 0; word &= word - 1 {
			l.outline(int32((from+i)<<6 + bits.TrailingZeros64(word)))
		}
	}
}

// wordsPerChunk is how many words of a set of needs a worker takes at a time.
const wordsPerChunk = 1 << 7

// outline finds out what a gang wants, and what could be its own by domain.
func (l *worker) outline(need int32) {
	t, n := &l.turns, &l.lines[need]
	if n.is(isParked) {
		return
	}
	k, domainTotals := &l.kinds[n.kind], &l.domainTotals
	domainTotals.reset(l.s.Supply.ValueIDMax())
	add := func(r columnar.Row) {
		if v, ok := l.s.Supply.Domain(k.matcher, r); ok {
			columnar.SatAdd(domainTotals.of(v, l.dims).available, l.vec(r))
		}
	}
	l.eachOwn(need, k, add)
	for r := n.acquired; r != columnar.None; r = l.held[r].next {
		add(r)
	}
	rank, from := l.rankOf[need], len(l.outlines)
	t.marks[rank] |= isOutlined
	t.at[t.placeOf(need)] = outlineAt{uint32(l.number), uint32(from)}
	l.outlines = append(l.outlines, l.aggregate(need)...)
	for len(l.outlines) < from+l.dims {
		l.outlines = append(l.outlines, 0)
	}
	l.outlines = append(l.outlines, int64(len(domainTotals.list)))
	for i := range domainTotals.list {
		l.outlines = append(append(l.outlines, int64(domainTotals.list[i].value)), domainTotals.list[i].available...)
	}
}

// watch gives turns, from a place in the order on, to the needs of kinds for which
// phase 2 could do nothing, when something has happened since that may give them
// something.
func (l *worker) watch(t *turns, from int) {
	if t.since == l.happened() {
		return
	}
	t.since = l.happened()
	var more []bool
	for i := range l.kinds {
		if t.kinds[i] || !t.asked[i] || l.isExhausted(uint32(i)) {
			continue
		}
		if t.kinds[i] = true; more == nil {
			more = alloc.Make[bool](l.arena, len(l.kinds))
		}
		more[i] = true
	}
	if more == nil {
		return
	}
	for rank := from; rank < len(l.order); rank++ {
		if l.isShort(rank) && more[l.kindAt[rank]] {
			t.marks[rank] |= hasTurn
		}
	}
}

// next returns the first place of the order, from one on, whose need has a turn;
// the number of needs when there is none.
func (t *turns) next(at int) int { return nextMark(t.marks, at) }

// nextMark returns the first place, from one on, that is marked; the number of
// places when none is.
func nextMark(marks []uint8, at int) int {
	for at+8 <= len(marks) && binary.LittleEndian.Uint64(marks[at:]) == 0 {
		at += 8
	}
	for at < len(marks) && marks[at] == 0 {
		at++
	}
	return at
}
