package engine

import (
	"math"

	"github.com/tonnage/tonnage/alloc"
)

// atlas maps a Need's number to its cluster, by tables small enough to stay in the cache. A walk in
// rank order would otherwise miss the cache on every Need's line.
type atlas struct {
	first   []int32 // by stretch of numbers: the cluster of its first number
	bases   []int32 // by cluster: the number of its first line; a sentinel at the end
	outward []int32 // by cluster: output number minus line number
}

// stretchBits is log2 of the length of a stretch. Every cluster has room for at least 8 lines, so at
// most 8 clusters begin in one.
const stretchBits = 6

// draw builds the atlas of a pass.
func (p *pass) draw() atlas {
	a := p.e.arena
	n := len(p.sources)
	x := atlas{
		first:   alloc.MakeDirty[int32](a, len(p.lines)>>stretchBits+1),
		bases:   alloc.MakeDirty[int32](a, n+1),
		outward: alloc.MakeDirty[int32](a, n),
	}
	stretch := 0
	for c := range p.sources {
		src := &p.sources[c]
		x.bases[c], x.outward[c] = src.base, src.outer-src.base
		for ; stretch<<stretchBits < int(src.base)+src.room; stretch++ {
			x.first[stretch] = int32(c)
		}
	}
	x.bases[n] = math.MaxInt32
	return x
}

// clusterOf returns the cluster of a Need: one look-up, then a scan of the clusters of a stretch.
func (x *atlas) clusterOf(need int32) int32 {
	c := x.first[need>>stretchBits]
	for x.bases[c+1] <= need {
		c++
	}
	return c
}
