package supply

import (
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// resplit brings classes and key columns in step with what the keys are used
// for, if that is another than it was. A key that classes agree in needs no
// column, unless domains are formed by it.
func (t *Table) resplit() {
	t.overgrown = false
	changed := false
	var added []int // keys that have to split and do not yet
	for i := range t.keys {
		k := &t.keys[i]
		if k.shouldHaveColumn() && k.values == nil {
			t.makeColumn(i)
		}
		should := k.shouldSplit()
		if should == k.splits {
			continue
		}
		k.splits, changed = should, true
		if should {
			added = append(added, i)
		}
	}
	if changed {
		t.reclass(added)
	}
	for i := range t.keys {
		if k := &t.keys[i]; k.values != nil && !k.shouldHaveColumn() {
			t.dropColumn(k)
		}
	}
}

// reclass forms all classes anew after the keys that split them have changed:
// rows of one class that have equal values of the added keys stay together. The
// indexes do not depend on classes and stay. O(machines).
func (t *Table) reclass(added []int) {
	t.renumbered(&t.numbering.Classes)
	old := t.classes
	t.classes = newClasses()
	g := grouping{t: t, added: added, old: old.list, slots: make([]uint32, groupsMin)}
	for r := 1; r < len(t.cols.state); r++ {
		if t.cols.state[r] == model.StateUnspecified {
			continue
		}
		id := g.classOf(columnar.Row(r))
		t.cols.class[r] = id
		t.classes.list[id].count++
	}
	for i := range old.list {
		if old.list[i].count > 0 {
			t.releaseKind(&old.list[i].kind)
		}
	}
}

// groupsMin is the least length of a grouping's table, a power of two.
const groupsMin = 1 << 10

// grouping finds, for each row, the group of those before it that agree with it
// in the old class and in the values of the added keys.
type grouping struct {
	t      *Table
	added  []int
	old    []class
	slots  []uint32 // by hash, linear probing: group + 1; half full at most
	groups []group
	next   kind // scratch
}

// group is rows that agree.
type group struct {
	hash  uint64
	rep   columnar.Row // one of them
	class uint32       // that it had
	fresh uint32       // that it has
}

// mixer is an odd number whose product spreads what came in over the upper
// bits.
const mixer = 0x9e3779b97f4a7c15

// classOf returns the new class of a row, whose old one still stands in its
// column.
func (g *grouping) classOf(r columnar.Row) uint32 {
	class := g.t.cols.class[r]
	h := uint64(class) * mixer
	for _, k := range g.added {
		h = (h ^ h>>29 ^ uint64(g.t.keys[k].values[r])) * mixer
	}
	h ^= h >> 32
	mask := uint64(len(g.slots) - 1)
	i := h & mask
	for ; g.slots[i] != 0; i = (i + 1) & mask {
		if x := &g.groups[g.slots[i]-1]; x.hash == h && x.class == class && g.agree(x.rep, r) {
			return x.fresh
		}
	}
	g.groups = append(g.groups, group{hash: h, rep: r, class: class, fresh: g.t.classOf(g.kindOf(r, class))})
	g.slots[i] = uint32(len(g.groups))
	if 2*len(g.groups) > len(g.slots) {
		g.grow()
	}
	return g.groups[len(g.groups)-1].fresh
}

func (g *grouping) agree(a, b columnar.Row) bool {
	for _, k := range g.added {
		if values := g.t.keys[k].values; values[a] != values[b] {
			return false
		}
	}
	return true
}

// kindOf returns what a row of an old class is made of now.
func (g *grouping) kindOf(r columnar.Row, class uint32) *kind {
	g.next.set(&g.old[class].kind)
	g.next.values = g.next.values[:0]
	for i := range g.t.keys {
		v := uint32(0)
		if g.t.keys[i].splits {
			v = g.old[class].value(i)
		}
		g.next.values = append(g.next.values, v)
	}
	for _, k := range g.added {
		g.next.values[k] = g.t.keys[k].values[r]
	}
	return &g.next
}

func (g *grouping) grow() {
	g.slots = make([]uint32, 2*len(g.slots))
	mask := uint64(len(g.slots) - 1)
	for n := range g.groups {
		i := g.groups[n].hash & mask
		for g.slots[i] != 0 {
			i = (i + 1) & mask
		}
		g.slots[i] = uint32(n) + 1
	}
}
