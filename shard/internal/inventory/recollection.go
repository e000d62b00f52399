package inventory

import (
	"encoding/binary"
	"errors"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard/internal/memory"
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
	b = memory.AppendText(b, x.assigned.Group)
	r := &x.reservation
	b = memory.AppendText(b, r.Owner.Cluster)
	b = binary.LittleEndian.AppendUint64(b, r.Owner.Fingerprint)
	b = memory.AppendText(b, r.Owner.Group)
	b = binary.AppendVarint(b, int64(r.Priority))
	b = append(b, byte(r.Interruption), byte(r.Reclamation))
	b = binary.AppendVarint(b, r.Arrival)
	b = binary.AppendVarint(b, r.Deadline)
	b = binary.LittleEndian.AppendUint64(b, r.Plan)
	b = memory.AppendText(b, r.Domain)
	b = binary.AppendVarint(b, x.drain.started)
	b = binary.AppendVarint(b, int64(x.drain.graceSeconds))
	return memory.AppendText(b, x.cluster)
}

var errRecollection = errors.New("it is not what this version writes")

// decodeRecollection reads what encode wrote. Fields of a later version behind
// the known ones are passed over.
func decodeRecollection(b []byte) (x recollection, err error) {
	d := memory.NewReader(b)
	if d.Byte() != recollectionVersion {
		return x, errRecollection
	}
	x.state = model.State(d.Byte())
	x.idleSince = d.Varint()
	x.assigned = model.Assignment{
		Priority: int32(d.Varint()), Interruption: model.Bucket(d.Byte()), Reclamation: model.Bucket(d.Byte()),
		Fingerprint: d.Fixed(), Group: d.Text(),
	}
	x.reservation.Owner = model.Owner{Cluster: d.Text(), Fingerprint: d.Fixed(), Group: d.Text()}
	x.reservation.Priority = int32(d.Varint())
	x.reservation.Interruption, x.reservation.Reclamation = model.Bucket(d.Byte()), model.Bucket(d.Byte())
	x.reservation.Arrival, x.reservation.Deadline = d.Varint(), d.Varint()
	x.reservation.Plan, x.reservation.Domain = d.Fixed(), d.Text()
	x.drain = drain{started: d.Varint(), graceSeconds: int32(d.Varint())}
	if d.More() {
		x.cluster = d.Text()
	}
	switch {
	case d.TooShort(), int(x.state) >= model.NumStates,
		!x.assigned.Interruption.Valid(), !x.assigned.Reclamation.Valid(),
		!x.reservation.Interruption.Valid(), !x.reservation.Reclamation.Valid():
		return recollection{}, errRecollection
	}
	return x, nil
}
