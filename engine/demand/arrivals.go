package demand

import "github.com/tonnage/tonnage/engine/model"

// ArrivedBy makes rows arrive no later than at says for their profile, 0 = it
// does not know: what waited for a process that ended goes on waiting since
// then. O(rows).
func (b *Builder) ArrivedBy(at func(*model.Profile) int64) {
	known := make([]int64, len(b.profiles))
	for i, p := range b.profiles {
		known[i] = at(p)
	}
	for i, p := range b.profile {
		b.arrival[i] = earliest(b.arrival[i], known[p])
	}
}

// ArrivedAt sets the arrival of every row to now, in Unix nanoseconds. O(rows).
func (b *Builder) ArrivedAt(now int64) {
	for i := range b.arrival {
		b.arrival[i] = now
	}
}

// Swap exchanges the contents and the memory of two builders. O(1).
func (b *Builder) Swap(o *Builder) { *b, *o = *o, *b }

// Continue gives each row the arrival of the row that it continues in an older
// roll-up of the same cluster, where that is earlier. Rows match as Table.Report
// matches them: by profile and group, first those at both ends, then those
// between them in their order. The older roll-up is one that no table has taken;
// it does not change. O(rows of both).
func (b *Builder) Continue(older *Builder) {
	forms := map[string]uint32{}
	x := succession{builder: b, older: older, profile: b.numberForms(forms), before: older.numberForms(forms)}
	n, m := b.Len(), older.Len()
	prefix, suffix := 0, 0
	for prefix < min(n, m) && x.same(prefix, prefix) {
		x.take(prefix, prefix)
		prefix++
	}
	for suffix < min(n, m)-prefix && x.same(n-1-suffix, m-1-suffix) {
		suffix++
		x.take(n-suffix, m-suffix)
	}
	if prefix+suffix < min(n, m) {
		x.middle(prefix, n-suffix, m-suffix)
	}
}

// succession matches the rows of a roll-up with those of an older one. Both number
// their profiles by themselves, and equal profiles may have several numbers.
type succession struct {
	builder, older  *Builder
	profile, before []uint32 // by the number of a profile in each: the number of its canonical form
}

// numberForms returns the numbers of the canonical forms of the profiles; new forms
// get the next ones.
func (b *Builder) numberForms(forms map[string]uint32) []uint32 {
	out := make([]uint32, len(b.profiles))
	for i, p := range b.profiles {
		n, known := forms[p.Canonical()]
		if !known {
			n = uint32(len(forms))
			forms[p.Canonical()] = n
		}
		out[i] = n
	}
	return out
}

// same tells whether row i of the builder continues row j of the older one.
func (x *succession) same(i, j int) bool {
	return x.profile[x.builder.profile[i]] == x.before[x.older.profile[j]] && string(x.builder.group(i)) == string(x.older.group(j))
}

func (x *succession) take(i, j int) {
	x.builder.arrival[i] = earliest(x.older.arrival[j], x.builder.arrival[i])
}

// middle matches the rows from one on up to the ends of both.
func (x *succession) middle(from, builderEnd, olderEnd int) {
	type kind struct {
		profile uint32
		group   string
	}
	heads := make(map[kind]int, olderEnd-from) // the first row that nothing continues yet
	next := make([]int, olderEnd-from)         // the next row of its kind, −1 = none
	for j := olderEnd - 1; j >= from; j-- {
		k := kind{x.before[x.older.profile[j]], string(x.older.group(j))}
		after, ok := heads[k]
		if !ok {
			after = -1
		}
		next[j-from], heads[k] = after, j
	}
	for i := from; i < builderEnd; i++ {
		k := kind{x.profile[x.builder.profile[i]], string(x.builder.group(i))}
		if j, ok := heads[k]; ok && j >= 0 {
			heads[k] = next[j-from]
			x.take(i, j)
		}
	}
}
