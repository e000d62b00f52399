package engine

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/bitmap"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/reuse"
	"github.com/tonnage/tonnage/engine/internal/state"
)

// With victims by gangs, a need that lacks something has a turn in phase 2 only if its kind may
// find something there. Most kinds that are short cannot. So all workers first find the needs
// with a turn, cluster by cluster in memory order, and precompute the outlines that these turns
// read. Kinds that only a plan of this cycle could help are watched: once one of them may find
// something, its needs get turns from there on.

// Marks of needs, by rank.
const (
	hasTurn uint8 = 1 << iota
	// isOutlined: the need is a gang for which nothing is reserved, and its outline is known:
	// what it wants, and what could be its own. Plans take machines from that and never add
	// any, so it stays an upper bound.
	isOutlined
	// hasLost: a plan of this cycle has taken a machine that the need claims.
	hasLost
)

// turns is which needs have a turn in phase 2.
type turns struct {
	marks []uint8      // by rank
	short []uint64     // bitmap by rank: the needs that still lack something
	gangs bitmap.Dense // bitmap by need: gangs to be outlined
	// before is, by word of gangs, the number of gangs in earlier words: with a population
	// count it gives a gang's index in at, where its outline is found.
	before []uint32
	at     []outlineAt
	// kinds are those whose needs have turns; asked are those of which some need lacks
	// something.
	kinds, asked []bool
	// since is happened() when kinds was computed.
	since uint64
}

// outlineAt locates an outline: the worker that has it, and the index in its outlines.
type outlineAt struct{ worker, at uint32 }

// outlineOf returns what the gang at a rank wants, and what could be its own as a flat list: a
// domain's value, then the vector, for each domain.
func (p *pass) outlineOf(t *turns, rank int) (want, own []int64) {
	at := t.at[t.placeOf(p.order[rank])]
	x := p.e.workers[at.worker].search.outlines[at.at:]
	n := int(x[p.dims]) * (1 + p.dims)
	return x[:p.dims], x[p.dims+1:][:n]
}

// placeOf returns the index of a gang among those to be outlined.
func (t *turns) placeOf(need int32) int {
	word := uint32(need) >> 6
	return int(t.before[word]) + bits.OnesCount64(t.gangs.Words()[word]&(1<<(need&63)-1))
}

// isShort reports whether the need at a rank still lacks something.
func (p *pass) isShort(rank int) bool { return p.lacking[rank] && !p.shortage.gained[rank] }

// ranksPerChunk is how many ranks a worker takes at a time; rankWordsPerChunk is the same in
// words of a bitmap. The inputs are columns of bytes, of which all are read and about a third
// are set.
const (
	ranksPerChunk     = 1 << 12
	rankWordsPerChunk = ranksPerChunk / 64
)

// rankWords returns the number of words of a bitmap by rank.
func (nt *needTable) rankWords() int { return (len(nt.order) + 63) / 64 }

// ranksOf returns the range of ranks that a range of bitmap words stands for.
func (nt *needTable) ranksOf(fromWord, toWord int) (from, to int) {
	return fromWord * 64, min(toWord*64, len(nt.order))
}

// nobodyHasTurn reports whether phase 2 can do nothing for any need, as in a fleet without
// victims. Then the needs that lack something are not looked up at all.
func (p *pass) nobodyHasTurn() bool {
	if p.reserved.HadAny() {
		return false
	}
	for i := range p.kinds {
		if k := &p.kinds[i]; p.candidates.poolOf[k.Number] != p.candidates.noVictims || p.shortage.skewed[i] != 0 || !p.noneFreed(k) {
			return false
		}
	}
	return true
}

