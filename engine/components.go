package engine

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/engine/internal/workers"
)

// Kinds that share no class of machines, not even through other kinds, do not compete. Kinds and
// classes form a bipartite graph, and each worker takes whole connected components of it. Within a
// component Needs have their turns in rank order, so the answer is that of one worker.

// componentsMin is the weight of Needs from which on components are divided among workers. Tests lower
// it.
var componentsMin = 1 << 11

// largestShare is the percentage of the weight above which one component is so large that dividing
// gains nothing.
const largestShare = 97

// shares says which worker has each kind and each class.
type shares struct {
	kind, class []uint8
	workers     int
	turns       int // an upper estimate of how many Needs will acquire something
}

// share assigns the components to the workers. One worker gets all when dividing would gain nothing.
func (l *worker) share() shares {
	workers := min(l.p.e.crew.Size(), WorkersMax-1)
	if workers == 1 {
		return shares{workers: 1}
	}
	kinds, classes := len(l.p.kinds), len(l.p.s.Classes)
	sets := newUnion(l.arena, kinds+classes)
	first := alloc.Make[int32](l.arena, len(l.p.classesOf)) // 1 + the first kind of a matcher
	for i := range l.p.kinds {
		m := l.p.kinds[i].Matcher
		if first[m] != 0 {
			sets.unite(i, int(first[m]-1)) // they share ladders
			continue
		}
		first[m] = int32(i) + 1
		for _, c := range l.p.classesOf[m] {
			if l.p.stock.free[0].Has(c) || l.p.stock.free[1].Has(c) || l.p.reserved.Lower.HasClass(c) {
				sets.unite(i, kinds+int(c))
			}
		}
	}
	for c := range l.p.e.store.clusters { // Needs that wait in one cluster may be credited the same machines
		list := l.p.e.store.clusters[c].waitKinds
		for _, kind := range list[min(1, len(list)):] {
			sets.unite(int(list[0]), int(kind))
		}
	}
	weights, total := l.weighComponents(&sets)
	turns := min(total, len(l.p.s.Idle.Rows)+len(l.p.s.Speculative.Rows)) // each of them takes at least one machine
	if total < componentsMin {
		return shares{workers: 1, turns: turns}
	}
	worker, ok := dealComponents(l.arena, weights, total, workers)
	if !ok {
		return shares{workers: 1, turns: turns}
	}
	x := shares{kind: alloc.Make[uint8](l.arena, kinds), class: alloc.Make[uint8](l.arena, classes), workers: workers, turns: turns}
	for i := range x.kind {
		x.kind[i] = worker[sets.root(i)]
	}
	for c := range x.class {
		x.class[c] = worker[sets.root(kinds+c)]
	}
	return x
}

// specialWeight is the weight of a Need whose turn certainly costs work: one with a reservation or a
// postponed credit. Most others come when nothing is left for their kind, and weigh 1.
const specialWeight = 8

// weighComponents sums the weights of the Needs of each component, by its root.
func (l *worker) weighComponents(sets *union) (weights []int32, total int) {
	weights = alloc.Make[int32](l.arena, len(sets.parent))
	for i := range l.p.kinds {
		for _, other := range l.p.e.workers {
			n := other.acquiring.byKind[i]
			weights[sets.root(i)] += n
			total += int(n)
		}
	}
	return weights, total
}

// findAsking marks the Needs whose turn may come to something, and sums their weights by kind.
func (p *pass) findAsking() {
	p.shortage.asking = alloc.Make[uint8](p.e.arena, len(p.order))
	for _, l := range p.e.workers {
		l.acquiring.byKind = alloc.Make[int32](l.arena, len(p.kinds))
	}
	p.e.crew.Each(p.rankWords(), rankWordsPerChunk, p.e.tasks.asking)
}

// markAsking is findAsking for a range of 64-bit words of the order's bitmap.
func (l *worker) markAsking(fromWord, toWord int) {
	from, to := l.p.ranksOf(fromWord, toWord)
	for w, word := range l.setOf(l.p.lacking[from:to]) {
		for ; word != 0; word &= word - 1 {
			rank := from + w<<6 + bits.TrailingZeros64(word)
			kind, weight := l.p.kindAt[rank], int32(specialWeight)
			if l.p.isIdle(rank, kind, false) {
				continue
			}
			if !l.p.shortage.special[rank] && !l.p.shortage.waits[rank] {
				weight = 1
			}
			l.p.shortage.asking[rank] = 1
			l.acquiring.byKind[kind] += weight
		}
	}
}

