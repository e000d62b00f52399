package session

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// cursor walks over the fields of one message. It copies nothing.
type cursor struct {
	buf  []byte
	at   int // behind the field
	from int // where the field begins, with its tag

	num    protowire.Number
	typ    protowire.Type
	varint uint64 // of a field of VarintType
	bytes  []byte // of a field of BytesType
	err    error
}

// next goes to the next field; false at the end of the message or of what can
// be read of it, which err tells apart. Nearly every field has a tag of one
// byte, and a number of one byte or a length of one or two.
func (c *cursor) next() bool {
	rest := c.buf[c.at:]
	if len(rest) < 3 || rest[0] < 1<<3 || rest[0] >= 0x80 {
		return c.nextOfAny()
	}
	tag, n, head := rest[0], int(rest[1]), 2
	if n >= 0x80 {
		if rest[2] >= 0x80 {
			return c.nextOfAny()
		}
		n, head = n&0x7f|int(rest[2])<<7, 3
	}
	switch protowire.Type(tag & 7) {
	case protowire.BytesType:
		if head+n > len(rest) {
			return c.nextOfAny()
		}
		c.bytes = rest[head : head+n]
		c.from, c.at = c.at, c.at+head+n
	case protowire.VarintType:
		c.varint = uint64(n)
		c.from, c.at = c.at, c.at+head
	default:
		return c.nextOfAny()
	}
	c.num, c.typ = protowire.Number(tag>>3), protowire.Type(tag&7)
	return true
}

// nextOfAny is next for every field there can be.
func (c *cursor) nextOfAny() bool {
	if c.at >= len(c.buf) {
		return false
	}
	c.from = c.at
	tag, ok := c.uvarint()
	if !ok {
		return false
	}
	num, typ := protowire.DecodeTag(tag)
	if !num.IsValid() {
		return c.fail(errors.New("a field has an impossible number"))
	}
	c.num, c.typ = num, typ
	switch typ {
	case protowire.VarintType:
		c.varint, ok = c.uvarint()
		return ok
	case protowire.BytesType:
		n, ok := c.uvarint()
		if !ok {
			return false
		}
		if n > uint64(len(c.buf)-c.at) {
			return c.fail(fmt.Errorf("field %d is cut off", num))
		}
		c.bytes = c.buf[c.at : c.at+int(n)]
		c.at += int(n)
		return true
	}
	n := protowire.ConsumeFieldValue(num, typ, c.buf[c.at:])
	if n < 0 {
		return c.fail(fmt.Errorf("field %d: %w", num, protowire.ParseError(n)))
	}
	c.at += n
	return true
}

func (c *cursor) uvarint() (uint64, bool) {
	v, n := protowire.ConsumeVarint(c.buf[c.at:])
	if n < 0 {
		return 0, c.fail(protowire.ParseError(n))
	}
	c.at += n
	return v, true
}

func (c *cursor) fail(err error) bool {
	c.err = fmt.Errorf("is not valid protobuf at byte %d of %d: %w", c.from, len(c.buf), err)
	return false
}

// is tells whether the field has this number and holds bytes. A known number
// with another wire type is an unknown field.
func (c *cursor) is(num protowire.Number) bool { return c.num == num && c.typ == protowire.BytesType }

// isVarint is is for numbers.
func (c *cursor) isVarint(num protowire.Number) bool {
	return c.num == num && c.typ == protowire.VarintType
}