// findTurns finds the needs that have a turn, and the gangs that they may preempt.
func (l *worker) findTurns() *turns {
	t := &l.p.candidates.turns
	t.marks, t.kinds, t.asked = alloc.Make[uint8](l.arena, len(l.p.order)), alloc.Make[bool](l.arena, len(l.p.kinds)), l.findAskers()
	classVictims := &l.p.e.store.gangs.victims
	classVictims.Most = l.mostAsked(t.asked)
	l.p.findVictimGangs()
	for i, asks := range t.asked {
		t.kinds[i] = asks && (l.p.shortage.skewed[i] != 0 || !l.isExhausted(uint32(i)))
	}
	for _, other := range l.p.e.workers {
		other.search.outlines, other.search.short = other.search.outlines[:0], other.search.short[:0]
	}
	l.p.e.crew.Each(len(t.short), rankWordsPerChunk, l.p.e.tasks.marks)
	l.outlineGangs()
	for need := range l.p.reserved.Needs() {
		t.marks[l.p.rankOf[need]] |= hasTurn
	}
	t.since = l.happened()
	return t
}

// findAskers returns, by kind, whether some need of it lacks something after phase 1, and notes which needs do.
func (l *worker) findAskers() []bool {
	if l.p.candidates.turns.short != nil {
		return l.search.asks // they were found before
	}
	l.p.candidates.turns.short = alloc.MakeDirty[uint64](l.arena, l.p.rankWords())
	for _, other := range l.p.e.workers {
		other.search.asks = alloc.Make[bool](other.arena, len(l.p.kinds))
	}
	l.p.e.crew.Each(l.p.rankWords(), rankWordsPerChunk, l.p.e.tasks.askers)
	for i := range l.search.asks {
		for _, other := range l.p.e.workers {
			l.search.asks[i] = l.search.asks[i] || other.search.asks[i]
		}
	}
	return l.search.asks
}

// noteAskers is findAskers for a range of bitmap words.
func (l *worker) noteAskers(fromWord, toWord int) {
	from, to := l.p.ranksOf(fromWord, toWord)
	short, gained := l.p.candidates.turns.short[fromWord:toWord], l.setOf(l.p.shortage.gained[from:to])
	bitmap.FilterTrue(short, l.p.lacking[from:to])
	bitmap.AndNot(short, short, gained)
	for w, word := range short {
		for ; word != 0; word &= word - 1 {
			l.search.asks[l.p.kindAt[from+w<<6+bits.TrailingZeros64(word)]] = true
		}
	}
}

// setOf returns a column as a bitmap, valid until the next call.
func (l *worker) setOf(column []bool) []uint64 {
	l.search.places = reuse.Resize(l.search.places, (len(column)+63)/64)
	bitmap.FilterTrue(l.search.places, column)
	return l.search.places
}

// mostAsked returns, by class, the highest priority that asks for victims of it.
func (l *worker) mostAsked(asks []bool) []int32 {
	most := alloc.MakeDirty[int32](l.arena, len(l.p.s.Classes))
	for c := range most {
		most[c] = math.MinInt32
	}
	for i := range l.p.kinds {
		if asks[i] && l.p.candidates.poolOf[i] != l.p.candidates.noVictims {
			for _, c := range l.p.classesOf[l.p.kinds[i].Matcher] {
				most[c] = max(most[c], l.p.kinds[i].Priority)
			}
		}
	}
	return most
}

// markTurns marks, for a range of bitmap words, the needs that have a turn, and lists the gangs
// among them.
func (l *worker) markTurns(fromWord, toWord int) {
	t := &l.p.candidates.turns
	for w := fromWord; w < toWord; w++ {
		for word := t.short[w]; word != 0; word &= word - 1 {
			rank := w<<6 + bits.TrailingZeros64(word)
			if kind := l.p.kindAt[rank]; t.kinds[kind] {
				if t.marks[rank] = hasTurn; l.p.kinds[kind].Same && !l.p.shortage.special[rank] {
					l.search.short = append(l.search.short, l.p.order[rank])
				}
			}
		}
	}
}