// dealComponents gives each component, the heaviest first, to the worker with the least load; ok is
// false when one component has nearly all the weight.
func dealComponents(a *alloc.Arena, weights []int32, total, workers int) (worker []uint8, ok bool) {
	roots := alloc.MakeDirty[int32](a, len(weights))[:0]
	for i, w := range weights {
		if w > 0 {
			roots = append(roots, int32(i))
		}
	}
	slices.SortFunc(roots, func(a, b int32) int { return cmp.Or(cmp.Compare(weights[b], weights[a]), cmp.Compare(a, b)) })
	if len(roots) < 2 || int(weights[roots[0]])*100 > total*largestShare {
		return nil, false
	}
	worker, load := alloc.Make[uint8](a, len(weights)), alloc.Make[int32](a, workers)
	for _, r := range roots {
		least := slices.Index(load, slices.Min(load))
		worker[r] = uint8(least)
		load[least] += weights[r]
	}
	return worker, true
}

// union is a union-find (disjoint sets) with path halving over the numbers 0 to n − 1.
type union struct{ parent []int32 }

func newUnion(a *alloc.Arena, n int) union {
	u := union{alloc.MakeDirty[int32](a, n)}
	for i := range u.parent {
		u.parent[i] = int32(i)
	}
	return u
}

func (u *union) root(i int) int {
	for u.parent[i] != int32(i) {
		u.parent[i] = u.parent[u.parent[i]]
		i = int(u.parent[i])
	}
	return i
}

func (u *union) unite(a, b int) { u.parent[u.root(a)] = int32(u.root(b)) }

// has reports whether a class belongs to the worker's share.
func (l *worker) has(class uint32) bool {
	return l.acquiring.shares.workers <= 1 || l.acquiring.shares.class[class] == l.number
}

// acquireAll gives each Need that lacks something its turn: on several workers where components can be
// divided, else on one.
func (p *pass) acquireAll() {
	workers := p.e.workers
	l := workers[0]
	p.markSpecial()
	p.findAsking()
	if p.e.racing != nil && !l.p.reserved.Breakable {
		l.acquiring.shares = shares{}
		p.e.racing(l)
		p.stock.acquisitions = l.acquiring.acquisitions
		return
	}
	x := l.share()
	if x.workers == 1 || l.p.reserved.InOrder {
		l.acquiring.shares = shares{turns: x.turns}
		l.acquirePending()
		p.stock.acquisitions = l.acquiring.acquisitions
		return
	}
	for _, other := range workers {
		other.acquiring.shares = x
	}
	p.acquireShares()
	p.mergeAcquisitions()
	// From here on worker 0 has everything.
	l.acquiring.shares = shares{}
	l.acquiring.domains.Forget()
}

// acquireShares gives all Needs their turns, each on the worker that has its kind. Worker 0 has the
// heaviest component. Worker 1 gathers for it: it fills the ring before each batch of its own, and all
// the time after it is done with these.
func (p *pass) acquireShares() {
	workers := p.e.workers
	if workers[0].acquiring.shares.turns < gatherMin {
		p.e.crew.Run(p.e.tasks.acquire)
		return
	}
	r := workers[0].newRing()
	p.e.crew.Run(func(worker int) {
		if worker == 0 {
			r.Drain(workers[0].acquireBatch)
			return
		}
		if worker > 1 {
			workers[worker].acquireShare()
			return
		}
		workers[1].acquireShareAnd(r.TopUp)
		r.Produce()
	})
}

// mergeAcquisitions merges the acquisitions of the workers into rank order.
func (p *pass) mergeAcquisitions() {
	p.e.crew.Each(len(p.stock.acquisitions), 1, p.e.tasks.merge)
}

