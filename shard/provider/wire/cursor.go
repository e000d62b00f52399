package wire

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// cursor walks over the fields of one message. It copies nothing.
type cursor struct {
	buf  []byte
	from int // where the field begins, with its tag
	at   int // behind the field

	num    protowire.Number
	typ    protowire.Type
	number uint64 // of a field of VarintType or Fixed64Type
	bytes  []byte // of a field of BytesType
	err    error
}

// fault says where a message is no protobuf.
type fault struct {
	at, of int
	why    error
}

func (f *fault) Error() string {
	return fmt.Sprintf("is no protobuf at byte %d of %d: %v", f.at, f.of, f.why)
}

func (f *fault) Unwrap() error { return f.why }

// ofWhole is the error of a cursor over a part, as one over the whole message
// would have it.
func ofWhole(err error, before, all int) error {
	var f *fault
	if !errors.As(err, &f) {
		return err
	}
	return &fault{before + f.at, all, f.why}
}

// next goes to the next field; false at the end of the message and where it
// cannot be read, which err tells apart. Nearly every field has a tag and a
// length or number of one byte each.
func (c *cursor) next() bool {
	if rest := c.buf[c.at:]; len(rest) >= 2 && rest[0] >= 1<<3 && rest[0] < 0x80 && rest[1] < 0x80 {
		n := int(rest[1])
		switch protowire.Type(rest[0] & 7) {
		case protowire.BytesType:
			if 2+n <= len(rest) {
				c.num, c.typ, c.bytes = protowire.Number(rest[0]>>3), protowire.BytesType, rest[2:2+n:2+n]
				c.from, c.at = c.at, c.at+2+n
				return true
			}
		case protowire.VarintType:
			c.num, c.typ, c.number = protowire.Number(rest[0]>>3), protowire.VarintType, uint64(n)
			c.from, c.at = c.at, c.at+2
			return true
		}
	}
	return c.nextOfAny()
}

// nextOfAny is next for every field there can be.
func (c *cursor) nextOfAny() bool {
	c.from = c.at
	if c.at == len(c.buf) {
		return false
	}
	num, typ, n := protowire.ConsumeTag(c.buf[c.at:])
	if n < 0 {
		return c.fail(protowire.ParseError(n))
	}
	if !num.IsValid() { // ConsumeTag lets those pass that are too large
		return c.fail(errors.New("a field has an impossible number"))
	}
	c.num, c.typ = num, typ
	rest := c.buf[c.at+n:]
	var size int
	switch typ {
	case protowire.VarintType:
		c.number, size = protowire.ConsumeVarint(rest)
	case protowire.Fixed64Type:
		c.number, size = protowire.ConsumeFixed64(rest)
	case protowire.BytesType:
		c.bytes, size = protowire.ConsumeBytes(rest)
	default:
		size = protowire.ConsumeFieldValue(num, typ, rest)
	}
	if size < 0 {
		return c.fail(protowire.ParseError(size))
	}
	c.at += n + size
	return true
}

func (c *cursor) fail(err error) bool {
	c.err = &fault{c.from, len(c.buf), err}
	return false
}

// holds tells whether the field has the number and holds bytes. A known number
// with another wire type is an unknown field.
func (c *cursor) holds(num protowire.Number) bool {
	return c.num == num && c.typ == protowire.BytesType
}
