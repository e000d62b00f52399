package wire

import (
	"errors"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// part is a stretch of the message in which records lie whole: those from first
// on, up to end.
type part struct {
	bytes      []byte
	first, end int
}

// pieces cuts a message that came in pieces into parts: the pieces as they are,
// and between two of them, copied, the field that begins in one and ends in
// another.
type pieces struct {
	part []byte // the current one
	torn []byte // the one after it, if it is a torn field
	head []byte // what is left of the piece that was begun
	rest [][]byte

	before int // bytes before the current part
	bytes  int // of the message
}

// next goes to the next part; false at the end of the message.
func (p *pieces) next() bool {
	p.before += len(p.part)
	switch {
	case len(p.torn) > 0:
		p.part, p.torn = p.torn, nil
	case p.more():
		p.part, p.head = p.head, nil
	default:
		p.part = nil
	}
	return len(p.part) > 0
}

// more tells whether there is anything left, which head holds then.
func (p *pieces) more() bool {
	for len(p.head) == 0 && len(p.rest) > 0 {
		p.head, p.rest = p.rest[0], p.rest[1:]
	}
	return len(p.head) > 0
}

// rejoin ends the part at the field that begins at from and cannot be read, and
// makes that field the next part. It returns false when the field does not go
// on in what follows: the message is broken there.
func (p *pieces) rejoin(from int) bool {
	n := missing(p.part[from:])
	if n == 0 || !p.more() {
		return false
	}
	p.torn = append(make([]byte, 0, len(p.part)-from+n), p.part[from:]...)
	p.part = p.part[:from]
	for ; n > 0 && p.more(); n = missing(p.torn) {
		n = min(n, len(p.head))
		p.torn, p.head = append(p.torn, p.head[:n]...), p.head[n:]
	}
	return true
}

// missing returns how many bytes, at least or about, there are still to come of
// the field that b begins with; 0 when it is whole, or no protobuf.
func missing(b []byte) int {
	num, typ, tag := protowire.ConsumeTag(b)
	if tag < 0 {
		return cutOff(tag, 1)
	}
	if typ != protowire.BytesType {
		return cutOff(protowire.ConsumeFieldValue(num, typ, b[tag:]), len(b)) // a group tells its length nowhere
	}
	length, n := protowire.ConsumeVarint(b[tag:])
	if n < 0 {
		return cutOff(n, 1)
	}
	return max(0, int(min(length, MessageBytesMax))-len(b[tag+n:]))
}

// cutOff returns n if a failure is that something is missing at the end.
func cutOff(failure, n int) int {
	if failure < 0 && errors.Is(protowire.ParseError(failure), io.ErrUnexpectedEOF) {
		return n
	}
	return 0
}
