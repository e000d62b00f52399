package session

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tonnage/tonnage/api/frames"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/inbound"
	"github.com/tonnage/tonnage/shard/policy"
)

// Limits of a roll-up, beside those of the demand table.
const (
	// MessageBytesMax is the longest roll-up, with the frame around it.
	MessageBytesMax = inbound.MessageBytesMax
	// ProfileBytesMax is the longest that one row may spend on requirements,
	// spread, priority and penalties.
	ProfileBytesMax = 64 << 10
	// ProfilesMax is how many different ones there may be in a roll-up.
	ProfilesMax = 1 << 14
	// EntriesMax is the most entries that a map of quantities may have,
	// repeated names included.
	EntriesMax = 256
)

// Field numbers of a map's entry.
const (
	fieldMapKey   protowire.Number = 1
	fieldMapValue protowire.Number = 2
)

// Decoder reads roll-ups into builders. It remembers the profiles that it has
// seen, up to some tens of thousands, so one decoder is best used for many
// roll-ups. One owner.
type Decoder struct {
	profiles  profileCache
	key       []byte // of the row's profile
	aggregate quantities
	minUnit   quantities
	row       demand.Row
	rowsMax   int
}

// NewDecoder returns a decoder that has seen nothing and accepts as many rows as
// the demand table does.
func NewDecoder() *Decoder {
	return &Decoder{rowsMax: demand.RowsMax, profiles: profileCache{limits: policy.None()}}
}

// Limit sets the limits that rows are lowered to from the next roll-up on.
func (d *Decoder) Limit(limits policy.Limits) { d.profiles.limits, d.profiles.lowered = limits, 0 }

// Lowered returns how many rows of the last roll-up were above the limits.
func (d *Decoder) Lowered() int { return d.profiles.lowered }

// Decode makes the builder hold the rows of an encoded roll-up of the cluster
// that the session is of. A roll-up that names another cluster is refused; one
// that names none is the session's. Every row arrives at the roll-up's own
// time. The error names the row and what is wrong with it, and the builder
// gives the same answer to everything then. The message is not kept.
// Cost: O(bytes); nothing is allocated for rows whose profile was seen before.
func (d *Decoder) Decode(cluster string, message []byte, b *demand.Builder) error {
	b.Reset(cluster)
	if err := b.Err(); err != nil {
		return err
	}
	if len(message) > MessageBytesMax {
		return b.Refuse(fmt.Errorf("%d bytes; at most %d are accepted: report fewer, larger rows", len(message), MessageBytesMax))
	}
	rows, timestamp, err := d.survey(cluster, message)
	if err != nil {
		return b.Refuse(err)
	}
	b.Grow(rows)
	d.profiles.begin()
	d.row.Arrival = timestamp
	defer d.letGo()
	c := cursor{buf: message}
	for c.next() {
		if !c.is(frames.FieldNeeds) {
			continue
		}
		if err := d.need(c.bytes, b); err != nil {
			return b.RefuseRow(err)
		}
		if err := b.Add(&d.row); err != nil {
			return err
		}
	}
	return nil
}

// letGo drops what refers to the message.
func (d *Decoder) letGo() {
	d.aggregate.letGo()
	d.minUnit.letGo()
	d.row.Group = nil
}

// survey reads what stands beside the rows, and counts them. It sees to it
// that the message can be walked over.
func (d *Decoder) survey(cluster string, message []byte) (rows int, timestamp int64, err error) {
	var named []byte
	c := cursor{buf: message}
	for c.next() {
		switch {
		case c.is(frames.FieldClusterID):
			if err := model.CheckOptionalName(c.bytes); err != nil {
				return 0, 0, fmt.Errorf("the cluster id %w", err)
			}
			named = c.bytes
		case c.isVarint(frames.FieldTimestamp):
			timestamp = int64(c.varint)
		case c.is(frames.FieldNeeds):
			rows++
		}
	}
	switch {
	case c.err != nil:
		return 0, 0, fmt.Errorf("the message %w", c.err)
	case len(named) > 0 && string(named) != cluster:
		return 0, 0, fmt.Errorf("it names cluster %.*q; report under the id that the session began with", model.NameBytesMax, named)
	case rows > d.rowsMax:
		return 0, 0, fmt.Errorf("%d rows; at most %d are accepted: report fewer, larger ones, or raise --%s of the shard", rows, d.rowsMax, FlagClusterRows)
	}
	return rows, timestamp, nil
}

// need reads one row. The fault reads on from the row's number.
func (d *Decoder) need(message []byte, b *demand.Builder) error {
	d.key = d.key[:0]
	d.aggregate.reset()
	d.minUnit.reset()
	d.row.Group = nil
	c := cursor{buf: message}
	run := -1 // where the fields of the profile that stand together begin
	for c.next() {
		if c.ofProfile() {
			if run < 0 {
				run = c.from
			}
			continue
		}
		if run >= 0 {
			d.key = append(d.key, message[run:c.from]...)
			run = -1
		}
		if err := d.rest(&c); err != nil {
			return err
		}
	}
	if c.err != nil {
		return c.err
	}
	if run >= 0 {
		d.key = append(d.key, message[run:]...)
	}
	return d.finish(b)
}

// ofProfile tells whether the field is one of those that identify the profile.
func (c *cursor) ofProfile() bool {
	switch c.num {
	case frames.FieldRequirements, frames.FieldSpread:
		return c.typ == protowire.BytesType
	case frames.FieldPriority, frames.FieldInterruption, frames.FieldReclamation:
		return c.typ == protowire.VarintType
	}
	return false
}

// rest reads a field that is not of the profile.
func (d *Decoder) rest(c *cursor) error {
	if c.typ != protowire.BytesType {
		return nil
	}
	switch c.num {
	case frames.FieldAggregate:
		return d.aggregate.read("aggregate_resources", c.bytes)
	case frames.FieldMinUnit:
		return d.minUnit.read("min_unit", c.bytes)
	case frames.FieldGroup:
		if !utf8.Valid(c.bytes) {
			return errors.New("group is not valid UTF-8")
		}
		d.row.Group = c.bytes
	}
	return nil
}

// finish makes the builder's row of what was read.
func (d *Decoder) finish(b *demand.Builder) (err error) {
	if d.row.Profile, err = d.profiles.number(d.key, b); err != nil {
		return err
	}
	if d.row.Aggregate, err = d.aggregate.amounts(d.row.Aggregate[:0], "aggregate_resources", b); err != nil {
		return err
	}
	d.row.MinUnit, err = d.minUnit.amounts(d.row.MinUnit[:0], "min_unit", b)
	return err
}

// Bytes returns the memory held, of which the remembered profiles are an
// estimate.
func (d *Decoder) Bytes() int64 {
	const perAmount, perEntry = 16, 48
	return d.profiles.bytes() + int64(cap(d.key)) + int64(cap(d.row.Aggregate)+cap(d.row.MinUnit))*perAmount +
		int64(cap(d.aggregate.list)+cap(d.minUnit.list))*perEntry
}
