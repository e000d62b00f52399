package columnar

// Texts stores strings that are nearly all different and never searched for,
// such as host names: no numbers, no hashes, nothing but the string and its
// length, at a position that the owner keeps. The zero value is ready.
//
// Removed strings leave holes. The owner, who alone knows the positions, copies
// what is left into a fresh Texts when Loose says that it is worth it.
type Texts struct {
	text text
	len  int
}

// Put stores s and returns its position, which is never 0. It panics when the
// strings pass TextBytesMax.
func (t *Texts) Put(s string) uint32 {
	t.len++
	return t.text.put(s)
}

// At returns the string at a position. It is not a copy and stays good even
// after the string's removal.
func (t *Texts) At(position uint32) string {
	return t.text.at(position)
}

// Remove forgets the string at a position that Put returned. Positions must not
// be removed twice.
func (t *Texts) Remove(position uint32) {
	t.text.stored -= sizeOf(t.At(position))
	t.len--
}

// Loose reports whether more than half of the memory is of removed strings.
func (t *Texts) Loose() bool { return t.text.bytes > 2*(t.text.stored+textChunkBytes) }

// Len returns the number of strings.
func (t *Texts) Len() int { return t.len }

// Stored returns the bytes that the strings take, holes not counted.
func (t *Texts) Stored() int64 { return t.text.stored }

// Bytes returns the memory held.
func (t *Texts) Bytes() int64 { return t.text.bytes + int64(cap(t.text.chunks))*24 }

// Frozen returns the strings as they are now. Only At may be called on what it returns; that goes on while t changes. It copies
// no string. O(length / 64 KiB).
func (t *Texts) Frozen() Texts { return Texts{text: t.text.frozen()} }
