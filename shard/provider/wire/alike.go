package wire

import (
	"bytes"

	"github.com/tonnage/tonnage/shard"
)

// Free slots of an offer say the same of everything but their id, and follow each other in a listing. What was found out of one
// holds for the next when what stands behind the id is the same, byte by byte.

// run is the first run of fields of a record: up to where it goes, and what it is in the digest.
type run struct {
	end  int
	part uint64
}

// noted is what Parse found out of the record before. The zero value is nothing.
type noted struct {
	body  []byte // behind the id, nil = the record may be like no other
	first int    // how much of it is of the first run of fields, which the id is too
	rest  uint64 // the digest's total without that run
	like  record
}

// idOf returns how long the id field is that a record begins with, 0 = it begins with none, or with one of another form than
// encoders write.
func idOf(b []byte) int {
	if len(b) < 2 || b[0] != fieldID<<3|2 || b[1] == 0 || b[1] >= 0x80 || 2+int(b[1]) > len(b) {
		return 0
	}
	return 2 + int(b[1])
}

// parse notes the record at these bytes of the message.
func (n *noted) parse(msg []byte, from, to int) record {
	b := msg[from:to]
	id := idOf(b)
	if id > 0 && n.body != nil && bytes.Equal(b[id:], n.body) {
		x := n.like
		x.from, x.to, x.id, x.idLen = uint32(from), uint32(to), uint32(from+2), uint32(id-2)
		d := digest{}
		d.run(b[:id+n.first])
		d.total += n.rest
		x.digest = d.sum()
		return x
	}
	x, d, first := parseRecord(msg, from, to)
	*n = noted{}
	if id > 0 && id < len(b) && x.digest != 0 && int(x.id) == from+2 && first.end >= id { // the id stands there and nowhere else
		*n = noted{body: b[id:], first: first.end - id, rest: d.total - first.part, like: x}
	}
	return x
}

// before is the record that was read last. The zero value is none.
type before struct {
	body []byte // behind the id, nil = the record may be like no other
	read shard.Record
}

// is tells whether a record is the last one with another id.
func (r *before) is(x *record, b []byte) bool {
	return r.body != nil && x.digest != 0 && idOf(b) > 0 && bytes.Equal(b[idOf(b):], r.body)
}
