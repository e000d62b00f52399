package victims

import (
	"math"
	"math/bits"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/bitmap"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/cycle"
	"github.com/tonnage/tonnage/engine/internal/state"
)

// With victims by gangs, a need that lacks something has a turn in phase 2 only if its kind may
// find something there. Most kinds that are short cannot. So all workers first find the needs
// with a turn, cluster by cluster in memory order, and precompute the outlines that these turns
// read. Kinds that only a plan of this cycle could help are watched: once one of them may find
// something, its needs get turns from there on.

// Marks of needs, by rank.
const (
	HasTurn uint8 = 1 << iota
	// IsOutlined: the need is a gang that nothing pins, and its outline is known:
	// what it wants, and what could be its own. Plans take machines from that and never add
	// any, so it stays an upper bound.
	IsOutlined
	// HasLost: a plan of this cycle has taken a machine that the need claims.
	HasLost
)

// Turns is which needs have a turn in phase 2.
type Turns struct {
	Marks []uint8      // by rank
	short []uint64     // bitmap by rank: the needs that still lack something
	gangs bitmap.Dense // bitmap by need: gangs to be outlined
	// before is, by word of gangs, the number of gangs in earlier words: with a population
	// count it gives a gang's index in at, where its outline is found.
	before []uint32
	at     []outlineAt
	// kinds are those whose needs have turns; asked are those of which some need lacks
	// something.
	kinds, asked []bool
	// watched are the kinds that are asked and have no turns.
	watched []uint32
	// since is EventsVersion() when kinds was computed.
	since uint64
}

// outlineAt locates an outline: the worker that has it, and the index in its outlines.
type outlineAt struct{ worker, at uint32 }

// OutlineOf returns what the gang at a rank wants, and what could be its own as a flat list: a
// domain's value, then the vector, for each domain.
func (p *Pass) OutlineOf(t *Turns, rank int) (want, own []int64) {
	at := t.at[t.placeOf(p.Order[rank])]
	x := p.st.Workers[at.worker].Finding.outlines[at.at:]
	n := int(x[p.Dims]) * (1 + p.Dims)
	return x[:p.Dims], x[p.Dims+1:][:n]
}

// placeOf returns the index of a gang among those to be outlined.
func (t *Turns) placeOf(need int32) int {
	word := uint32(need) >> 6
	return int(t.before[word]) + bits.OnesCount64(t.gangs.Words()[word]&(1<<(need&63)-1))
}

// IsShort reports whether the need at a rank still lacks something.
func (p *Pass) IsShort(rank int) bool { return p.Lacking[rank] && !p.Shortage.Gained[rank] }

// NobodyHasTurn reports whether phase 2 can do nothing for any need, as in a fleet without
// victims. Then the needs that lack something are not looked up at all.
func (p *Pass) NobodyHasTurn() bool {
	if p.Reserved.HadAny() || len(p.Shortage.Reconsidered) > 0 {
		return false
	}
	for i := range p.Kinds {
		if k := &p.Kinds[i]; p.Candidates.PoolOf[k.Number] != p.Candidates.noVictims || p.Stock.Skewed[i] != 0 || !p.noneFreed(k) {
			return false
		}
	}
	return true
}

