package session

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tonnage/tonnage/api/frames"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard/policy"
)

// The cache of profiles forgets everything when a roll-up begins and it holds
// more than this. A roll-up adds at most ProfilesMax.
const (
	cachedProfilesMax = 1 << 14
	cachedBytesMax    = 4 << 20
)

// profileCache finds profiles by the bytes that say them.
type profileCache struct {
	entries []cachedProfile
	keys    []byte
	slots   []uint32      // entry + 1, 0 = free; a power of two, at most half full
	round   uint64        // the roll-up
	used    []uint32      // entries that the roll-up has used
	limits  policy.Limits // of the roll-up's cluster
	lowered int           // rows of the roll-up that were above them
}

type cachedProfile struct {
	hash    uint64
	from    uint32 // of keys
	length  uint32
	profile *model.Profile
	matcher uint64 // a hash of its requirements
	// The builder's number for it, in this round, and whether it is above the limits.
	round  uint64
	number uint32
	above  bool
	// What it is under limits that it is above of; nil = not asked for yet.
	low    *model.Profile
	limits policy.Limits
}

const slotsMin = 1 << 8

// begin is called before each roll-up.
func (p *profileCache) begin() {
	p.round++
	p.lowered = 0
	p.used = p.used[:0]
	if len(p.entries) > cachedProfilesMax || len(p.keys) > cachedBytesMax {
		*p = profileCache{round: p.round, used: p.used, limits: p.limits}
	}
}

// number returns the builder's number for the profile that the bytes say.
func (p *profileCache) number(key []byte, b *demand.Builder) (uint32, error) {
	if len(key) > ProfileBytesMax {
		return 0, fmt.Errorf("spends %d bytes on requirements and spread; at most %d are accepted", len(key), ProfileBytesMax)
	}
	at, err := p.find(key)
	if err != nil {
		return 0, err
	}
	x := &p.entries[at]
	if x.round != p.round {
		if p.used = append(p.used, at); len(p.used) > ProfilesMax {
			return 0, fmt.Errorf("has different requirements, spread, priority or penalties than %d rows before it, all different; report fewer kinds", ProfilesMax)
		}
		held := x.profile
		if p.limits != policy.None() { // else there is no need to look at the profile, which may lie anywhere
			if held, err = x.under(p.limits); err != nil {
				return 0, err
			}
		}
		x.round, x.number, x.above = p.round, b.Profile(held), held != x.profile
	}
	if x.above {
		p.lowered++
	}
	return x.number, nil
}

// under returns the profile with what is above the limits lowered to them. Rows are
// of that profile from here on: its fingerprint is the one that machines are stamped
// with, and what tools show.
func (x *cachedProfile) under(limits policy.Limits) (*model.Profile, error) {
	if limits.Allow(x.profile) {
		return x.profile, nil
	}
	if x.low == nil || x.limits != limits {
		low, err := limits.Lower(x.profile)
		if err != nil {
			return nil, err
		}
		x.low, x.limits = low, limits
	}
	return x.low, nil
}

// find returns the number of a key's entry, a new one when it was not seen
// before.
func (p *profileCache) find(key []byte) (uint32, error) {
	if 2*len(p.entries) >= len(p.slots) {
		p.grow()
	}
	hash := xxhash.Sum64(key)
	at := int(hash) & (len(p.slots) - 1)
	for ; p.slots[at] != 0; at = (at + 1) & (len(p.slots) - 1) {
		x := &p.entries[p.slots[at]-1]
		if x.hash == hash && string(p.keys[x.from:x.from+x.length]) == string(key) {
			return p.slots[at] - 1, nil
		}
	}
	profile, err := parseProfile(key)
	if err != nil {
		return 0, err
	}
	p.entries = append(p.entries, cachedProfile{
		hash: hash, from: uint32(len(p.keys)), length: uint32(len(key)), profile: profile, matcher: xxhash.Sum64String(requirementsText(profile)),
	})
	p.keys = append(p.keys, key...)
	p.slots[at] = uint32(len(p.entries))
	return p.slots[at] - 1, nil
}

// usage returns what the profiles of this round take up in the machine table.
func (d *Decoder) usage() usage {
	keys, matchers := map[string]struct{}{}, map[uint64]struct{}{}
	for _, at := range d.profiles.used {
		x := &d.profiles.entries[at]
		matchers[x.matcher] = struct{}{}
		for i := range x.profile.Requirements() {
			keys[x.profile.Requirements()[i].Key] = struct{}{}
		}
		for _, s := range x.profile.HardSpread() {
			keys[s.Key] = struct{}{}
		}
	}
	return usage{keys: slices.Collect(maps.Keys(keys)), matchers: slices.Collect(maps.Keys(matchers))}
}

