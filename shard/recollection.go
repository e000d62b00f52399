package shard

import (
	"encoding/binary"
	"errors"

	"github.com/tonnage/tonnage/engine/model"
)

// recollection is what is remembered of a machine.
type recollection struct {
	state       model.State
	idleSince   int64
	assigned    model.Assignment
	reservation model.Reservation
	drain       drain
	cluster     string // which it was bound to; since 0.2.0
}

const recollectionVersion = 1

func (x *recollection) encode(b []byte) []byte {
	b = append(b, recollectionVersion, byte(x.state))
	b = binary.AppendVarint(b, x.idleSince)
	b = binary.AppendVarint(b, int64(x.assigned.Priority))
	b = append(b, byte(x.assigned.Interruption), byte(x.assigned.Reclamation))
	b = binary.LittleEndian.AppendUint64(b, x.assigned.Fingerprint)
	b = appendText(b, x.assigned.Group)
	r := &x.reservation
	b = appendText(b, r.Owner.Cluster)
	b = binary.LittleEndian.AppendUint64(b, r.Owner.Fingerprint)
	b = appendText(b, r.Owner.Group)
	b = binary.AppendVarint(b, int64(r.Priority))
	b = append(b, byte(r.Interruption), byte(r.Reclamation))
	b = binary.AppendVarint(b, r.Arrival)
	b = binary.AppendVarint(b, r.Deadline)
	b = binary.LittleEndian.AppendUint64(b, r.Plan)
	b = appendText(b, r.Domain)
	b = binary.AppendVarint(b, x.drain.started)
	b = binary.AppendVarint(b, int64(x.drain.graceSeconds))
	return appendText(b, x.cluster)
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

var errRecollection = errors.New("it is not what this version writes")

// decodeRecollection reads what encode wrote. Fields of a later version behind
// the known ones are passed over.
func decodeRecollection(b []byte) (x recollection, err error) {
	d := textReader{b: b}
	if d.byte() != recollectionVersion {
		return x, errRecollection
	}
	x.state = model.State(d.byte())
	x.idleSince = d.varint()
	x.assigned = model.Assignment{
		Priority: int32(d.varint()), Interruption: model.Bucket(d.byte()), Reclamation: model.Bucket(d.byte()),
		Fingerprint: d.fixed(), Group: d.text(),
	}
	x.reservation.Owner = model.Owner{Cluster: d.text(), Fingerprint: d.fixed(), Group: d.text()}
	x.reservation.Priority = int32(d.varint())
	x.reservation.Interruption, x.reservation.Reclamation = model.Bucket(d.byte()), model.Bucket(d.byte())
	x.reservation.Arrival, x.reservation.Deadline = d.varint(), d.varint()
	x.reservation.Plan, x.reservation.Domain = d.fixed(), d.text()
	x.drain = drain{started: d.varint(), graceSeconds: int32(d.varint())}
	if len(d.b) > 0 {
		x.cluster = d.text()
	}
	switch {
	case d.short, int(x.state) >= model.NumStates,
		!x.assigned.Interruption.Valid(), !x.assigned.Reclamation.Valid(),
		!x.reservation.Interruption.Valid(), !x.reservation.Reclamation.Valid():
		return recollection{}, errRecollection
	}
	return x, nil
}

// textReader reads what the encoder wrote; short says that there was not enough.
type textReader struct {
	b     []byte
	short bool
}

func (d *textReader) take(n int) []byte {
	if n < 0 || n > len(d.b) {
		d.b, d.short = nil, true
		return nil
	}
	out := d.b[:n]
	d.b = d.b[n:]
	return out
}

func (d *textReader) byte() byte {
	if x := d.take(1); x != nil {
		return x[0]
	}
	return 0
}

func (d *textReader) varint() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		n = -1
	}
	d.take(n)
	return v
}

func (d *textReader) fixed() uint64 {
	if x := d.take(8); x != nil {
		return binary.LittleEndian.Uint64(x)
	}
	return 0
}

func (d *textReader) text() string {
	v, n := binary.Uvarint(d.b)
	if n <= 0 || v > model.NameBytesMax {
		n = -1
	}
	d.take(n)
	return string(d.take(int(v)))
}
