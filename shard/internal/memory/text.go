package memory

import (
	"encoding/binary"

	"github.com/tonnage/tonnage/engine/model"
)

// AppendText appends a text with its length.
func AppendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// Reader reads what AppendText and encoding/binary wrote.
type Reader struct {
	b     []byte
	short bool
}

// NewReader returns a reader of what was kept.
func NewReader(b []byte) *Reader { return &Reader{b: b} }

// More tells whether there is anything left to read.
func (d *Reader) More() bool { return len(d.b) > 0 }

// TooShort tells whether more was asked for than there was; what was read is worth nothing then.
func (d *Reader) TooShort() bool { return d.short }

func (d *Reader) take(n int) []byte {
	if n < 0 || n > len(d.b) {
		d.b, d.short = nil, true
		return nil
	}
	out := d.b[:n]
	d.b = d.b[n:]
	return out
}

// Byte reads one byte.
func (d *Reader) Byte() byte {
	if x := d.take(1); x != nil {
		return x[0]
	}
	return 0
}

// Varint reads a number of AppendVarint.
func (d *Reader) Varint() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		n = -1
	}
	d.take(n)
	return v
}

// Fixed reads a number of eight bytes, the low ones first.
func (d *Reader) Fixed() uint64 {
	if x := d.take(8); x != nil {
		return binary.LittleEndian.Uint64(x)
	}
	return 0
}

// Text reads a text of AppendText.
func (d *Reader) Text() string {
	v, n := binary.Uvarint(d.b)
	if n <= 0 || v > model.NameBytesMax {
		n = -1
	}
	d.take(n)
	return string(d.take(int(v)))
}
