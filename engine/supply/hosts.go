package supply

import (
	"encoding/binary"
	"strings"

	"github.com/tonnage/tonnage/columnar"
)

// hosts keeps the names of the hosts that machines run on. Nobody searches for
// a host, and hardly two machines share one; but the name of a host mostly
// holds the id of its machine ("i-0abc.internal", "aws:///us-east-1a/i-0abc").
// So a host is kept as what stands around the id, which many share, and else as
// text by itself:
//
//	0                    no host
//	1<<31 | number       the id, in a form of that number
//	position             a text, below 1<<31
type hosts struct {
	forms held // length of what is before the id, that, and what is behind it
	texts columnar.Texts
	enc   []byte
}

// hostForm is set in references to forms.
const hostForm = 1 << 31

// set replaces the host in *slot. It does nothing when it is the same.
func (h *hosts) set(slot *uint32, id, host string) {
	if h.is(*slot, id, host) {
		return
	}
	h.drop(*slot)
	*slot = h.put(id, host)
}

func (h *hosts) put(id, host string) uint32 {
	if host == "" {
		return 0
	}
	at := strings.Index(host, id)
	if at < 0 || id == "" {
		return h.texts.Put(host)
	}
	h.enc = binary.AppendUvarint(h.enc[:0], uint64(at))
	h.enc = append(append(h.enc, host[:at]...), host[at+len(id):]...)
	return hostForm | h.forms.holdBytes(h.enc)
}

func (h *hosts) drop(ref uint32) {
	switch {
	case ref == 0:
	case ref&hostForm != 0:
		h.forms.release(ref &^ hostForm)
	default:
		h.texts.Remove(ref)
	}
}

// form returns what stands around the id.
func (h *hosts) form(ref uint32) (before, behind string) {
	s := h.forms.text(ref &^ hostForm)
	length, head := uint64(s[0]), 1
	if length >= 0x80 {
		length, head = binary.Uvarint([]byte(s[:min(len(s), binary.MaxVarintLen64)]))
	}
	return s[head:][:length], s[head+int(length):]
}

// is reports whether the reference stands for the host of the machine.
func (h *hosts) is(ref uint32, id, host string) bool {
	switch {
	case ref == 0 || host == "":
		return ref == 0 && host == ""
	case ref&hostForm == 0:
		return h.texts.At(ref) == host
	}
	before, behind := h.form(ref)
	return len(host) == len(before)+len(id)+len(behind) && host[:len(before)] == before &&
		host[len(host)-len(behind):] == behind && host[len(before):][:len(id)] == id
}

// text returns the host of the machine.
func (h *hosts) text(ref uint32, id string) string {
	switch {
	case ref == 0:
		return ""
	case ref&hostForm == 0:
		return h.texts.At(ref)
	}
	before, behind := h.form(ref)
	return before + id + behind
}

// tidy copies the texts together when much of them has gone. The references are
// the whole column. O(rows), amortized over as many changes.
func (h *hosts) tidy(refs []uint32) {
	if !h.texts.Loose() {
		return
	}
	var fresh columnar.Texts
	for i, ref := range refs {
		if ref != 0 && ref&hostForm == 0 {
			refs[i] = fresh.Put(h.texts.At(ref))
		}
	}
	h.texts = fresh
}

// stored is the bytes of texts, those of forms included. Positions of texts
// have 31 bits, half of columnar.TextBytesMax, and so count double.
func (h *hosts) stored() int64 { return h.forms.stored + 2*h.texts.Stored() }

func (h *hosts) bytes() int64 { return h.forms.bytes() + h.texts.Bytes() }