// mergeStage is mergeAcquisitions for one stage (0 = Idle, 1 = Speculative).
func (p *pass) mergeStage(stage int) {
	workers := p.e.workers
	all := workers[0].acquiring.acquisitions[stage]
	for i, l := range workers[1:] {
		to := &p.e.store.acquisitions[i%2][stage]
		*to = p.mergeByRank((*to)[:0], all, l.acquiring.acquisitions[stage])
		all = *to
	}
	p.stock.acquisitions[stage] = all
}

// mergeByRank merges two lists in rank order into a third.
func (nt *needTable) mergeByRank(to, a, b []acquisition) []acquisition {
	to = slices.Grow(to, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		// One list has most elements: copy its whole run before the other's head.
		if nt.rankOf[a[0].need] > nt.rankOf[b[0].need] {
			a, b = b, a
		}
		rank, n := nt.rankOf[b[0].need], 1
		for n < len(a) && nt.rankOf[a[n].need] < rank {
			n++
		}
		to, a = append(to, a[:n]...), a[n:]
	}
	return append(append(to, a...), b...)
}

// gatherMin is the number of acquiring Needs from which on another worker gathers. With fewer, handing
// batches over costs more than it saves. Tests lower it.
var gatherMin = 1 << 16

// gatherer visits, in rank order, the Needs whose turn may come to something.
type gatherer struct {
	pass   *pass
	rank   int    // the place in the order to go on from
	ahead  bool   // it runs on another worker, while the deciding one changes what is left
	shares shares // of the worker's share of kinds, where there are several shares
	worker uint8
	reads  uint64 // keeps the compiler from dropping reads
}

// fill gathers the next batch; an empty batch ends the walk.
func (g *gatherer) fill(b *workers.Batch) {
	b.N = 0
	for g.rank = nextMark(g.pass.shortage.asking, g.rank); g.rank < len(g.pass.shortage.asking) && b.N < workers.BatchNeeds; g.rank = nextMark(g.pass.shortage.asking, g.rank+1) {
		kind := g.pass.kindAt[g.rank]
		if g.shares.workers > 1 && g.shares.kind[kind] != g.worker || g.pass.isIdle(g.rank, kind, g.ahead) {
			continue
		}
		b.Need[b.N], b.Rank[b.N] = g.pass.order[g.rank], int32(g.rank)
		b.N++
	}
	g.prefetch(b)
}

// prefetch reads the lines of a batch, and the numbers of the Needs' aggregates, for the worker that
// decides. The loop is short enough for many cache misses to be in flight at once.
func (g *gatherer) prefetch(b *workers.Batch) {
	for _, need := range b.Need[:b.N] {
		g.reads += uint64(g.pass.lines[need].Cluster) + uint64(g.pass.aggregates[need]) // never written meanwhile
	}
}

// acquirePending gives the Needs of the worker's share their turns; another worker gathers ahead. It
// gathers for itself if there are few turns, or while reservations are breakable: voiding one frees
// Idle machines, so which Needs may be skipped depends on the turns before.
func (l *worker) acquirePending() {
	if l.p.e.crew.Size() == 1 || l.acquiring.shares.turns < gatherMin || l.p.reserved.Breakable {
		l.acquireShare()
		return
	}
	r := l.newRing()
	l.p.e.crew.Run(func(worker int) {
		switch worker {
		case 0:
			r.Drain(l.acquireBatch)
		case 1:
			r.Produce()
		}
	})
}

// acquireShare gives the Needs of the worker's share their turns; the worker gathers for itself.
func (l *worker) acquireShare() { l.acquireShareAnd(func() {}) }

// acquireShareAnd is acquireShare that calls first before each batch.
func (l *worker) acquireShareAnd(first func()) {
	g, b := l.gathers(), &l.acquiring.pending
	for g.fill(b); b.N > 0; g.fill(b) {
		first()
		l.acquireBatch(b)
	}
}

// gathers resets the worker's gatherer to the first Need.
func (l *worker) gathers() *gatherer {
	l.acquiring.gatherer = gatherer{pass: l.p, shares: l.acquiring.shares, worker: l.number}
	return &l.acquiring.gatherer
}

// workers.NewRing returns a ring over the Needs of the worker's share.
func (l *worker) newRing() *workers.Ring {
	g := l.gathers()
	g.ahead = true
	return workers.NewRing(g.fill)
}
