package assign

import (
	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/engine/internal/cycle"
)

// Assign is phase 1. Each Need is credited machines that are bound to its cluster, cluster by cluster;
// then, in rank order over all clusters, each Need acquires free machines for what it still lacks.
func (p *Pass) Assign() {
	crew, workers, st := p.Crew, p.st.workers, p.st
	p.Spent = alloc.Make[bool](p.Arena, len(p.Kinds))
	p.hashes = alloc.MakeDirty[uint16](p.Arena, len(p.Kinds))
	p.Skewed = alloc.Make[uint32](p.Arena, len(p.Kinds))
	p.MakeRoomForClasses()
	p.FindFreeClasses()
	crew.Each(len(p.Kinds), 64, p.st.tasks.prepare)
	p.ListClasses()
	p.LayLadders()
	p.findResettled()
	p.makeRoomForSpares()
	crew.Each(len(p.Snap.Clusters), cycle.ClustersPerChunk, p.st.tasks.credit)
	for c := range st.Clusters {
		p.Satisfied += int(st.Clusters[c].Satisfied)
	}
	p.acquireAll()
	p.st.workers[0].VoidAllTaken()
	p.st.workers[0].giveBackTogether()
	for _, l := range workers {
		p.Satisfied += l.Figures.Satisfied
	}
}

// prepareKind prepares a kind for the pass. A kind for which nothing is free is spent from the
// beginning.
func (p *Pass) prepareKind(i int) {
	p.hashes[i] = soughtHash(p.Kinds[i].Fingerprint)
	if p.PrepareKind(&p.Kinds[i]); !p.Kinds[i].MayAcquire {
		p.Spent[i] = true
	}
}
