package engine

import (
	"math"

	"github.com/tonnage/tonnage/alloc"
)

// atlas says of the number of a need whose it is, from tables that are small
// enough to stay in the cache: who goes from need to need in rank order would wait
// for the line of each.
type atlas struct {
	first   []int32 // by stretch of numbers: the cluster of the first of them
	bases   []int32 // by cluster: the number of its first line; one more at the end
	outward []int32 // by cluster: what to add to a line's number in outputs
}

// stretchBits are the bits of a need's number that count within a stretch. Every
// cluster has room for some lines, so few begin in one.
const stretchBits = 6

// draw makes the atlas of a pass.
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

// clusterOf returns the cluster of a need.
func (x *atlas) clusterOf(need int32) int32 {
	c := x.first[need>>stretchBits]
	for x.bases[c+1] <= need {
		c++
	}
	return c
}