// FindTurns finds the needs that have a turn, and the gangs that they may preempt.
func (l *Worker) FindTurns() *Turns {
	t := &l.p.Candidates.turns
	t.Marks, t.kinds, t.asked = alloc.Make[uint8](l.Arena, len(l.p.Order)), alloc.Make[bool](l.Arena, len(l.p.Kinds)), l.findAskers()
	classVictims := &l.p.st.Gangs.Victims
	classVictims.Most = l.mostAsked(t.asked)
	l.p.findVictimGangs()
	for i, asks := range t.asked {
		if t.kinds[i] = asks && (l.p.Stock.Skewed[i] != 0 || !l.IsExhausted(uint32(i))); asks && !t.kinds[i] {
			t.watched = alloc.Append(l.Arena, t.watched, uint32(i))
		}
	}
	for _, other := range l.p.st.Workers {
		other.Finding.outlines, other.Finding.short = other.Finding.outlines[:0], other.Finding.short[:0]
	}
	l.p.Crew.Each(len(t.short), cycle.RankWordsPerChunk, l.p.st.tasks.marks)
	l.outlineGangs()
	for need := range l.p.Reserved.Needs() {
		t.Marks[l.p.RankOf[need]] |= HasTurn
	}
	for _, need := range l.p.Shortage.Reconsidered {
		t.Marks[l.p.RankOf[need]] |= HasTurn
	}
	t.markExplained(l.p)
	t.since = l.EventsVersion()
	return t
}

// findAskers returns, by kind, whether some need of it lacks something after phase 1, and notes which needs do.
func (l *Worker) findAskers() []bool {
	if l.p.Candidates.turns.short != nil {
		return l.Finding.asks // they were found before
	}
	l.p.Candidates.turns.short = alloc.MakeDirty[uint64](l.Arena, l.p.RankWords())
	for _, other := range l.p.st.Workers {
		other.Finding.asks = alloc.Make[bool](other.Arena, len(l.p.Kinds))
	}
	l.p.Crew.Each(l.p.RankWords(), cycle.RankWordsPerChunk, l.p.st.tasks.askers)
	for i := range l.Finding.asks {
		for _, other := range l.p.st.Workers {
			l.Finding.asks[i] = l.Finding.asks[i] || other.Finding.asks[i]
		}
	}
	return l.Finding.asks
}

// noteAskers is findAskers for a range of bitmap words.
func (l *Worker) noteAskers(fromWord, toWord int) {
	from, to := l.p.RanksOf(fromWord, toWord)
	short, gained := l.p.Candidates.turns.short[fromWord:toWord], l.SetOf(l.p.Shortage.Gained[from:to])
	bitmap.FilterTrue(short, l.p.Lacking[from:to])
	bitmap.AndNot(short, short, gained)
	for w, word := range short {
		for ; word != 0; word &= word - 1 {
			l.Finding.asks[l.p.KindAt[from+w<<6+bits.TrailingZeros64(word)]] = true
		}
	}
}

// mostAsked returns, by class, the highest priority that asks for victims of it.
func (l *Worker) mostAsked(asks []bool) []int32 {
	most := alloc.MakeDirty[int32](l.Arena, len(l.p.Snap.Classes))
	for c := range most {
		most[c] = math.MinInt32
	}
	for i := range l.p.Kinds {
		if asks[i] && l.p.Candidates.PoolOf[i] != l.p.Candidates.noVictims {
			for _, c := range l.p.ClassesOf[l.p.Kinds[i].Matcher] {
				most[c] = max(most[c], l.p.Kinds[i].Priority)
			}
		}
	}
	return most
}

// markTurns marks, for a range of bitmap words, the needs that have a turn, and lists the gangs
// among them.
func (l *Worker) markTurns(fromWord, toWord int) {
	t := &l.p.Candidates.turns
	for w := fromWord; w < toWord; w++ {
		for word := t.short[w]; word != 0; word &= word - 1 {
			rank := w<<6 + bits.TrailingZeros64(word)
			if kind := l.p.KindAt[rank]; t.kinds[kind] {
				if t.Marks[rank] = HasTurn; l.p.Kinds[kind].Same && !l.p.Shortage.Special.Has(uint32(rank)) {
					l.Finding.short = append(l.Finding.short, l.p.Order[rank])
				}
			}
		}
	}
}

