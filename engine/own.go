package engine

import (
	"math/bits"
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
)

// ownIndex finds a need's own machines: those of its cluster that carry its
// stamp. It is a hash table over (cluster, fingerprint, group) with chained
// rows; each chain is in the order of the credit walk.
type ownIndex struct {
	heads []columnar.Row // by slot: the first row of some stamp's chain
	open  []columnar.Row // by slot: the first row that is not claimed; None = as heads
	next  []columnar.Row // by row; spent at the end of a chain
	shift uint8
}

// spent ends a chain.
const spent = ^columnar.None

// stampOf is the identity that a stamp must agree in.
type stampOf struct {
	cluster     int32
	fingerprint uint64
	group       uint32
}

func (k stampOf) hash() uint64 {
	h := k.fingerprint ^ uint64(k.cluster)*0x9e3779b97f4a7c15 ^ uint64(k.group)*0xd6e8feb86659fd93
	hi, lo := bits.Mul64(h, 0xa0761d6478bd642f)
	return hi ^ lo
}

// indexOwn chains the stamped machines of every cluster.
func (p *pass) indexOwn() ownIndex {
	s := p.s
	stamped := 0
	for _, r := range s.ClusterRows.Rows {
		if s.View.Fingerprint[r] != 0 {
			stamped++
		}
	}
	logSize := bits.Len(uint(2*stamped + 1))
	x := ownIndex{
		heads: alloc.Make[columnar.Row](p.e.arena, 1<<logSize),
		open:  alloc.Make[columnar.Row](p.e.arena, 1<<logSize),
		next:  alloc.Make[columnar.Row](p.e.arena, s.Supply.RowMax()),
		shift: uint8(64 - logSize),
	}
	tails := alloc.Make[columnar.Row](p.e.arena, 1<<logSize)
	for c := range s.Clusters {
		for _, r := range s.ClusterRows.At(c) {
			if s.View.Fingerprint[r] == 0 {
				continue
			}
			at := x.slot(p, stampOf{int32(c), s.View.Fingerprint[r], s.View.Group[r]})
			if x.heads[at] == columnar.None {
				x.heads[at] = r
			} else {
				x.next[tails[at]] = r
			}
			tails[at] = r
			x.next[r] = spent
		}
	}
	return x
}

// slot returns where the chain of a stamp is or would start.
func (x *ownIndex) slot(p *pass, k stampOf) uint64 {
	mask := uint64(len(x.heads) - 1)
	at := k.hash() >> x.shift
	for {
		r := x.heads[at]
		if r == columnar.None || p.stampAt(r) == k {
			return at
		}
		at = (at + 1) & mask
	}
}

// stampAt returns the stamp of a machine in ClusterRows.
func (p *pass) stampAt(r columnar.Row) stampOf {
	return stampOf{p.countsFor(r), p.s.View.Fingerprint[r], p.s.View.Group[r]}
}

// countsFor returns the cluster that a bound machine, or one being created,
// counts for.
func (p *pass) countsFor(r columnar.Row) int32 {
	if c := p.s.View.Cluster[r]; c != 0 {
		return p.s.ClusterOf[c]
	}
	return p.clusterByName(p.s.Supply.Reservation(r).Owner.Cluster)
}

// clusterByName returns the index of a cluster, −1 when it is not known.
func (p *pass) clusterByName(name string) int32 {
	if at, ok := slices.BinarySearch(p.s.Clusters, name); ok {
		return int32(at)
	}
	return -1
}

// ownSlot returns where the chain of a need's own machines is; ok is false
// when no machine carries its group.
func (p *pass) ownSlot(need int) (slot uint64, ok bool) {
	n := &p.needs[need]
	if !n.groupKnown {
		return 0, false
	}
	return p.own.slot(p, stampOf{n.cluster, n.profile.Fingerprint(), n.groupID}), true
}

// firstOwn returns the first of a need's own machines, spent when it has none;
// next leads on.
func (p *pass) firstOwn(need int) columnar.Row {
	if slot, ok := p.ownSlot(need); ok && p.own.heads[slot] != columnar.None {
		return p.own.heads[slot]
	}
	return spent
}

// firstOpenOwn is firstOwn without the head of the chain that is claimed
// already: rows of the demand that agree in profile and group share a chain,
// and each would walk again over what those before it took.
func (p *pass) firstOpenOwn(need int) columnar.Row {
	slot, ok := p.ownSlot(need)
	if !ok || p.own.heads[slot] == columnar.None {
		return spent
	}
	r := p.own.open[slot]
	if r == columnar.None {
		r = p.own.heads[slot]
	}
	for r != spent && p.claimed.Has(uint32(r)) {
		p.probes++
		r = p.own.next[r]
	}
	p.own.open[slot] = r
	return r
}

// isOwn reports whether a machine carries the need's stamp.
func (p *pass) isOwn(r columnar.Row, need int) bool {
	n := &p.needs[need]
	return n.groupKnown && p.s.View.Fingerprint[r] == n.profile.Fingerprint() && p.s.View.Group[r] == n.groupID
}
