package coordinator

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tonnage/tonnage/engine/model"
)

// Offer is machines of one kind and state that a shard could do without, or,
// when they are Configured, that serve demand of the priority and penalty given.
type Offer struct {
	State        model.State // Idle, Speculative or Configured
	InstanceType string
	Zone         string
	CapacityType model.CapacityType
	Labels       map[string]string // that all of them share
	Varied       []string          // keys of labels that each has, with values that are not told
	Unit         model.Resources   // of one machine
	PricePerHour float64
	Priority     int32        // Configured only
	Bucket       model.Bucket // Configured only
	Count        int          // all machines of the kind; Machines may name fewer
	Machines     []string     // cheapest to give first
	shape        int32
}

// Offering is what a shard says beside its report: what it could give, and what
// it has given and has not been told is settled.
type Offering struct {
	Shard     string
	Epoch     int64
	Idle      *int32 // machines, offered or not; nil = it does not say
	Offers    []Offer
	HandOvers []HandOver
	// Lost is the sum of the domains that a shard has left that has lost some; nil = it
	// knows them. Domains is filled in then: the sum of its domains.
	Lost    *model.DomainSum
	Domains model.DomainSum
	// Settled is filled in: moves that need not be mentioned any more, once the
	// effects are committed.
	Settled []string
	// Newest is filled in: the highest epoch that is known of the shard.
	Newest int64
}

func (*Offering) event() {}

// offering takes a shard's offers. They come after a report of the same process.
func (c *Core) offering(now int64, o *Offering) (Effects, error) {
	var e Effects
	if err := checkName("shard_id", o.Shard); err != nil {
		return e, err
	}
	known, s := c.shards[o.Shard], c.soft[o.Shard]
	if known != nil {
		o.Newest = known.Epoch
	}
	if s != nil {
		o.Newest = max(o.Newest, s.epoch)
	}
	switch {
	case o.Epoch < o.Newest:
		e.Dropped = fmt.Sprintf("epoch %d is over", o.Epoch)
		return e, nil
	case known == nil || s == nil || !s.heard:
		e.Dropped = "no report of this shard has come in yet"
		return e, nil
	}
	if err := o.check(); err != nil {
		return e, err
	}
	if c.shapes.full() {
		c.reshape()
	}
	for i := range o.Offers {
		c.shapes.intern(&o.Offers[i])
	}
	s.offers, s.offered, s.idle = o.Offers, true, o.Idle
	o.Settled = c.handOvers(now, o.Shard, o.HandOvers, &e)
	if o.Lost != nil {
		c.lostDomains(o, &e)
	}
	return e, nil
}

// lostDomains tells a shard what its domains are. One that has others is told to take
// all of them, once it has acknowledged all that it was told before.
func (c *Core) lostDomains(o *Offering, e *Effects) {
	domains := c.DomainsOf(o.Shard)
	for _, d := range domains {
		o.Domains.Add(d.Key, d.Value)
	}
	if o.Domains == *o.Lost || len(domains) == 0 || c.pending[o.Shard] != nil {
		return
	}
	e.note("shard %q has lost its domains, and is told all %d of them again", o.Shard, len(domains))
	// The counter goes first: no prefix of the writes lets a number be used twice.
	e.Writes = append(e.Writes, putSequence(c.sequence+int64(len(domains))))
	for i, d := range domains {
		n := c.sequence + 1 + int64(i)
		e.Writes = append(e.Writes, put(instructionKey(n), &DomainInstruction{Sequence: n, Shard: o.Shard, Assign: true, Domain: d}))
	}
}