func (p *profileCache) grow() {
	p.slots = make([]uint32, max(2*len(p.slots), slotsMin))
	for i := range p.entries {
		at := int(p.entries[i].hash) & (len(p.slots) - 1)
		for p.slots[at] != 0 {
			at = (at + 1) & (len(p.slots) - 1)
		}
		p.slots[at] = uint32(i) + 1
	}
}

// Field numbers of NodeSelectorRequirement and TopologySpread.
const (
	fieldKey      protowire.Number = 1
	fieldOperator protowire.Number = 2
	fieldValues   protowire.Number = 3

	fieldTopologyKey       protowire.Number = 1
	fieldMaxSkew           protowire.Number = 2
	fieldWhenUnsatisfiable protowire.Number = 3
)

// parseProfile reads the fields of a row that are of its profile.
func parseProfile(message []byte) (*model.Profile, error) {
	var spec model.ProfileSpec
	c := cursor{buf: message}
	for c.next() {
		var err error
		switch {
		case c.is(frames.FieldRequirements):
			err = addRequirement(&spec, c.bytes)
		case c.is(frames.FieldSpread):
			err = addSpread(&spec, c.bytes)
		case c.isVarint(frames.FieldPriority):
			spec.Priority = int32(c.varint)
		case c.isVarint(frames.FieldInterruption):
			spec.Interruption = bucketOf(c.varint)
		case c.isVarint(frames.FieldReclamation):
			spec.Reclamation = bucketOf(c.varint)
		}
		if err != nil {
			return nil, err
		}
	}
	if c.err != nil {
		return nil, c.err
	}
	p, err := model.NewProfile(spec)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// noBucket is a number that Validate refuses.
const noBucket = model.Bucket(model.NumBuckets)

// bucketOf returns a bucket that the wire names. Enums have 32 bits there.
func bucketOf(v uint64) model.Bucket {
	if n := int32(v); n >= 0 && n < int32(model.NumBuckets) {
		return model.Bucket(n)
	}
	return noBucket
}

func addRequirement(spec *model.ProfileSpec, message []byte) error {
	at := fmt.Sprintf("requirements[%d]", len(spec.Requirements))
	var r model.Requirement
	var err error
	operator := int32(0)
	c := cursor{buf: message}
	for c.next() && err == nil {
		switch {
		case c.is(fieldKey):
			r.Key, err = checked(at+".key", c.bytes, model.CheckName[[]byte])
		case c.isVarint(fieldOperator):
			operator = int32(c.varint)
		case c.is(fieldValues):
			var v string
			v, err = checked(fmt.Sprintf("%s.values[%d]", at, len(r.Values)), c.bytes, model.CheckText[[]byte])
			r.Values = append(r.Values, v)
		}
	}
	switch {
	case err != nil:
		return err
	case c.err != nil:
		return fmt.Errorf("%s %w", at, c.err)
	case operator < int32(model.In) || operator > int32(model.Same):
		return fmt.Errorf("%s.operator: no such operator: %d; use In (1), NotIn (2), Exists (3), DoesNotExist (4) or Same (5)", at, operator)
	}
	r.Operator = model.Operator(operator)
	spec.Requirements = append(spec.Requirements, r)
	return nil
}

func addSpread(spec *model.ProfileSpec, message []byte) error {
	at := fmt.Sprintf("spread[%d]", len(spec.Spread))
	var s model.Spread
	var err error
	when := int32(0)
	c := cursor{buf: message}
	for c.next() && err == nil {
		switch {
		case c.is(fieldTopologyKey):
			s.Key, err = checked(at+".topologyKey", c.bytes, model.CheckName[[]byte])
		case c.isVarint(fieldMaxSkew):
			s.MaxSkew = int32(c.varint)
		case c.isVarint(fieldWhenUnsatisfiable):
			when = int32(c.varint)
		}
	}
	switch {
	case err != nil:
		return err
	case c.err != nil:
		return fmt.Errorf("%s %w", at, c.err)
	case when == int32(model.DoNotSchedule) || when == int32(model.ScheduleAnyway):
		s.WhenUnsatisfiable = model.WhenUnsatisfiable(when)
	}
	spec.Spread = append(spec.Spread, s) // Validate refuses what is unspecified
	return nil
}

// checked returns a copy of a text that passes check.
func checked(at string, b []byte, check func([]byte) error) (string, error) {
	if err := check(b); err != nil {
		return "", fmt.Errorf("%s %w", at, err)
	}
	return string(b), nil
}

// bytes returns the memory held; profiles are estimated by what says them.
func (p *profileCache) bytes() int64 {
	const perEntry, perProfile = 56, 512
	return int64(cap(p.entries))*perEntry + int64(cap(p.used))*4 + int64(len(p.entries))*perProfile + int64(cap(p.slots))*4 + int64(cap(p.keys)) + 4*int64(len(p.keys))
}
