package acquire

import (
	"math/bits"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/cycle"
	"github.com/tonnage/tonnage/engine/internal/free"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/model"
)

// nextClass returns the class of a kind's next machine of a stage; see free.Ladder.Next.
func (p *Pass) nextClass(x *free.Ladder, k *state.Kind, stage int, missing uint64) (class uint32, ok bool) {
	return x.Next(&p.Stock.Free[stage], p.Stock.Epoch, p.ClassMask, k, missing)
}

// any reports whether a ladder has a machine left for a kind.
func (p *Pass) any(x *free.Ladder, k *state.Kind, stage int) bool {
	_, ok := p.nextClass(x, k, stage, ^uint64(0))
	return ok
}

// Costs returns each class's place in the order in which a kind acquires machines of a stage.
func (p *Pass) Costs(k *state.Kind, stage int) []uint32 {
	return p.st.ways.Costs(k, stage)
}

// StageOf returns the stage in which a free machine is acquired.
func (p *Pass) StageOf(r columnar.Row) int { return free.StageOf(p.Snap, r) }

// MarkTaken withdraws a machine from acquisition. It does nothing if the machine is taken already.
func (l *Worker) MarkTaken(r columnar.Row) {
	if l.p.Taken[r] {
		return
	}
	l.p.Taken[r] = true
	switch l.p.Snap.View.State[r] {
	case model.Idle, model.Speculative:
		l.p.Stock.Free[l.p.StageOf(r)].Took(r, l.p.Snap.View.Class[r], l.p.Taken)
		l.Acquiring.Domains.Take(r)
	}
}

// PutBack undoes MarkTaken for a free machine that no Need claims any more.
func (l *Worker) PutBack(r columnar.Row) {
	if l.p.Taken[r] {
		l.p.Stock.Epoch++ // reopen the ladders, which may have dropped the class
		l.restore(r)
	}
}

// restore makes the pools, or the list of held machines, and the indexes by domain find a taken machine
// again.
func (l *Worker) restore(r columnar.Row) {
	l.p.Taken[r] = false
	l.offer(r)
	l.Acquiring.Domains.PutBack(r)
}

// offer makes the pools, or the list of held machines, find a free machine again.
func (l *Worker) offer(r columnar.Row) {
	c, stage := l.p.Snap.View.Class[r], l.p.StageOf(r)
	if l.p.Reserved.Lower.Has(r) {
		l.p.Reserved.Lower.OfClass(c, stage).At = 0
		return
	}
	if f := l.Acquiring.fit; f != nil && !l.p.Free[stage].Has(c) {
		f.memo.reopened++ // a class without machines gets one again
	}
	l.p.Stock.Free[stage].Gave(r, c)
}

// LayLadders gives each new kind its ladders, and reopens all ladders by a new epoch.
func (p *Pass) LayLadders() {
	p.st.Seen.Epoch++
	p.Stock.Epoch = p.st.Seen.Epoch // a new epoch: every ladder begins at its lowest step
	st := p.st
	for i := len(st.ways.OfKind); i < len(p.Kinds); i++ {
		k := &p.Kinds[i]
		st.ways.Add(k, p.ClassesOf[k.Matcher])
		st.layoutOf = append(st.layoutOf, nil)
		if len(k.Spread) > 0 {
			st.layoutOf[i] = p.layoutFor(k)
		}
	}
	p.Stock.Ladders, p.Stock.Layouts = st.ways.OfKind, st.layoutOf
}

// ListClasses fills the lists of classes of new kinds. Most kinds suit every class that their matcher
// accepts, and share the matcher's list. Such lists can be long: machines that differ only in what
// their systems reserve are of different classes.
func (p *Pass) ListClasses() {
	for i := range p.Kinds {
		k := &p.Kinds[i]
		if len(k.Classes) == int(k.Suit) {
			continue
		}
		if all := p.ClassesOf[k.Matcher]; len(all) == int(k.Suit) {
			k.Classes = all
			continue
		}
		k.Classes = alloc.MakeDirty[uint32](p.st.Arena, int(k.Suit))[:0]
		for w, word := range k.Accepts {
			for ; word != 0; word &= word - 1 {
				k.Classes = append(k.Classes, uint32(w<<6+bits.TrailingZeros64(word)))
			}
		}
	}
}

// MakeRoomForClasses allocates the bitmaps of kinds that are new. They live as long as the kinds.
func (p *Pass) MakeRoomForClasses() {
	for i := range p.Kinds {
		if k := &p.Kinds[i]; !k.Ready {
			k.Accepts = alloc.Make[uint64](p.st.Arena, (len(p.Snap.Classes)+63)/64)
		}
	}
}

// FindFreeClasses computes the set of classes that have a free machine.
func (p *Pass) FindFreeClasses() {
	p.FreeOf = alloc.Make[uint64](p.Arena, (len(p.Snap.Classes)+63)/64)
	for c := range p.Snap.Classes {
		if p.Snap.Idle.Off[c] < p.Snap.Idle.Off[c+1] || p.Snap.Speculative.Off[c] < p.Snap.Speculative.Off[c+1] {
			p.FreeOf[c>>6] |= 1 << (c & 63)
		}
	}
}

// PrepareKind fills Accepts of a new kind, tells whether something is free for the kind, and resets what is
// memoized per cycle.
func (p *Pass) PrepareKind(k *state.Kind) {
	if !k.Ready {
		k.Ready = true
		for _, c := range p.ClassesOf[k.Matcher] {
			if p.Suits(c, k) {
				k.Suit++
				k.Accepts[c>>6] |= 1 << (c & 63)
				k.Leaves = k.Leaves || !k.Same && p.ClassMask[c]&^k.Mask != 0
			}
		}
	}
	k.MayAcquire = cycle.Meet(p.FreeOf, k.Accepts)
}

// CostIn returns what a machine of a class costs a kind in a stage; +Inf for a pinned kind and a machine
// that may be interrupted.
func (p *Pass) CostIn(class uint32, k *state.Kind, stage int) float64 {
	if stage == 0 {
		return p.Snap.Classes[class].Price
	}
	return free.EffectiveCost(&p.Snap.Classes[class], k.Penalty)
}
