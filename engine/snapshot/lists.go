package snapshot

import (
	"sort"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
)

// lists is the memory of what is listed, beside what the snapshot shows of it.
// What is packed is written anew from the one before, in turns.
type lists struct {
	arenas [2]*alloc.Arena // of Idle and Speculative
	free   int             // the arena in use

	now  int  // the groups in use, of each patcher's
	anew bool // the lists of clusters are arranged

	need, begin []uint32 // by cluster: scratch of laying out
	out         []uint32 // by cluster: how many machines leave its list
	in          []uint32 // by cluster: where the machines begin that enter it
}

// layFree makes the lists of Idle and Speculative machines, to be filled.
func (b *Builder) layFree() {
	s, t, l := &b.snap, &b.tally, &b.lists
	l.arenas[0].Reset()
	l.arenas[1].Reset()
	lay := func(count []uint32) Lists {
		off := alloc.MakeDirty[uint32](l.arenas[l.free], len(s.Classes)+1)
		copy(off, count)
		sum(off)
		return Lists{Off: off, Rows: alloc.MakeDirty[columnar.Row](l.arenas[l.free], int(off[len(s.Classes)]))}
	}
	s.Idle, s.Speculative = lay(t.idle), lay(t.speculative)
}

// patchFree brings the lists of Idle and Speculative machines up to date.
func (b *Builder) patchFree() {
	s, l, e := &b.snap, &b.lists, &b.entering
	if !e.idleDirty && !e.speculativeDirty && len(s.Idle.Off) == len(s.Classes)+1 {
		return
	}
	l.free ^= 1
	l.arenas[l.free].Reset()
	s.Idle = b.patch(&s.Idle, e.idle, s.KeepPlaces())
	s.Speculative = b.patch(&s.Speculative, e.speculative, s.IDPlaces())
}

// patch returns lists without what has changed and with what comes in, which
// are classes and places, sorted.
func (b *Builder) patch(old *Lists, in []uint64, places Places) Lists {
	s, a := &b.snap, b.lists.arenas[b.lists.free]
	out := Lists{
		Off:  alloc.MakeDirty[uint32](a, len(s.Classes)+1),
		Rows: alloc.MakeDirty[columnar.Row](a, len(old.Rows)+len(in)),
	}
	end := uint32(0)
	changed := b.changed.Words()
	for c := range s.Classes {
		out.Off[c] = end
		var rows []columnar.Row
		if c+1 < len(old.Off) {
			rows = old.At(c)
		}
		list := out.Rows[end:]
		if !s.FreeDirty[c] {
			end += uint32(copy(list, rows))
			continue
		}
		n := 0
		for _, r := range rows {
			list[n] = r // n never passes what is still to be read, so the loop needs no branch
			n += int(^changed[r>>6] >> (r & 63) & 1)
		}
		own := 0
		for own < len(in) && in[own]>>32 == uint64(c) {
			own++
		}
		b.merge(list[:n+own], n, in[:own], places)
		in = in[own:]
		end += uint32(n + own)
	}
	out.Off[len(s.Classes)] = end
	out.Rows = out.Rows[:end]
	return out
}

// merge puts machines into a list of n that has room for them.
func (b *Builder) merge(list []columnar.Row, n int, in []uint64, places Places) {
	for j := len(in) - 1; j >= 0; j-- {
		key := uint32(in[j])
		at := sort.Search(n, func(i int) bool { return places.Of(list[i]) > key })
		copy(list[at+j+1:], list[at:n])
		list[at+j] = b.snap.Order[key&rankMask]
		n = at
	}
}
