package cycle

import (
	"slices"
	"sort"
	"sync/atomic"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/internal/holds"
	"github.com/tonnage/tonnage/engine/internal/plan"
	"github.com/tonnage/tonnage/engine/internal/reuse"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/workers"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/snapshot"
)

// Pass is the state of one cycle that all stages share: what they read, and what each writes for the ones after
// it. A group that one stage writes is a struct of its own; its comment names the stage, and who reads it.
type Pass struct {
	Input *plan.Input
	Opts  *plan.Options
	Arena *alloc.Arena
	Crew  *workers.Crew
	st    *Store

	Fleet
	Changed
	NeedTable
	MachineTable
	Kinds    []state.Kind
	lookedAt atomic.Int32 // the cluster of the last look-up; see RowAt

	Reserved holds.Index
	Counted
	Audit Audit
}

// Fleet is what the snapshot says of machines, by class. It does not change during the cycle.
type Fleet struct {
	Snap      *snapshot.Snapshot
	Dims      int        // dimensions that the demand names
	ClassesOf [][]uint32 // by matcher: the accepted classes, ascending
	ClassMask []uint64   // by class: the dimensions that it offers, as a set
	FreeOf    []uint64   // the classes that had a free machine when the cycle began, as a set
}

// Changed is what differs from the last cycle. Begin (Renumbered), CarryOver (Fresh), FindDirty (Moves) and
// Engine.Cycle (Reordered) write it.
type Changed struct {
	Renumbered bool    // numbers of classes and matchers may have changed their meaning
	Fresh      bool    // nothing is taken over from the last cycle
	Reordered  bool    // places in the order may have changed
	Moves      []Moved // changed machines: those of cluster c at [moveOff[c]:moveOff[c+1]]
	moveOff    []uint32
}

// NeedTable is the columns of Needs. normalise and rank write them, credit writes Lacking, and every stage reads
// them. The store keeps them from cycle to cycle, but for AnyFolds, which normalise finds in each.
type NeedTable struct {
	Sources   []state.Source // by cluster
	Atlas     state.Atlas
	Lines     []state.Line
	Order     []int32  // Needs in rank order
	RankOf    []int32  // by line: the Need's place in order
	KindAt    []uint32 // by place in order: the Need's kind
	ByCluster []int32  // the Needs of each cluster in rank order, at its first line
	Sorted    []int32  // by cluster: the length of that list; 0 = it must be sorted again
	Lacking   []bool   // by place in order: the Need lacks something after credit
	AnyFolds  bool     // some line stands for a fold
}

// MachineTable is the columns of machines, by row of the supply. Elements are bytes and words, not bits: each worker
// writes those of its own machines. The store keeps them from cycle to cycle.
type MachineTable struct {
	Claims   state.Claims
	Taken    []bool  // claimed, or withdrawn for an owner of higher rank
	Priority []int32 // what a Configured machine is worth as a victim
	// Owner is, of machines that are bound or being created, the last Need in rank order of their
	// cluster that has their stamp; unclaimed when there is none.
	Owner []int32
}

// Counted is the figures of the cycle.
type Counted struct {
	Rows             int // rows of the demand
	Satisfied        int // satisfied rows
	Probes           int64
	Credited         int
	CreditCounts     plan.CreditCounts
	ClustersCredited int
	Counts           plan.AcquireCounts
}

// Begin begins the pass of a cycle.
func (p *Pass) Begin(st *Store, s *snapshot.Snapshot, in *plan.Input) {
	*p = Pass{st: st, Input: in, Opts: st.Opts, Arena: st.CycleArena, Crew: st.Crew, Fleet: Fleet{Snap: s, Dims: len(s.Demand.Dims())}}
	p.Changed.Renumbered = st.Seen.Supply != s.Supply || s.Fresh || s.ClassesChanged
	if st.classesOf == nil || p.Changed.Renumbered {
		st.classesOf, st.classMask = classesByMatcher(s), reuse.Resize(st.classMask, len(s.Classes))
		for c := range st.classMask {
			st.classMask[c] = PositiveDims(p.Vector(uint32(c)))
		}
	}
	p.ClassesOf, p.ClassMask = st.classesOf, st.classMask
}

// classesByMatcher inverts the lists of matchers by class.
func classesByMatcher(s *snapshot.Snapshot) [][]uint32 {
	out := make([][]uint32, s.Supply.MatcherMax())
	for c := range s.Classes {
		for _, m := range s.Classes[c].Matchers {
			out[m] = append(out[m], uint32(c))
		}
	}
	return out
}

