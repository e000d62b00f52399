package engine

import "github.com/tonnage/tonnage/alloc"

// clustersPerChunk is how many clusters a worker takes at a time.
const clustersPerChunk = 16

// assign is phase 1. Each Need is credited machines that are bound to its cluster, cluster by cluster;
// then, in rank order over all clusters, each Need acquires free machines for what it still lacks.
func (p *pass) assign() {
	crew, workers, st := p.e.crew, p.e.workers, &p.e.store
	p.spent = alloc.Make[uint32](p.e.arena, len(p.kinds))
	p.hashes = alloc.MakeDirty[uint16](p.e.arena, len(p.kinds))
	p.skewed = alloc.Make[uint32](p.e.arena, len(p.kinds))
	p.makeRoomForClasses()
	p.findFreeClasses()
	crew.Each(len(p.kinds), 64, p.e.tasks.prepare)
	p.listClasses()
	p.layLadders()
	p.findResettled()
	p.makeRoomForSpares()
	crew.Each(len(p.s.Clusters), clustersPerChunk, p.e.tasks.credit)
	for c := range st.clusters {
		p.satisfied += int(st.clusters[c].satisfied)
	}
	p.acquireAll()
	p.e.workers[0].voidAllTaken()
	p.e.workers[0].giveBackTogether()
	for _, l := range workers {
		p.satisfied += l.figures.satisfied
	}
	p.walker = workers[0]
}

// prepareKind prepares a kind for the pass. A kind for which nothing is free is spent from the
// beginning.
func (p *pass) prepareKind(i int) {
	p.hashes[i] = soughtHash(p.kinds[i].Fingerprint)
	if p.prepare(&p.kinds[i]); !p.kinds[i].MayAcquire {
		p.spent[i] = 1
	}
}

// preempt is phase 2, done by the worker that sees all classes; then it sums up the workers' counters.
func (p *pass) preempt() {
	p.walker.preempt()
	for _, l := range p.e.workers {
		p.probes += l.figures.probes
		p.credited += l.figures.credited
		p.creditCounts.Add(&l.figures.CreditCounts)
		p.clustersCredited += l.figures.clustersCredited
		p.counts.Add(&l.figures.counts)
	}
}
