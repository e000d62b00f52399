package ownership

import (
	"cmp"
	"errors"
	"fmt"
	"github.com/tonnage/tonnage/shard/internal/memory"
	"slices"
)

// Domain is one value of a topology key.
type Domain struct{ Key, Value string }

// DomainsMax is how many domains a shard can be assigned, and how many machines
// it can have given away.
const DomainsMax = 1 << 20

// ErrInvalid says that an instruction cannot be followed, now or later.
var ErrInvalid = errors.New("the instruction cannot be followed")

// DomainKnowledge is what a memory knows of the domains of a shard.
type DomainKnowledge uint8

// What is known: that none was ever assigned, which ones are, be it none, or neither.
const (
	DomainsNever DomainKnowledge = iota
	DomainsKnown
	DomainsUnknown
)

// halter is told whether it is known which domains are the shard's.
type halter interface{ LoseDomains(lost bool) }

// Look halts the shard while its domains are lost. When it is known that it has
// none, it takes nothing.
func (o *Ownership) Look(r halter) {
	if o.knowledge == nil {
		return
	}
	now := o.knowledge()
	if lost := now == DomainsUnknown; lost != o.lost {
		o.lost = lost
		r.LoseDomains(lost)
		o.changed()
		if lost {
			o.log.Error("the domains of this shard were lost; nothing is carried out until the coordinator has confirmed them")
		} else {
			o.log.Warn("the domains of this shard are confirmed", "domains", len(o.Assigned()))
		}
	}
	if now == DomainsKnown && len(o.domains) == 0 {
		o.keep(everAssigned.memoryKey(), []byte{1})
		o.noteDomain(everAssigned)
		o.changed()
	}
}

// Assign is AssignDomain.
func (o *Ownership) Assign(d Domain) error {
	if len(o.domains) >= DomainsMax {
		return errNoRoom
	}
	for _, one := range [...]Domain{everAssigned, d} {
		if !o.keep(one.memoryKey(), []byte{1}) && !o.has(one) {
			return errUnkept
		}
		o.noteDomain(one)
	}
	o.changed()
	return nil
}

func (d Domain) memoryKey() string { return memory.Domain + d.Key + "\x00" + d.Value }

// Unassign is UnassignDomain.
func (o *Ownership) Unassign(d Domain) error {
	if !o.has(d) || d == everAssigned {
		return nil
	}
	if lent := o.lent(d); len(lent) > 0 {
		return fmt.Errorf("%d machines of domain %s=%s are with other shards, such as %s, and must come home first: assign the domain to this shard again until they have",
			len(lent), d.Key, d.Value, lent[0])
	}
	o.dropDomain(d)
	o.keep(d.memoryKey(), nil)
	o.changed()
	return nil
}

// lent returns machines of a domain that this shard has given away, sorted.
func (o *Ownership) lent(d Domain) (out []string) {
	for id, g := range o.given {
		if g.received == "" && (len(g.homes) == 0 || slices.Contains(g.homes, d)) {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

func (o *Ownership) has(d Domain) bool {
	_, ok := o.domains[d]
	return ok
}

// noteDomain adds a domain to the set.
func (o *Ownership) noteDomain(d Domain) {
	if _, there := o.domains[d]; there {
		return
	}
	o.domains[d] = struct{}{}
	if d != everAssigned {
		o.domainKeys[d.Key]++
	}
}

func (o *Ownership) dropDomain(d Domain) {
	if _, there := o.domains[d]; !there {
		return
	}
	delete(o.domains, d)
	if o.domainKeys[d.Key]--; o.domainKeys[d.Key] == 0 {
		delete(o.domainKeys, d.Key)
	}
}

// Assigned returns the domains that are assigned to this shard, sorted.
func (o *Ownership) Assigned() []Domain {
	out := make([]Domain, 0, len(o.domains))
	for d := range o.domains {
		if d != everAssigned {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b Domain) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Value, b.Value))
	})
	return out
}

// CoordinatorTerm is shard.CoordinatorTerm. It is safe for concurrent use.
func (o *Ownership) CoordinatorTerm() int64 { return o.term.Load() }

// HearTerm is HearTerm. It is safe for concurrent use.
func (o *Ownership) HearTerm(term int64) bool {
	for {
		known := o.term.Load()
		if term < known {
			return false
		}
		if o.term.CompareAndSwap(known, term) {
			return true
		}
	}
}
