package engine

import "github.com/tonnage/tonnage/alloc"

// clustersPerChunk is how many clusters a worker takes at a time.
const clustersPerChunk = 16

// assign is phase 1: one pass over the needs in rank order. Each is credited
// with what is bound to its cluster, then acquires what it still lacks.
func (p *pass) assign() {
	crew, workers, st := p.e.crew, p.e.workers, &p.e.store
	p.spent = alloc.Make[uint32](p.e.arena, len(p.kinds))
	p.skewed = alloc.Make[uint32](p.e.arena, len(p.kinds))
	p.makeRoomForClasses()
	p.findFreeClasses()
	crew.each(len(p.kinds), 64, p.e.tasks.prepare)
	p.listClasses()
	p.layLadders()
	p.findResettled()
	p.makeRoomForSpares()
	crew.each(len(p.s.Clusters), clustersPerChunk, p.e.tasks.credit)
	for c := range st.clusters {
		p.satisfied += int(st.clusters[c].satisfied)
	}
	p.acquireAll()
	p.e.workers[0].voidAllTaken()
	for _, l := range workers {
		p.satisfied += l.satisfied
	}
	p.walker = workers[0]
}

// prepareKind makes a kind ready for the pass.
func (p *pass) prepareKind(i int) {
	if p.prepare(&p.kinds[i]); !p.kinds[i].mayAcquire {
		p.spent[i] = 1
	}
}

// creditAgain credits the needs of a cluster if something has changed there.
func (l *worker) creditAgain(c int) {
	switch x := &l.e.store.clusters[c]; {
	case x.dirty:
		l.clustersCredited++
		l.creditCluster(c)
	case x.replay:
		l.clustersCredited++
		l.replayCluster(c)
	}
}

// preempt is phase 2, by the worker that has walked over all.
func (p *pass) preempt() {
	p.walker.preempt()
	for _, l := range p.e.workers {
		p.probes += l.probes
		p.credited += l.credited
		p.clustersCredited += l.clustersCredited
		p.counts.add(&l.counts)
	}
}
