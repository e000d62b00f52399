package columnar

import (
	"encoding/binary"
	"fmt"
	"slices"
	"unsafe"
)

const (
	textShift      = 16
	textChunkBytes = 1 << textShift

	// TextBytesMax is the most that one dictionary stores, in bytes.
	TextBytesMax = 1 << 32
)

// text stores strings one behind the other and addresses them by 32 bits: the
// chunk above, the offset in the chunk below. In front of each stands its length:
//
//	| length: varint | the string |
//
// A string is never split; one that is longer than a chunk has a chunk of its
// own that takes the numbers of as many ordinary ones. Stored bytes do not
// change or move, so strings read from here stay good whatever happens to it.
// Position 0 is not used.
type text struct {
	chunks [][]byte
	bytes  int64 // capacity of the chunks
	stored int64 // bytes of strings in use, with what stands in front of them
}

// put stores s and returns its position.
func (t *text) put(s string) uint32 {
	var length [binary.MaxVarintLen64]byte
	front := length[:binary.PutUvarint(length[:], uint64(len(s)))]
	need := len(front) + len(s)
	last := len(t.chunks) - 1
	if last < 0 || t.chunks[last] == nil || need > textChunkBytes-len(t.chunks[last]) {
		last = t.open(need)
	}
	c := t.chunks[last]
	position := uint32(last)<<textShift | uint32(len(c))
	t.bytes -= int64(cap(c))
	c = append(append(c, front...), s...)
	t.bytes += int64(cap(c))
	t.chunks[last] = c
	t.stored += int64(need)
	return position
}

// open adds a chunk with room for need bytes and returns its number. The first
// one grows as it is filled: most dictionaries are small.
func (t *text) open(need int) int {
	number, used := len(t.chunks), 0
	if number == 0 {
		used = 1 // position 0
	}
	span := (used + need + textChunkBytes - 1) / textChunkBytes
	if int64(number+span)*textChunkBytes > TextBytesMax {
		panic(fmt.Sprintf("columnar: a dictionary holds at most %d bytes", int64(TextBytesMax)))
	}
	room := used + need
	if number > 0 {
		room = max(room, textChunkBytes)
	}
	t.chunks = append(t.chunks, make([]byte, used, room))
	t.bytes += int64(room)
	for range span - 1 {
		t.chunks = append(t.chunks, nil)
	}
	return number
}

// at returns the string at a position that put returned.
func (t *text) at(position uint32) string {
	b := t.chunks[position>>textShift][position&(textChunkBytes-1):]
	length, head := uint64(b[0]), 1
	if length >= 0x80 {
		length, head = binary.Uvarint(b)
	}
	return unsafe.String(unsafe.SliceData(b[head:]), int(length))
}

// sizeOf returns the bytes that put stores for s.
func sizeOf(s string) int64 {
	n := int64(1 + len(s))
	for l := len(s); l >= 0x80; l >>= 7 {
		n++
	}
	return n
}

// frozen returns the text as it is now, for at. Strings are not copied: a chunk grows, and what it holds does not change.
func (t *text) frozen() text { return text{chunks: slices.Clone(t.chunks)} }