func (o *Offering) check() error {
	o.Offers = o.Offers[:min(len(o.Offers), OffersMax)]
	for i := range o.Offers {
		x := &o.Offers[i]
		x.Machines = x.Machines[:min(len(x.Machines), OfferedMachinesMax)]
		x.Varied = x.Varied[:min(len(x.Varied), VariedLabelsMax)]
		if x.State != model.Idle && x.State != model.Speculative && x.State != model.Configured {
			return fmt.Errorf("%w: offer %d has state %s; only Idle, Speculative and Configured machines can be offered", ErrInvalid, i, x.State)
		}
		if err := x.check(); err != nil {
			return fmt.Errorf("%w: offer %d: %w", ErrInvalid, i, err)
		}
	}
	if n := len(o.HandOvers); n > HandOversMax {
		return fmt.Errorf("%w: %d hand-overs are not settled, at most %d are accepted", ErrInvalid, n, HandOversMax)
	}
	for _, h := range o.HandOvers {
		if err := checkName("move of a hand-over", h.Move); err != nil {
			return err
		}
		if err := checkOptional("the receiver of hand-over "+h.Move, h.To); err != nil {
			return err
		}
		if len(h.Machines) > MoveMachinesMax {
			return fmt.Errorf("%w: hand-over %s has %d machines, at most %d are accepted", ErrInvalid, h.Move, len(h.Machines), MoveMachinesMax)
		}
		for _, id := range h.Machines {
			if err := checkName("a machine of hand-over "+h.Move, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// check refuses names and labels that no machine can have.
func (o *Offer) check() error {
	if err := model.CheckOptionalName(o.InstanceType); err != nil {
		return fmt.Errorf("instance_type %w", err)
	}
	if err := model.CheckOptionalName(o.Zone); err != nil {
		return fmt.Errorf("zone %w", err)
	}
	for _, id := range o.Machines {
		if err := model.CheckName(id); err != nil {
			return fmt.Errorf("the id of a machine %w", err)
		}
	}
	for _, key := range o.Varied {
		if err := model.CheckName(key); err != nil {
			return fmt.Errorf("the key of a label %w", err)
		}
	}
	return model.CheckLabels(o.Labels)
}

// shapes number the kinds of machines that are offered, and remember which of
// them meet which requirements. A pass then looks at some hundreds of kinds for
// each distinct set of requirements once, not at each machine for each
// shortfall.
type shapes struct {
	number  map[string]int32
	names   []string
	machine []model.Machine
	varied  [][]string
	matches map[uint64][]int32
	// state changes with the kinds that there are; it is never 0.
	state int64
}

func (s *shapes) full() bool {
	return len(s.names) >= shapesMax-OffersMax || len(s.matches) >= shapesMax
}

func (s *shapes) intern(o *Offer) {
	if s.number == nil {
		s.number, s.matches = map[string]int32{}, map[uint64][]int32{}
	}
	name := o.shapeName()
	n, ok := s.number[name]
	if !ok {
		n = int32(len(s.names))
		s.number[name] = n
		s.names = append(s.names, name)
		s.machine = append(s.machine, model.Machine{InstanceType: o.InstanceType, Zone: o.Zone, CapacityType: o.CapacityType, Labels: o.Labels})
		s.varied = append(s.varied, o.Varied)
		clear(s.matches)
		s.state++
	}
	o.shape = n
}

func (o *Offer) shapeName() string {
	var b strings.Builder
	b.WriteString(o.InstanceType + " " + o.Zone + " " + o.CapacityType.String())
	for _, k := range slices.Sorted(maps.Keys(o.Labels)) {
		b.WriteString(" " + k + "=" + o.Labels[k])
	}
	for _, k := range o.Varied {
		b.WriteString(" " + k)
	}
	return b.String()
}

// reshape numbers the kinds anew, from what is offered now.
func (c *Core) reshape() {
	c.shapes = shapes{state: c.shapes.state}
	for _, s := range c.soft {
		for i := range s.offers {
			c.shapes.intern(&s.offers[i])
		}
	}
}

// matching returns the kinds that meet a shortfall's requirements.
func (s *shapes) matching(x *Shortfall) []int32 {
	if x.fitsAt == s.state && s.state > 0 {
		return x.fits
	}
	if out, ok := s.matches[x.required]; ok {
		x.fits, x.fitsAt = out, s.state
		return out
	}
	out := []int32{}
	for n := range s.machine {
		if s.meets(n, x.Requirements) {
			out = append(out, int32(n))
		}
	}
	if s.matches != nil {
		s.matches[x.required] = out
	}
	return out
}

// meets tells whether a kind of machines meets all requirements. Of a label whose
// values are not told it is known that it is there: NotIn takes it, since few of
// many values are excluded, and In, Gt and Lt do not.
func (s *shapes) meets(n int, requirements []model.Requirement) bool {
	for i := range requirements {
		r := &requirements[i]
		if slices.Contains(s.varied[n], r.Key) {
			if r.Operator != model.Exists && r.Operator != model.NotIn {
				return false
			}
			continue
		}
		if v, ok := s.machine[n].Attribute(r.Key); !r.Matches(v, ok) {
			return false
		}
	}
	return true
}
