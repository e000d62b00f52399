package demand

import "slices"

// matcher finds which rows of the demand before go on in a roll-up. All of it
// is scratch.
type matcher struct {
	heads map[uint64]int32 // by kind: the first row that nothing continues yet
	next  []int32          // the next row of its kind, by row after the prefix; −1
}

// continueRows hands what the builder's rows take over from the rows they
// continue to the builder. Most roll-ups differ from the one before in few
// rows, so what is alike at both ends is found by comparing.
func (t *Table) continueRows(b *Builder, old *Block) {
	stamped := len(b.parked)
	n, m := b.Len(), old.Len()
	prefix, suffix := 0, 0
	for prefix < min(n, m) && t.continues(b, prefix, old, prefix) {
		prefix++
	}
	for suffix < min(n, m)-prefix && t.continues(b, n-1-suffix, old, m-1-suffix) {
		suffix++
	}
	for i := range prefix {
		b.takeOver(&t.installer, i, old, i)
	}
	if prefix+suffix < min(n, m) {
		t.continueMiddle(b, old, prefix, suffix)
	}
	for i := n - suffix; i < n; i++ {
		b.takeOver(&t.installer, i, old, m-n+i)
	}
	if stamped > 0 {
		slices.Sort(b.parked)
		b.parked = slices.Compact(b.parked)
	}
}

// kindOf returns what a builder's row must have in common with the one that it
// continues: profile and group, by the table's numbers.
func (x *installer) kindOf(b *Builder, i int) uint64 {
	kind := uint64(x.profile[b.profile[i]]) << 32
	if len(x.group) > 0 {
		kind |= uint64(x.group[i])
	}
	return kind
}

func (b *Block) kind(i int) uint64 { return uint64(b.profile[i])<<32 | uint64(b.GroupID(i)) }

func (t *Table) continues(b *Builder, i int, old *Block, j int) bool {
	return t.installer.kindOf(b, i) == old.kind(j)
}

// continueMiddle matches the rows between the ends, in the order of each kind.
func (t *Table) continueMiddle(b *Builder, old *Block, prefix, suffix int) {
	x := &t.installer
	match := &x.match
	if match.heads == nil {
		match.heads = map[uint64]int32{}
	}
	clear(match.heads)
	rows := old.Len() - suffix - prefix
	match.next = slices.Grow(match.next[:0], rows)[:rows]
	for j := rows - 1; j >= 0; j-- {
		kind := old.kind(prefix + j)
		next, ok := match.heads[kind]
		if !ok {
			next = -1
		}
		match.next[j], match.heads[kind] = next, int32(j)
	}
	for i := prefix; i < b.Len()-suffix; i++ {
		kind := x.kindOf(b, i)
		if j, ok := match.heads[kind]; ok && j >= 0 {
			match.heads[kind] = match.next[j]
			b.takeOver(x, i, old, prefix+int(j))
		}
	}
}

// takeOver gives row i the arrival of old row j, if that was earlier, and its
// stamps, if it asks for as much.
func (b *Builder) takeOver(x *installer, i int, old *Block, j int) {
	b.arrival[i] = earliest(old.arrival[j], b.arrival[i])
	if !old.Parked(j) && len(old.shortSince) == 0 {
		return
	}
	parked, since := old.Parked(j), old.shortSince[j]
	if !parked && since == 0 || x.vector[b.aggregate[i]] != old.aggregate[j] || !x.unofferedOf(b, i).Aggregate.Equal(old.Unoffered(j).Aggregate) {
		return
	}
	if parked {
		b.parked = append(b.parked, uint32(i))
	}
	if _, ok := b.shortSince[i]; !ok && since != 0 {
		if b.shortSince == nil {
			b.shortSince = map[int]int64{}
		}
		b.shortSince[i] = since
	}
}

// earliest returns the earlier of two arrivals; zero is none.
func earliest(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
