package wire

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tonnage/tonnage/shard"
)

const (
	// MessageBytesMax is the longest listing that is read: the ceiling of the
	// protocol's messages.
	MessageBytesMax = 256 << 20
	// RecordsMax is the most records of a listing: as many as the machine table
	// holds.
	RecordsMax = 1 << 21
)

// List is a listing as it came. It is a shard.Batch. The zero value is an empty
// listing; one List reads many, one after the other, and reuses its memory.
type List struct {
	parts    []part
	at       int // the part of the record that was last asked for
	records  []record
	revision []byte
	sets     sets
	out      shard.Record // of Record
	machine  reading      // scratch of Record
	noted    noted        // of the record that was parsed last
	before   before       // of the record that was read last
}

var _ shard.Batch = (*List)(nil)

// record is what Parse notes of one record. Ends and lengths fit, as messages
// are limited.
type record struct {
	digest uint64 // 0 = it is not to be passed over
	from   uint32 // of the part, behind the tag and the length
	to     uint32
	id     uint32 // of the part
	idLen  uint32 // 0 = there is none
	// The parts that its maps have in the digest, 0 = not known; where there is no
	// digest they mean nothing, nor are they asked for: the record cannot be read.
	labels, metadata, resources uint64
}

// recordsKept is the room, in records, that is kept for the next listing.
const recordsKept = 1 << 14

// Parse takes a message, which must not change any more. What was read from
// List before is no longer valid. The error says where the message is broken;
// the List is empty then. Cost: about 100 ns a record, no allocation once the
// columns have their length.
func (l *List) Parse(msg []byte) error {
	l.Done()
	return l.parse(pieces{head: msg, bytes: len(msg)})
}

// ParsePieces is Parse of a message that came in pieces, none of which must
// change any more; what one begins, the next may end. A message of 140 MB need
// not be copied together, and what is read of it keeps the memory of one piece.
func (l *List) ParsePieces(msg [][]byte) error {
	l.Done()
	p := pieces{rest: msg}
	for _, b := range msg {
		p.bytes += len(b)
	}
	return l.parse(p)
}

func (l *List) parse(p pieces) error {
	l.revision = nil
	if p.bytes > MessageBytesMax {
		return fmt.Errorf("listing of %d bytes: at most %d are read", p.bytes, MessageBytesMax)
	}
	for p.next() {
		if err := l.parsePart(&p); err != nil {
			l.Done()
			l.revision = nil
			return fmt.Errorf("listing %w", err)
		}
	}
	return nil
}

// parsePart reads the fields that end within a part.
func (l *List) parsePart(p *pieces) error {
	before := len(l.records)
	c := cursor{buf: p.part}
	for c.next() {
		switch {
		case c.holds(fieldMachines):
			if len(l.records) == RecordsMax {
				return fmt.Errorf("with more than %d records; a shard holds no more machines", RecordsMax)
			}
			if len(l.records) == cap(l.records) {
				l.grow(p.before+c.at, p.bytes)
			}
			l.records = append(l.records, l.noted.parse(p.part, c.at-len(c.bytes), c.at))
		case c.holds(fieldRevision):
			l.revision = bytes.Clone(c.bytes)
		}
	}
	if len(l.records) > before {
		l.parts = append(l.parts, part{p.part, before, len(l.records)})
	}
	if c.err != nil && !p.rejoin(c.from) {
		return fmt.Errorf("%w; nothing of it is taken over", ofWhole(c.err, p.before, p.bytes))
	}
	return nil
}

// grow makes room for as many records as the message seems to hold, by those
// that its first bytes held.
func (l *List) grow(read, all int) {
	n := len(l.records)
	room := max(64, n+n/8, int(float64(n)*float64(all)/float64(read)))
	l.records = slices.Grow(l.records, min(room, RecordsMax)-n)
}

// Done lets go of the message: there are no records any more. What was read of
// them stays good.
func (l *List) Done() {
	clear(l.parts)
	l.parts, l.at, l.records = l.parts[:0], 0, l.records[:0]
	if cap(l.records) > recordsKept {
		l.parts, l.records = nil, nil
	}
	for _, m := range [...]*memo{&l.sets.labels, &l.sets.resources, &l.sets.metadata} {
		if len(m.byDigest) > setsKept {
			*m = memo{}
		}
	}
	// What was read last are parts of the message too.
	l.out, l.noted, l.before = shard.Record{}, noted{}, before{}
	in := &l.machine
	for _, e := range [...]*entries{&in.labels, &in.metadata, &in.resources, &in.allocatable} {
		clear(e.list[:cap(e.list)])
		e.reset(0, 0)
	}
}

// parseRecord notes the record at these bytes of the message. first is how far its first run goes, and what that is in its
// digest, in which it is the sum; it means nothing where there is no digest.
func parseRecord(msg []byte, from, to int) (x record, d digest, first run) {
	x = record{from: uint32(from), to: uint32(to)}
	c := cursor{buf: msg[from:to]}
	at := 0 // where the fields begin that are not in the digest yet
	for c.next() {
		if c.typ != protowire.BytesType {
			continue
		}
		switch c.num {
		case fieldID:
			x.id, x.idLen = uint32(from+c.at-len(c.bytes)), uint32(len(c.bytes))
		case fieldLabels, fieldShardMetadata, fieldResources, fieldAllocatable:
			d.run(c.buf[at:c.from])
			if first.end == 0 {
				first = run{c.from, d.total}
			}
			before := d.total
			switch c.num {
			case fieldLabels:
				d.entry(c.num, c.bytes)
				x.labels += d.total - before
			case fieldShardMetadata:
				d.entry(c.num, c.bytes)
				x.metadata += d.total - before
			default:
				runs := d.runs
				if !d.entries(c.num, c.bytes) {
					return x, d, first
				}
				if c.num == fieldResources && d.runs == runs { // all of it is entries
					x.resources += d.total - before
				}
			}
			at = c.at
		}
	}
	if c.err != nil {
		return x, d, first
	}
	d.run(c.buf[at:])
	if first.end == 0 {
		first = run{len(c.buf), d.total}
	}
	x.digest = d.sum()
	return x, d, first
}

// Len returns the number of records.
func (l *List) Len() int { return len(l.records) }

// Revision returns the listing's cursor, nil when it has none.
func (l *List) Revision() []byte { return l.revision }

// ID returns the id of record i, "" when there is none to be read. It is part
// of the message.
func (l *List) ID(i int) string {
	x := &l.records[i]
	return borrow(l.partOf(i)[x.id:][:x.idLen])
}

// partOf returns the part that record i lies in. Records are read one after the
// other.
func (l *List) partOf(i int) []byte {
	if p := &l.parts[l.at]; i < p.first || i >= p.end {
		l.at, _ = slices.BinarySearchFunc(l.parts, i+1, func(p part, n int) int { return cmp.Compare(p.end, n) })
	}
	return l.parts[l.at].bytes
}

// Digest returns a number that equal records share, 0 when the record cannot
// be read.
func (l *List) Digest(i int) uint64 { return l.records[i].digest }

// Response returns the listing as the shard takes it over. Whether it is
// complete is the caller's to know: it is, if the shard did not ask for what
// changed since a revision.
func (l *List) Response(full bool) shard.ListResponse {
	return shard.ListResponse{Batch: l, Revision: l.revision, Full: full}
}

// borrow returns b as a string without copying it. The bytes of a message never
// change.
func borrow(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// compile-time: places in a message fit their columns.
const _ = uint(math.MaxUint32 - MessageBytesMax)
