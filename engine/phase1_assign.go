package engine

import "github.com/tonnage/tonnage/alloc"

// clustersPerChunk is how many clusters a worker takes at a time.
const clustersPerChunk = 16

// assign is phase 1: one pass over the needs in rank order. Each is credited
// with what is bound to its cluster, then acquires what it still lacks.
func (p *pass) assign() {
	crew, lanes, st := p.e.crew, p.e.lanes, &p.e.store
	p.spent = alloc.Make[uint32](p.e.arena, len(p.kinds))
	p.skewed = alloc.Make[uint32](p.e.arena, len(p.kinds))
	crew.each(len(p.kinds), 64, func(_, from, to int) {
		for i := from; i < to; i++ {
			if p.prepare(&p.kinds[i]); !p.kinds[i].mayAcquire {
				p.spent[i] = 1
			}
		}
	})
	p.layLadders()
	p.findResettled()
	p.makeRoomForSpares()
	crew.each(len(p.s.Clusters), clustersPerChunk, func(worker, from, to int) {
		for c := from; c < to; c++ {
			switch {
			case st.clusters[c].dirty:
				lanes[worker].creditCluster(c)
			case st.clusters[c].replay:
				lanes[worker].replayCluster(c)
			}
		}
	})
	for c := range st.clusters {
		p.satisfied += int(st.clusters[c].satisfied)
	}
	p.acquireAll()
	for _, l := range lanes {
		p.satisfied += l.satisfied
	}
	p.walker = lanes[0]
}

// preempt is phase 2, by the lane that has walked over all.
func (p *pass) preempt() {
	p.walker.preempt()
	for _, l := range p.e.lanes {
		p.probes += l.probes
		p.credited += l.credited
		p.counts.add(&l.counts)
	}
}
