package shard

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// Memory outlives the process: a map from keys to values. Set never waits; it
// returns a position that Durable can wait for, 0 when nothing changed. An empty
// value forgets the key. All calls visit for what an earlier process left, and
// is called before anything is set.
type Memory interface {
	Set(key string, value []byte) (position uint64)
	Durable(ctx context.Context, position uint64) error
	All(visit func(key string, value []byte))
}

// What is remembered is what a provider does not give back: it echoes stamps
// from the time that a machine is being configured until it has drained. So of
// machines in other states the shard keeps stamps, reservation and clocks
// itself; and since when demand waits, which no roll-up says.
//
//	"m" machine id                        recollection
//	"w" cluster NUL fingerprint           Unix nanoseconds: waits since
//	"d" key NUL value                     1: the domain is assigned to this shard
//	"g" machine id                        move, receiver: it was given away
//	"r" machine id                        instruction: it was received
//	"a" instruction                       Unix nanoseconds: machines were taken over for it
const (
	memoryMachine  = "m"
	memoryWaiting  = "w"
	memoryDomain   = "d"
	memoryGiven    = "g"
	memoryReceived = "r"
	memoryAdoption = "a"
)

// recollection is what is remembered of a machine.
type recollection struct {
	state       model.State
	idleSince   int64
	assigned    model.Assignment
	reservation model.Reservation
	drain       drain
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
	return binary.AppendVarint(b, int64(x.drain.graceSeconds))
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

// worth tells whether there is anything to remember of a machine.
func (s *Shard) worth(m *model.Machine, res *model.Reservation) bool {
	switch m.State {
	case model.Creating:
		return true
	case model.Draining:
		return res.Active()
	case model.Configured: // excess that a plan counts on, and that is reclaimed later
		return res.Plan != 0
	case model.Idle:
		return res.Active() || s.releasable(m.CapacityType) && m.IdleSince != 0
	}
	return false
}

// releasable tells whether the idle clock of such a machine matters.
func (s *Shard) releasable(t model.CapacityType) bool {
	switch t {
	case model.OnDemand:
		return s.cfg.Engine.Release.OnDemand > 0
	case model.Spot:
		return s.cfg.Engine.Release.Spot > 0
	}
	return false
}

// remember keeps what is worth keeping of a machine, and forgets the rest. It
// returns the position to wait for before the provider is called.
func (s *Shard) remember(r columnar.Row) uint64 {
	if s.memory == nil || !s.machines.Has(r) {
		return 0
	}
	m, res := s.machines.Brief(r), s.machines.Reservation(r)
	key := memoryMachine + m.ID
	if !s.worth(&m, &res) {
		return s.memory.Set(key, nil)
	}
	x := recollection{state: m.State, idleSince: m.IdleSince, assigned: m.Assigned, reservation: res, drain: s.drains[m.ID]}
	s.scratch = x.encode(s.scratch[:0])
	return s.memory.Set(key, s.scratch)
}

// rememberChanges keeps what changed since the last time: clocks that started,
// reservations that ended.
func (s *Shard) rememberChanges() {
	if s.memory == nil {
		return
	}
	rows, now, complete := s.machines.Changes(s.remembered)
	if s.remembered = now; complete {
		for _, r := range rows {
			s.remember(r)
		}
		return
	}
	for r := range s.machines.All() {
		s.remember(r)
	}
}

// awaitMemory waits until what a call is about is on disk, so that a process
// that is killed during the call knows for whom it was made. If it cannot be
// kept the call is made all the same: a full disk must not stop a fleet.
func (s *Shard) awaitMemory(ctx context.Context, job *call) {
	if s.memory == nil || job.durable == 0 || job.op != OpCreate && job.op != OpDrain {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer cancel()
	if err := s.memory.Durable(ctx, job.durable); err != nil {
		s.metrics.unremembered.Inc()
	}
}

// recall reads what an earlier process left.
func (s *Shard) recall() {
	if s.memory == nil {
		return
	}
	unread := 0
	s.memory.All(func(key string, value []byte) {
		kind, rest := key[:min(1, len(key))], key[min(1, len(key)):]
		switch kind {
		case memoryMachine:
			x, err := decodeRecollection(value)
			if err != nil {
				unread++
				return
			}
			s.recalled[rest] = x
		case memoryWaiting:
			if !s.latency.recall(rest, value) {
				unread++
			}
		case memoryDomain:
			if k, v, ok := strings.Cut(rest, "\x00"); ok {
				s.noteDomain(Domain{k, v})
			}
		case memoryGiven:
			g, ok := decodeGiven(value)
			if !ok {
				unread++
				return
			}
			s.given[rest] = g
		case memoryReceived:
			s.received[rest] = string(value)
		case memoryAdoption:
			s.adoptions[rest], _ = binary.Varint(value)
		default:
			unread++
		}
	})
	for id := range s.given { // a release that was cut short
		if _, both := s.received[id]; both {
			delete(s.received, id)
			s.keep(memoryReceived+id, nil)
		}
	}
	if unread > 0 {
		s.log.Warn("part of what an earlier process left cannot be read", "entries", unread)
	}
}

// recalledExcess returns for whom a bound machine is held that a plan counts on as
// excess. The provider has not been told.
func (s *Shard) recalledExcess(m *model.Machine) model.Reservation {
	if x := s.recalled[m.ID]; m.State == model.Configured && x.state == model.Configured && x.reservation.Plan != 0 {
		return x.reservation
	}
	return model.Reservation{}
}

// recalledEcho completes what the provider echoes of a machine by what an
// earlier process left of it. What the provider says of a bound machine stands.
func (s *Shard) recalledEcho(m *model.Machine, echo *Echo) {
	x, ok := s.recalled[m.ID]
	if !ok {
		return
	}
	delete(s.recalled, m.ID)
	switch m.State {
	case model.Creating, model.Idle, model.Draining:
	default:
		return
	}
	if !echo.Reservation.Active() && x.reservation.Active() {
		echo.Reservation, echo.GraceSeconds = x.reservation, x.drain.graceSeconds
	}
	if m.State != model.Draining && x.state != model.Draining && echo.Assigned == (model.Assignment{}) {
		echo.Assigned = x.assigned
	}
	if m.State == model.Idle && x.state == model.Idle && m.IdleSince == 0 {
		m.IdleSince = min(x.idleSince, s.now)
	}
	if m.State == model.Draining {
		s.drains[strings.Clone(m.ID)] = x.drain
	}
}

// forgetRecalled drops what is left of machines that the provider does not list.
func (s *Shard) forgetRecalled() {
	for id := range s.recalled {
		if _, there := s.machines.Lookup(id); !there {
			s.memory.Set(memoryMachine+id, nil)
		}
	}
	s.recalled = nil
}