// RowAt returns the line of a row, given the row's number in outputs, which has no gaps. Callers visit
// rows in sequence, so it tries the cluster of the last call before it bisects.
func (p *Pass) RowAt(i int) int32 {
	src := &p.Sources[p.lookedAt.Load()]
	if at := i - int(src.Outer); at < 0 || at >= src.Rows {
		c := sort.Search(len(p.Sources), func(c int) bool { return int(p.Sources[c].Outer) > i }) - 1
		p.lookedAt.Store(int32(c))
		src = &p.Sources[c]
	}
	return src.Base + int32(i) - src.Outer
}

// NumberOf returns the number in outputs of a line.
func (p *Pass) NumberOf(row int32) int32 {
	src := p.SourceOf(row)
	return row - src.Base + src.Outer
}

// NumberOfNeed returns the number in outputs of the row after which a Need is named.
func (p *Pass) NumberOfNeed(need int32) int32 { return p.NumberOf(p.FirstRow(need)) }

// NeedOf returns the Need as which a row is decided: its fold, or itself.
func (nt *NeedTable) NeedOf(row int32) int32 {
	if n := &nt.Lines[row]; n.Is(state.IsMember) {
		return int32(n.Domain)
	}
	return row
}

// KindOf returns the kind of a Need.
func (p *Pass) KindOf(need int32) *state.Kind { return &p.Kinds[p.Lines[need].Kind] }

// Aggregate returns all that a Need wants; read-only. The vector may be shorter than those of supply:
// the demand's dimensions come first.
func (p *Pass) Aggregate(need int32) []int64 {
	if p.AnyFolds && p.Lines[need].Is(state.IsFold) {
		n := &p.Lines[need]
		return p.st.Clusters[p.ClusterOf(need)].Folds.Sum(n.Group, p.Dims)
	}
	return p.Snap.Demand.Vector(p.AggregateOf(need))
}

// Touch reads what the turn of a Need reads, so that it is in the cache by then: its line, which may lie across two cache
// lines, and the number of its aggregate. It reads what no turn writes. The result means nothing.
func (nt *NeedTable) Touch(need int32) uint64 {
	return uint64(nt.Lines[need].Kind) + uint64(nt.Lines[need+1].Kind) + uint64(nt.AggregateOf(need)) // behind the last row is room for more
}

// ClusterOf returns the cluster of a Need, as an index of Snapshot.Clusters.
func (nt *NeedTable) ClusterOf(need int32) int32 { return nt.Atlas.ClusterOf(need) }

// AggregateOf returns the number, in the demand, of the aggregate of a row.
func (nt *NeedTable) AggregateOf(row int32) uint32 {
	src := nt.SourceOf(row)
	return src.Aggregates[row-src.Base]
}

// SourceOf returns the rows among which a Need is.
func (nt *NeedTable) SourceOf(need int32) *state.Source { return &nt.Sources[nt.ClusterOf(need)] }

// FoldOf returns the fold that a Need is; the Need must be one.
func (p *Pass) FoldOf(need int32) *Fold {
	n := &p.Lines[need]
	return &p.st.Clusters[p.ClusterOf(need)].Folds.List[n.Group]
}

// FirstRow returns the row after which a Need is named in outputs: of a fold, its first row in rank order.
func (p *Pass) FirstRow(need int32) int32 {
	if p.AnyFolds && p.Lines[need].Is(state.IsFold) {
		return p.FoldOf(need).First
	}
	return need
}

// GroupOf returns the number of a Need's group name in the supply; 0, the empty name, for a fold.
func (nt *NeedTable) GroupOf(need int32) uint32 {
	n := &nt.Lines[need]
	if n.Is(state.IsFold) {
		return 0 // the empty name
	}
	return n.Group
}

// GroupName returns a Need's group name.
func (nt *NeedTable) GroupName(need int32) string {
	n := &nt.Lines[need]
	if n.Is(state.IsFold) {
		return ""
	}
	src := nt.SourceOf(need)
	return src.Block.Group(int(need - src.Base))
}

// ReadDeficit writes what a Need lacks now to dst, of p.Dims values. O(machines claimed).
func (p *Pass) ReadDeficit(dst []int64, need int32) {
	n := &p.Lines[need]
	if n.Is(state.IsSatisfied) {
		clear(dst)
		return
	}
	clear(dst[copy(dst, p.Aggregate(need)):])
	for r := p.Claims.First(n); r != columnar.None; r = p.Claims.Next(r, n) {
		columnar.SubClamp(dst, p.Vec(r))
	}
}

// Vector returns what machines of a class offer in the dimensions that demand names. No decision reads
// the others.
func (fl *Fleet) Vector(class uint32) []int64 { return fl.Snap.Vector(class)[:fl.Dims] }

// Vec returns what a machine offers.
func (fl *Fleet) Vec(r columnar.Row) []int64 { return fl.Vector(fl.Snap.View.Class[r]) }

