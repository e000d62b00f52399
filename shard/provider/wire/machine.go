package wire

import (
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
)

// reading is the maps of the record that is being read.
type reading struct {
	labels, metadata, resources, allocatable entries
}

// Record reads record i. The error wraps model.ErrStructural and names the
// machine, if its id can be read, and the field. The record is valid until the
// next call; of what is in it, see the package's essay.
func (l *List) Record(i int) (*shard.Record, error) {
	x := &l.records[i]
	if err := l.read(x, l.partOf(i)[x.from:x.to]); err != nil {
		return nil, fmt.Errorf("machine %q (record %d of the listing): %w: %w", l.ID(i)[:min(int(x.idLen), model.NameBytesMax)], i, model.ErrStructural, err)
	}
	return &l.out, nil
}

// read reads a record into l.out.
func (l *List) read(x *record, b []byte) error {
	if l.before.is(x, b) {
		l.out = l.before.read
		return text(&l.out.Machine.ID, "id", b[2:idOf(b)])
	}
	l.before.body = nil
	if err := l.readFields(x, b); err != nil {
		return err
	}
	if id := idOf(b); id > 0 && id < len(b) && x.digest != 0 && x.id == x.from+2 {
		l.before = before{b[id:], l.out}
	}
	return nil
}

// readFields reads the fields of a record into l.out.
func (l *List) readFields(x *record, b []byte) error {
	l.out = shard.Record{}
	in := &l.machine
	in.labels.reset(fieldLabels, x.labels)
	in.metadata.reset(fieldShardMetadata, x.metadata)
	in.resources.reset(fieldResources, x.resources)
	in.allocatable.reset(fieldResources, 0) // the same set, if it is the same
	c := cursor{buf: b}
	for c.next() {
		if err := l.field(&c); err != nil {
			return err
		}
	}
	if c.err != nil {
		return c.err
	}
	if l.out.Machine.State == model.Creating {
		// The host may be known before the machine is there; until then it
		// means nothing.
		l.out.Machine.Host = ""
	}
	return l.share()
}

// field takes in one field of a record.
func (l *List) field(c *cursor) error {
	m, in := &l.out.Machine, &l.machine
	switch c.typ {
	case protowire.VarintType:
		switch c.num {
		case fieldState:
			m.State = model.State(enum(c.number, model.NumStates))
		case fieldCapacityType:
			m.CapacityType = model.CapacityType(enum(c.number, model.NumCapacityTypes))
		}
	case protowire.Fixed64Type:
		switch c.num {
		case fieldPricePerHour:
			m.PricePerHour = math.Float64frombits(c.number)
		case fieldInterruption:
			m.InterruptionProbability = math.Float64frombits(c.number)
		}
	case protowire.BytesType:
		switch c.num {
		case fieldID:
			return text(&m.ID, "id", c.bytes)
		case fieldHost:
			return host(&m.Host, c.bytes)
		case fieldInstanceType:
			return text(&m.InstanceType, "instance_type", c.bytes)
		case fieldZone:
			return text(&m.Zone, "zone", c.bytes)
		case fieldLastError:
			return text(&m.LastError, "last_error", c.bytes)
		case fieldCluster:
			return text(&m.Cluster, "cluster", c.bytes)
		case fieldLabels:
			return within("labels", in.labels.add(c.bytes))
		case fieldShardMetadata:
			return within("shard_metadata", in.metadata.add(c.bytes))
		case fieldResources:
			return within("resources", in.resources.addAll(c.bytes))
		case fieldAllocatable:
			return within("allocatable", in.allocatable.addAll(c.bytes))
		}
	}
	return nil
}

// enum returns the value of an enum, or what no machine has if there is no
// such value: Validate refuses it. Enums are the low 32 bits of their number.
func enum(number uint64, values int) uint8 {
	if v := int32(number); v >= 0 && int(v) < values {
		return uint8(v)
	}
	return math.MaxUint8
}

func within(field string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	return nil
}

var errText = errors.New("is not UTF-8")

func text(into *string, field string, b []byte) error {
	if !utf8.Valid(b) {
		return within(field, errText)
	}
	*into = borrow(b)
	return nil
}

// host reads the reference of a HostRef. Its provider is the one that answers.
func host(into *string, b []byte) error {
	c := cursor{buf: b}
	for c.next() {
		if c.holds(fieldHostRef) {
			if err := text(into, "host", c.bytes); err != nil {
				return err
			}
		}
	}
	return within("host", c.err)
}

// addAll reads the entries of a Resources.
func (e *entries) addAll(b []byte) error {
	c := cursor{buf: b}
	for c.next() {
		if c.holds(fieldResourcesEntry) {
			if err := e.add(c.bytes); err != nil {
				return err
			}
		}
	}
	return c.err
}

// share replaces the record's maps by those that other records share.
func (l *List) share() error {
	m, in := &l.out.Machine, &l.machine
	if len(in.labels.list) > 0 {
		s, err := l.sets.labels.find(&in.labels, number)
		if err != nil {
			return within("labels", err)
		}
		m.Labels, l.out.LabelsNumber = s.entries, s.number
	}
	if len(in.metadata.list) > 0 {
		s, err := l.sets.metadata.find(&in.metadata, readStamps)
		if err != nil {
			return within("shard_metadata", err)
		}
		l.out.Metadata, l.out.Decoded = s.entries, s.decoded
	}
	for _, r := range [...]struct {
		field string
		in    *entries
		out   *model.Resources
	}{{"resources", &in.resources, &m.Resources}, {"allocatable", &in.allocatable, &m.Allocatable}} {
		if len(r.in.list) == 0 {
			continue
		}
		s, err := l.sets.resources.find(r.in, quantities)
		if err != nil {
			return within(r.field, err)
		}
		*r.out = s.resources
	}
	return nil
}
