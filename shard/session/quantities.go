package session

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
)

// quantity is an entry of a map of quantities.
type quantity struct {
	name, text []byte // of the message
}

// quantities is one map of the row being read. If several entries have one
// name, the last one counts, whatever the others contain.
type quantities struct {
	list  []quantity
	count int // entries, repeated names included
}

func (q *quantities) reset() { q.list, q.count = q.list[:0], 0 }

// letGo drops what refers to the message.
func (q *quantities) letGo() { clear(q.list[:cap(q.list)]) }

// read takes in an entry of the map that the field is.
func (q *quantities) read(field string, entry []byte) error {
	if q.count++; q.count > EntriesMax {
		return fmt.Errorf("%s has more than %d entries; name each resource once", field, EntriesMax)
	}
	x, ok := plainEntry(entry)
	if !ok {
		var err error
		if x, err = anyEntry(field, entry); err != nil {
			return err
		}
	}
	for i := range q.list {
		if known := &q.list[i]; bytes.Equal(known.name, x.name) {
			if !utf8.Valid(known.text) { // amounts does not see it
				return fmt.Errorf("%s is not valid UTF-8", field)
			}
			known.text = x.text
			return nil
		}
	}
	q.list = append(q.list, x)
	return nil
}

// plainEntry reads an entry as encoders write it: name, then text, each once
// and shorter than 128 bytes, and nothing else.
func plainEntry(b []byte) (quantity, bool) {
	const name, text = byte(fieldMapKey<<3) | byte(protowire.BytesType), byte(fieldMapValue<<3) | byte(protowire.BytesType)
	if len(b) < 2 || b[0] != name || b[1] >= 0x80 {
		return quantity{}, false
	}
	at := 2 + int(b[1]) // of the text's tag
	if at+2 > len(b) || b[at] != text || b[at+1] >= 0x80 || at+2+int(b[at+1]) != len(b) {
		return quantity{}, false
	}
	return quantity{name: b[2:at:at], text: b[at+2:]}, true
}

// anyEntry reads any entry.
func anyEntry(field string, entry []byte) (x quantity, err error) {
	c := cursor{buf: entry}
	for c.next() {
		switch {
		case c.is(fieldMapKey):
			x.name = c.bytes
		case c.is(fieldMapValue):
			x.text = c.bytes
		default:
			continue
		}
		if !utf8.Valid(c.bytes) {
			return x, fmt.Errorf("%s is not valid UTF-8", field)
		}
	}
	if c.err != nil {
		return x, fmt.Errorf("%s %w", field, c.err)
	}
	return x, nil
}

// amounts appends the map's vector, by the builder's dimensions. What is zero
// is left out, and takes no dimension.
func (q *quantities) amounts(dst []demand.Amount, field string, b *demand.Builder) ([]demand.Amount, error) {
	for i := range q.list {
		x := &q.list[i]
		v, err := model.ParseQuantityBytes(x.name, x.text)
		if err != nil { // as it is for all text that is not valid UTF-8
			return dst, fmt.Errorf("%s: %.*q: %.*q %w", field, model.NameBytesMax, x.name, model.QuantityBytesMax, x.text, err)
		}
		dim, known := b.FindDim(x.name)
		if !known {
			if dim, err = newDim(x.name, v, b); err != nil {
				return dst, fmt.Errorf("%s %w", field, err)
			}
		}
		if v != 0 {
			dst = append(dst, demand.Amount{Dim: dim, Value: v})
		}
	}
	return dst, nil
}

// newDim gives a name a dimension if its amount calls for one.
func newDim(name []byte, v int64, b *demand.Builder) (uint32, error) {
	switch {
	case len(name) == 0:
		return 0, errNameless
	case v == 0 && model.CheckName(name) == nil:
		return 0, nil
	}
	return b.Dim(name)
}

var errNameless = errors.New("has an entry without a name; name the resource")