// outlineGangs computes the outlines of the listed gangs. It visits needs by number, which is
// cluster by cluster in memory; in rank order nearly every access would be a cache miss.
func (l *Worker) outlineGangs() {
	l.p.Candidates.turns.gangs = bitmap.DenseIn(l.Arena, len(l.p.Lines))
	for _, other := range l.p.st.Workers {
		for _, need := range other.Finding.short {
			l.p.Candidates.turns.gangs.Set(uint32(need))
		}
	}
	words := l.p.Candidates.turns.gangs.Words()
	l.p.Candidates.turns.before = alloc.MakeDirty[uint32](l.Arena, len(words))
	n := 0
	for i, word := range words {
		l.p.Candidates.turns.before[i] = uint32(n)
		n += bits.OnesCount64(word)
	}
	l.p.Candidates.turns.at = alloc.MakeDirty[outlineAt](l.Arena, n)
	l.p.Crew.Each(len(words), wordsPerChunk, l.p.st.tasks.outlines)
}

// outlineSome is outlineGangs for a range of words of the bitmap.
func (l *Worker) outlineSome(from, to int) {
	for i, word := range l.p.Candidates.turns.gangs.Words()[from:to] {
		for ; word != 0; word &= word - 1 {
			l.outline(int32((from+i)<<6 + bits.TrailingZeros64(word)))
		}
	}
}

// wordsPerChunk is how many words of a bitmap of needs a worker takes at a time.
const wordsPerChunk = 1 << 7

// outline computes what a gang wants, and what could be its own by domain. It appends to
// l.Finding.outlines the vector, the number of domains, then value and vector of each.
func (l *Worker) outline(need int32) {
	t, n := &l.p.Candidates.turns, &l.p.Lines[need]
	if n.Is(state.IsParked | state.IsPinned) { // a pinned one (here by a machine that is being created for it) has no choice of domains
		return
	}
	k, domainTotals := &l.p.Kinds[n.Kind], &l.Finding.DomainTotals
	domainTotals.Reset(l.p.Snap.Supply.ValueIDMax())
	add := func(r columnar.Row) {
		if v, ok := l.p.Snap.Supply.Domain(k.Matcher, r); ok {
			columnar.SatAdd(domainTotals.Of(v, l.p.Dims).Available, l.p.Vec(r))
		}
	}
	l.EachOwn(need, k, add)
	for r := n.Acquired; r != columnar.None; r = l.p.Claims.Next(r, n) {
		add(r)
	}
	rank, from := l.p.RankOf[need], len(l.Finding.outlines)
	t.Marks[rank] |= IsOutlined
	t.at[t.placeOf(need)] = outlineAt{uint32(l.Number), uint32(from)}
	l.Finding.outlines = append(l.Finding.outlines, l.p.Aggregate(need)...)
	for len(l.Finding.outlines) < from+l.p.Dims {
		l.Finding.outlines = append(l.Finding.outlines, 0)
	}
	l.Finding.outlines = append(l.Finding.outlines, int64(len(domainTotals.List)))
	for i := range domainTotals.List {
		l.Finding.outlines = append(append(l.Finding.outlines, int64(domainTotals.List[i].Value)), domainTotals.List[i].Available...)
	}
}

// Watch gives turns, from a rank on, to the needs of kinds that could find nothing before, if
// something has happened since that may help them.
func (l *Worker) Watch(t *Turns, from int) {
	if t.since == l.EventsVersion() {
		return
	}
	t.since = l.EventsVersion()
	var more []bool
	watched := t.watched[:0]
	for _, i := range t.watched {
		if l.IsExhausted(i) {
			watched = append(watched, i)
			continue
		}
		if t.kinds[i] = true; more == nil {
			more = alloc.Make[bool](l.Arena, len(l.p.Kinds))
		}
		more[i] = true
	}
	t.watched = watched
	if more == nil {
		return
	}
	for rank := from; rank < len(l.p.Order); rank++ {
		if l.p.IsShort(rank) && more[l.p.KindAt[rank]] {
			t.Marks[rank] |= HasTurn
		}
	}
}

// Next returns the first rank, from at on, whose need has a turn; the number of needs when
// there is none.
func (t *Turns) Next(at int) int { return cycle.NextMark(t.Marks, at) }