// Accepts reports whether a machine can serve a kind: its class matches and suits, and it lies in a
// domain that the matcher permits.
func (fl *Fleet) Accepts(r columnar.Row, k *state.Kind) bool {
	return k.AcceptsClass(fl.Snap.View.Class[r]) && fl.InAnyDomain(k.Matcher, r)
}

// InAnyDomain reports whether a machine lies in a domain that a matcher permits; true without Same.
func (fl *Fleet) InAnyDomain(matcher uint32, r columnar.Row) bool {
	_, ok := fl.Snap.Supply.Domain(matcher, r)
	return ok
}

// InDomain reports whether a machine lies in the domain that the Need has chosen; true for Needs
// without Same.
func (p *Pass) InDomain(r columnar.Row, need int32) bool {
	k := p.KindOf(need)
	if !k.Same {
		return true
	}
	v, ok := p.Snap.Supply.Domain(k.Matcher, r)
	return ok && v == p.Lines[need].Domain
}

// Claimed reports whether a Need has claimed a machine.
func (mt *MachineTable) Claimed(r columnar.Row) bool { return mt.Claims.Of(r) != state.Unclaimed }

// CountsFor returns the cluster for which a machine counts that is bound or being created.
func (fl *Fleet) CountsFor(r columnar.Row) int32 {
	if c := fl.Snap.View.Cluster[r]; c != 0 {
		return fl.Snap.ClusterOf[c]
	}
	return fl.Snap.ClusterByName(fl.Snap.Supply.Reservation(r).Owner.Cluster)
}

// IsOwn reports whether a machine carries the Need's stamp.
func (p *Pass) IsOwn(r columnar.Row, need int32) bool {
	return p.Snap.View.Fingerprint(r) == p.KindOf(need).Fingerprint && p.Snap.View.Group[r] == p.GroupOf(need)
}

// PositiveDims returns the set of dimensions in which a vector is positive. Demand names at most 64
// dimensions, and they precede those that only supply names.
func PositiveDims(v []int64) uint64 {
	mask := uint64(0)
	for d, x := range v {
		if x > 0 {
			mask |= 1 << d
		}
	}
	return mask
}

// Suits reports whether machines of a class can serve a kind, requirements aside: each covers the
// minimum unit and offers something that is wanted.
func (fl *Fleet) Suits(class uint32, k *state.Kind) bool {
	return fl.ClassMask[class]&k.Mask != 0 && columnar.Covers(fl.Vector(class), k.Unit)
}

// AddMinimum adds a row's minimum: MinAggregate, or the whole aggregate if that is unset or the
// row asks for something that no machine offers.
func (fl *Fleet) AddMinimum(sum []int64, b *demand.Block, row int) {
	least := b.MinAggregate(row)
	if len(least) == 0 || b.Unoffered(row).Some() {
		columnar.SatAdd(sum, b.Aggregate(row))
		return
	}
	for _, a := range least {
		if d := slices.Index(fl.Snap.Dims[:fl.Dims], a.Name); d >= 0 {
			columnar.SatAdd(sum[d:d+1], []int64{a.Value})
		}
	}
}

// PartFrom takes the machines that left a cluster away from the Needs that claimed them; anew says that
// the whole cluster is credited anew, so that chains need no repair. A machine that moves from one
// cluster to another is handled at the one that it leaves, so that no two workers write to it.
func (p *Pass) PartFrom(c int, anew bool) {
	for _, m := range p.MovesOf(c) {
		if m.How != Left {
			continue
		}
		switch h := p.Claims.Of(m.Row); {
		case h == state.Unclaimed:
		case anew:
			p.Claims.Release(m.Row)
		default:
			p.Unlink(m.Row, h)
		}
	}
}

// Unlink takes a machine away from a Need and makes the Need stale. O(machines claimed).
func (p *Pass) Unlink(r columnar.Row, need int32) {
	n := &p.Lines[need]
	n.Status |= state.IsStale
	p.Claims.Unlink(r, n)
}

// CopyForCycle returns a copy of a vector that is valid until the next cycle.
func (p *Pass) CopyForCycle(v []int64) []int64 {
	x := alloc.MakeDirty[int64](p.Arena, len(v))
	copy(x, v)
	return x
}

// Resources converts a vector to named amounts.
func (p *Pass) Resources(v []int64) model.Resources {
	if columnar.IsZero(v) {
		return nil
	}
	amounts := make([]model.Amount, 0, len(v))
	for d, x := range v {
		if x > 0 {
			amounts = append(amounts, model.Amount{Name: p.Snap.Dims[d], Value: x})
		}
	}
	return model.NewResources(amounts...)
}

// Weight returns how many rows a Need stands for.
func (p *Pass) Weight(need int32) int {
	if p.Lines[need].Is(state.IsFold) {
		return int(p.FoldOf(need).Rows)
	}
	return 1
}
