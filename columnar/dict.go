package columnar

import (
	"slices"
	"unsafe"

	"github.com/cespare/xxhash/v2"

	"github.com/tonnage/tonnage/internal/invariants"
)

// Dict numbers strings: the first is 1, equal strings have equal numbers, and
// the number of a string that was removed is given to a later one, the
// smallest first. 0 is the empty string, which is not stored. The zero value
// is ready. One owner changes it; in between, any number may read.
//
// A string costs its length and one byte in front, four for its position and
// about eleven to twenty-one for its slot. A look-up costs one hash and usually
// three cache lines: the slot has the number, which leads to the position of the string.
type Dict struct {
	slots    slots // to numbers
	text     text
	position []uint32 // by number
	numbers  Rows
}

// ID returns the number of s, a new one when s is not known. The string is
// copied. It panics when the strings pass TextBytesMax.
func (d *Dict) ID(s string) uint32 {
	if s == "" {
		return 0
	}
	tag := tagOf(xxhash.Sum64String(s))
	if id, ok := d.find(tag, s); ok {
		return id
	}
	d.slots.reserve()
	id := uint32(d.numbers.Alloc())
	for len(d.position) <= int(id) {
		d.position = append(d.position, 0)
	}
	d.position[id] = d.text.put(s)
	d.slots.insert(tag, id)
	return id
}

// IDBytes is ID for bytes, which may change after the call.
func (d *Dict) IDBytes(b []byte) uint32 { return d.ID(borrow(b)) }

// Reserve makes room for the numbers and the slots of n strings in all, exactly,
// where a dictionary that grows by itself has up to a quarter to spare.
func (d *Dict) Reserve(n int) {
	d.slots.reserveAll(n)
	if n+1 > cap(d.position) {
		position := make([]uint32, len(d.position), n+1)
		copy(position, d.position)
		d.position = position
	}
}

// Lookup returns the number of s and whether s is known; the empty string
// never is.
func (d *Dict) Lookup(s string) (uint32, bool) {
	if s == "" {
		return 0, false
	}
	return d.find(tagOf(xxhash.Sum64String(s)), s)
}

// LookupBytes is Lookup for bytes.
func (d *Dict) LookupBytes(b []byte) (uint32, bool) { return d.Lookup(borrow(b)) }

// borrow returns b as a string for the time of a call that does not keep it.
func borrow(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// find looks for a string that is not empty.
func (d *Dict) find(tag uint32, s string) (uint32, bool) {
	if len(d.slots.table) == 0 {
		return 0, false
	}
	return d.findFrom(d.slots.home(tag), tag, s)
}

// findFrom goes on with the search at slot i.
func (d *Dict) findFrom(i int, tag uint32, s string) (uint32, bool) {
	for {
		slot := d.slots.table[i]
		if slot == 0 {
			return 0, false
		}
		if uint32(slot>>32) == tag {
			if id := uint32(slot); d.text.at(d.position[id]) == s {
				return id, true
			}
		}
		i = d.slots.next(i)
	}
}

// String returns the string of a number in use, "" for 0. It is not a copy and
// stays good even after the string's removal.
func (d *Dict) String(id uint32) string {
	if id == 0 {
		return ""
	}
	if invariants.Enabled && !d.numbers.Live(Row(id)) {
		panic("invariants: string of a number that was removed")
	}
	return d.text.at(d.position[id])
}

// Remove forgets the string of a number in use. The text is written anew once
// more than half of it is of removed strings: amortized, O(length).
func (d *Dict) Remove(id uint32) {
	d.numbers.Free(Row(id)) // refuses 0 and numbers not in use
	s := d.text.at(d.position[id])
	d.slots.remove(tagOf(xxhash.Sum64String(s)), id)
	d.text.stored -= sizeOf(s)
	if d.text.bytes > 2*(d.text.stored+textChunkBytes) {
		d.compact()
	}
}

// compact copies the strings in use, in order of their numbers, and drops the
// rest.
func (d *Dict) compact() {
	var fresh text
	for r := d.numbers.Next(1); r != None; r = d.numbers.Next(r + 1) {
		d.position[r] = fresh.put(d.text.at(d.position[r]))
	}
	d.text = fresh
}

// Len returns the number of strings.
func (d *Dict) Len() int { return d.numbers.Len() }

// Top returns the highest number ever given out: columns by number grow to it.
func (d *Dict) Top() uint32 { return uint32(d.numbers.Top()) }

// Bytes returns the memory held.
func (d *Dict) Bytes() int64 {
	return d.slots.bytes() + d.text.bytes + int64(cap(d.text.chunks))*24 + int64(cap(d.position))*4 + d.numbers.Bytes()
}

// lookupBatch is how many look-ups are under way at one time: enough misses to
// keep memory busy, few enough that what they brought is still in the first
// cache when it is looked at.
const lookupBatch = 64

// LookupAll stores the number of keys[i], 0 when it is not known, in dst[i].
// dst must be as long as keys. For many keys it is about twice as fast as one
// Lookup after the other.
func (d *Dict) LookupAll(dst []uint32, keys []string) {
	dst = dst[:len(keys)]
	if len(d.slots.table) == 0 {
		clear(dst)
		return
	}
	for len(keys) > 0 {
		n := min(len(keys), lookupBatch)
		d.lookupBatch(dst[:n], keys[:n])
		dst, keys = dst[n:], keys[n:]
	}
}

// lookupBatch goes over the batch once per stage. A stage that touches memory
// for the first time does next to nothing else: no branch waits for what it
// loads, so the processor has as many misses under way as it can.
func (d *Dict) lookupBatch(dst []uint32, keys []string) {
	var tags, at, where [lookupBatch]uint32
	var slots [lookupBatch]uint64
	for i, k := range keys {
		tags[i] = tagOf(xxhash.Sum64String(k))
	}
	for i := range keys {
		slots[i] = d.slots.table[d.slots.home(tags[i])]
	}
	for i := range keys { // the first slot that has the tag
		j := d.slots.home(tags[i])
		slot := slots[i]
		for slot != 0 && uint32(slot>>32) != tags[i] {
			j = d.slots.next(j)
			slot = d.slots.table[j]
		}
		at[i], dst[i] = uint32(j), uint32(slot)
	}
	for i := range keys {
		if dst[i] != 0 {
			where[i] = d.position[dst[i]]
		}
	}
	for i, k := range keys {
		if dst[i] == 0 {
			continue
		}
		if d.text.at(where[i]) != k { // another string with the same tag
			dst[i], _ = d.findFrom(d.slots.next(int(at[i])), tags[i], k)
		}
	}
}

// Frozen returns the dictionary as it is now. Only String may be called on what it returns; that goes on while d changes. It
// copies numbers, and no string. O(numbers).
func (d *Dict) Frozen() Dict {
	return Dict{text: d.text.frozen(), position: slices.Clone(d.position), numbers: d.numbers.clone()}
}
