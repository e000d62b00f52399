package assign

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/bitmap"
	"github.com/tonnage/tonnage/engine/internal/acquire"
	"github.com/tonnage/tonnage/engine/internal/cycle"
	"github.com/tonnage/tonnage/engine/internal/plan"
)

// Kinds that share no class of machines, not even through other kinds, do not compete. Kinds and
// classes form a bipartite graph, and each worker takes whole connected components of it. Within a
// component Needs have their turns in rank order, so the answer is that of one worker.

// ComponentsMin is the weight of Needs from which on components are divided among workers. Tests lower
// it.
var ComponentsMin = 1 << 11

// largestShare is the percentage of the weight above which one component is so large that dividing
// gains nothing.
const largestShare = 97

// share assigns the components to the workers. One worker gets all when dividing would gain nothing.
func (l *Worker) share() acquire.Division {
	workers := min(l.p.Crew.Size(), plan.WorkersMax-1)
	if workers == 1 {
		return acquire.Division{Workers: 1}
	}
	kinds, classes := len(l.p.Kinds), len(l.p.Snap.Classes)
	sets := newUnion(l.Arena, kinds+classes)
	first := alloc.Make[int32](l.Arena, len(l.p.ClassesOf)) // 1 + the first kind of a matcher
	for i := range l.p.Kinds {
		m := l.p.Kinds[i].Matcher
		if first[m] != 0 {
			sets.unite(i, int(first[m]-1)) // they share ladders
			continue
		}
		first[m] = int32(i) + 1
		for _, c := range l.p.ClassesOf[m] {
			if l.p.Stock.Free[0].Has(c) || l.p.Stock.Free[1].Has(c) || l.p.Reserved.Lower.HasClass(c) {
				sets.unite(i, kinds+int(c))
			}
		}
	}
	for c := range l.p.st.Clusters { // Needs that wait in one cluster may be credited the same machines
		list := l.p.st.Clusters[c].WaitKinds
		for _, kind := range list[min(1, len(list)):] {
			sets.unite(int(list[0]), int(kind))
		}
	}
	weights, total := l.weighComponents(&sets)
	if total < ComponentsMin {
		return acquire.Division{Workers: 1}
	}
	worker, ok := dealComponents(l.Arena, weights, total, workers)
	if !ok {
		return acquire.Division{Workers: 1}
	}
	x := acquire.Division{Kind: alloc.Make[uint8](l.Arena, kinds), Class: alloc.Make[uint8](l.Arena, classes), Workers: workers}
	for i := range x.Kind {
		x.Kind[i] = worker[sets.root(i)]
	}
	for c := range x.Class {
		x.Class[c] = worker[sets.root(kinds+c)]
	}
	return x
}

// specialWeight is the weight of a Need whose turn certainly costs work: one with a reservation or a
// postponed credit. Most others come when nothing is left for their kind, and weigh 1.
const specialWeight = 8

// weighComponents sums the weights of the Needs of each component, by its root.
func (l *Worker) weighComponents(sets *union) (weights []int32, total int) {
	weights = alloc.Make[int32](l.Arena, len(sets.parent))
	for i := range l.p.Kinds {
		for _, other := range l.p.st.workers {
			n := other.weights[i]
			weights[sets.root(i)] += n
			total += int(n)
		}
	}
	return weights, total
}

// findAsking marks the Needs whose turn may come to something, and sums their weights by kind.
func (p *Pass) findAsking() {
	p.Shortage.asking = bitmap.DenseIn(p.Arena, len(p.Order))
	for _, l := range p.st.workers {
		l.weights = alloc.Make[int32](l.Arena, len(p.Kinds))
	}
	p.Crew.Each(p.RankWords(), cycle.RankWordsPerChunk, p.st.tasks.asking)
}

// markAsking is findAsking for a range of 64-bit words of the order's bitmap.
func (l *Worker) markAsking(fromWord, toWord int) {
	from, to := l.p.RanksOf(fromWord, toWord)
	for w, word := range l.SetOf(l.p.Lacking[from:to]) {
		for ; word != 0; word &= word - 1 {
			rank := from + w<<6 + bits.TrailingZeros64(word)
			kind, weight := l.p.KindAt[rank], int32(specialWeight)
			if l.p.IsTurnIdle(rank, kind) {
				continue
			}
			if !l.p.Shortage.Special.Has(uint32(rank)) && !l.p.Shortage.waits.Has(uint32(rank)) {
				weight = 1
			}
			l.p.Shortage.asking.Set(uint32(rank))
			l.weights[kind] += weight
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

// acquireAll gives each Need that lacks something its turn: on several workers where components can be
// divided, else on one.
func (p *Pass) acquireAll() {
	workers := p.st.workers
	l := workers[0]
	p.markSpecial()
	p.findAsking()
	if p.st.Racing != nil && !l.p.Reserved.Breakable {
		l.Acquiring.Shares = acquire.Division{}
		p.st.Racing(p, workers)
		p.Stock.Acquisitions = l.Acquiring.Acquisitions
		return
	}
	x := l.share()
	if x.Workers == 1 || l.p.Reserved.InOrder {
		l.Acquiring.Shares = acquire.Division{}
		l.acquireShare()
		p.Stock.Acquisitions = l.Acquiring.Acquisitions
		return
	}
	for _, other := range workers {
		other.Acquiring.Shares = x
	}
	p.Crew.Run(p.st.tasks.acquire)
	p.mergeAcquisitions()
	// From here on worker 0 has everything.
	l.Acquiring.Shares = acquire.Division{}
	l.Acquiring.Domains.Forget()
}

// mergeAcquisitions merges the acquisitions of the workers into rank order.
func (p *Pass) mergeAcquisitions() {
	p.Crew.Each(len(p.Stock.Acquisitions), 1, p.st.tasks.merge)
}

// mergeStage is mergeAcquisitions for one stage (0 = Idle, 1 = Speculative).
func (p *Pass) mergeStage(stage int) {
	workers := p.st.workers
	all := workers[0].Acquiring.Acquisitions[stage]
	for i, l := range workers[1:] {
		to := &p.st.acquisitions[i%2][stage]
		*to = p.mergeByRank((*to)[:0], all, l.Acquiring.Acquisitions[stage])
		all = *to
	}
	p.Stock.Acquisitions[stage] = all
}

// mergeByRank merges two lists in rank order into a third.
func (p *Pass) mergeByRank(to, a, b []acquire.Acquisition) []acquire.Acquisition {
	to = slices.Grow(to, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		// One list has most elements: copy its whole run before the other's head.
		if p.RankOf[a[0].Need] > p.RankOf[b[0].Need] {
			a, b = b, a
		}
		rank, n := p.RankOf[b[0].Need], 1
		for n < len(a) && p.RankOf[a[n].Need] < rank {
			n++
		}
		to, a = append(to, a[:n]...), a[n:]
	}
	return append(append(to, a...), b...)
}
