package sim

import (
	"encoding/binary"
	"math"

	"github.com/tonnage/tonnage/engine/model"
)

// digest is an unambiguous text of machines and claims, to be hashed.
type digest []byte

func (d *digest) text(v string) {
	*d = binary.AppendUvarint(*d, uint64(len(v)))
	*d = append(*d, v...)
}

func (d *digest) number(v uint64) { *d = binary.BigEndian.AppendUint64(*d, v) }

// machine adds a machine after execution, and the Need that claims it.
func (d *digest) machine(m *model.Machine, claim string) {
	d.text(m.ID)
	d.text(m.State.String())
	d.text(m.Cluster)
	d.text(m.Host)
	d.number(math.Float64bits(m.PricePerHour))
	d.number(uint64(m.IdleSince))
	d.assignment(&m.Assigned)
	d.reservation(&m.Reservation)
	d.text(claim)
}

func (d *digest) assignment(a *model.Assignment) {
	d.number(uint64(uint32(a.Priority)))
	d.number(uint64(a.Interruption)<<8 | uint64(a.Reclamation))
	d.number(a.Fingerprint)
	d.text(a.Group)
}

func (d *digest) reservation(r *model.Reservation) {
	d.text(r.Owner.Cluster)
	d.number(r.Owner.Fingerprint)
	d.text(r.Owner.Group)
	d.number(uint64(r.Deadline))
	d.number(r.Plan)
	d.text(r.Domain)
}