// outlineGangs computes the outlines of the listed gangs. It visits needs by number, which is
// cluster by cluster in memory; in rank order nearly every access would be a cache miss.
func (l *worker) outlineGangs() {
	l.p.candidates.turns.gangs = bitmap.DenseIn(l.arena, len(l.p.lines))
	for _, other := range l.p.e.workers {
		for _, need := range other.search.short {
			l.p.candidates.turns.gangs.Set(uint32(need))
		}
	}
	words := l.p.candidates.turns.gangs.Words()
	l.p.candidates.turns.before = alloc.MakeDirty[uint32](l.arena, len(words))
	n := 0
	for i, word := range words {
		l.p.candidates.turns.before[i] = uint32(n)
		n += bits.OnesCount64(word)
	}
	l.p.candidates.turns.at = alloc.MakeDirty[outlineAt](l.arena, n)
	l.p.e.crew.Each(len(words), wordsPerChunk, l.p.e.tasks.outlines)
}

// outlineSome is outlineGangs for a range of words of the bitmap.
func (l *worker) outlineSome(from, to int) {
	for i, word := range l.p.candidates.turns.gangs.Words()[from:to] {
		for ; word != 0; word &= word - 1 {
			l.outline(int32((from+i)<<6 + bits.TrailingZeros64(word)))
		}
	}
}

// wordsPerChunk is how many words of a bitmap of needs a worker takes at a time.
const wordsPerChunk = 1 << 7

// outline computes what a gang wants, and what could be its own by domain. It appends to
// l.outlines the vector, the number of domains, then value and vector of each.
func (l *worker) outline(need int32) {
	t, n := &l.p.candidates.turns, &l.p.lines[need]
	if n.Is(state.IsParked) {
		return
	}
	k, domainTotals := &l.p.kinds[n.Kind], &l.search.domainTotals
	domainTotals.reset(l.p.s.Supply.ValueIDMax())
	add := func(r columnar.Row) {
		if v, ok := l.p.s.Supply.Domain(k.Matcher, r); ok {
			columnar.SatAdd(domainTotals.of(v, l.p.dims).available, l.p.vec(r))
		}
	}
	l.eachOwn(need, k, add)
	for r := n.Acquired; r != columnar.None; r = l.p.claims.Next(r) {
		add(r)
	}
	rank, from := l.p.rankOf[need], len(l.search.outlines)
	t.marks[rank] |= isOutlined
	t.at[t.placeOf(need)] = outlineAt{uint32(l.number), uint32(from)}
	l.search.outlines = append(l.search.outlines, l.p.aggregate(need)...)
	for len(l.search.outlines) < from+l.p.dims {
		l.search.outlines = append(l.search.outlines, 0)
	}
	l.search.outlines = append(l.search.outlines, int64(len(domainTotals.list)))
	for i := range domainTotals.list {
		l.search.outlines = append(append(l.search.outlines, int64(domainTotals.list[i].value)), domainTotals.list[i].available...)
	}
}

// watch gives turns, from a rank on, to the needs of kinds that could find nothing before, if
// something has happened since that may help them.
func (l *worker) watch(t *turns, from int) {
	if t.since == l.happened() {
		return
	}
	t.since = l.happened()
	var more []bool
	for i := range l.p.kinds {
		if t.kinds[i] || !t.asked[i] || l.isExhausted(uint32(i)) {
			continue
		}
		if t.kinds[i] = true; more == nil {
			more = alloc.Make[bool](l.arena, len(l.p.kinds))
		}
		more[i] = true
	}
	if more == nil {
		return
	}
	for rank := from; rank < len(l.p.order); rank++ {
		if l.p.isShort(rank) && more[l.p.kindAt[rank]] {
			t.marks[rank] |= hasTurn
		}
	}
}

// next returns the first rank, from at on, whose need has a turn; the number of needs when
// there is none.
func (t *turns) next(at int) int { return nextMark(t.marks, at) }

// nextMark returns the first index, from at on, that is marked; len(marks) when none is. It
// skips eight unmarked entries per load.
func nextMark(marks []uint8, at int) int {
	for at+8 <= len(marks) && binary.LittleEndian.Uint64(marks[at:]) == 0 {
		at += 8
	}
	for at < len(marks) && marks[at] == 0 {
		at++
	}
	return at
}
