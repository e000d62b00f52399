package rollup

import (
	"slices"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
)

// few is how many resources most requests name at the most.
const few = 3

// share is what one request asks of one resource, in the engine's units.
type share struct {
	n   int64
	dim uint32
}

// shares are those of one request. A cluster has many of them.
type shares struct {
	n    [few]int64
	dim  [few]uint32
	used uint32   // of n and dim
	more *[]share // nil for most
	// They are what the row asks for at the least, and not a request of the row.
	overhead bool
}

func (s *shares) add(x share) {
	switch {
	case s.used < few:
		s.n[s.used], s.dim[s.used] = x.n, x.dim
		s.used++
	case s.more == nil:
		s.more = &[]share{x}
	default:
		*s.more = append(*s.more, x)
	}
}

// renamed returns the shares with other numbers of the resources.
func (s *shares) renamed(to []uint32) shares {
	out := *s
	for i := range out.used {
		out.dim[i] = to[out.dim[i]]
	}
	if s.more != nil {
		more := slices.Clone(*s.more)
		for i := range more {
			more[i].dim = to[more[i].dim]
		}
		out.more = &more
	}
	return out
}

// amount is what a row asks of one resource: the sum of its requests, the largest of them,
// and what it asks for at the least.
type amount struct {
	sum, top, least int64
	dim             uint32
}

// asked is what is reported.
func (a *amount) asked() int64 { return max(a.sum, a.least) }

// row is one line of the roll-up.
type row struct {
	key     string
	need    *bigfleet.CapacityNeed // without amounts
	bytes   int                    // of need
	gang    bool                   // its machines share a domain
	open    bool                   // its requests have no size class; such a row is not reported
	class   uint8                  // the size class of its requests, 0 = none
	members int                    // requests that are no overhead
	setHash uint64                 // of its requirements; of a part's row
	set     uint32                 // the number of them; of the whole's
	keys    []uint32               // numbers of the attribute keys that it names, each once
	round   uint32                 // of the roll-up that amounts are of
	amounts []amount
	places  map[uint32]int // by resource: where in amounts; once there are many

	// What a plan says that the row asks for in place of its requests, in the roll-up planned; the sum is what, top the smallest unit.
	exact   []amount
	planned uint32
	domain  string // where the row, a group, has to be, in that roll-up

	said   *bigfleet.CapacityNeed // what was reported last
	before []amount               // with these
	saidIn string                 // in this domain
}

// bytesIn estimates how long a row's message is without amounts, rather too high.
func bytesIn(need *bigfleet.CapacityNeed) int {
	const perPart, perValue = 16, 4
	n := len(need.Group)
	if n > 0 { // the domain that it may be given
		n += len(need.Requirements[len(need.Requirements)-1].Key) + perPart + domainBytesMax + perValue
	}
	for _, r := range need.Requirements {
		n += len(r.Key) + perPart
		for _, v := range r.Values {
			n += len(v) + perValue
		}
	}
	for _, s := range need.Spread {
		n += len(s.TopologyKey) + 2*perPart
	}
	return n
}

// begin empties the row for another roll-up.
func (r *row) begin(round uint32) {
	r.round, r.members = round, 0
	r.amounts, r.places = r.amounts[:0], nil
}

// at returns the row's amount of a resource. The amounts are compared while they are few;
// nobody keeps requests from naming ever new resources.
func (r *row) at(dim uint32) *amount {
	for i := range r.amounts[:min(len(r.amounts), amountsScanned)] {
		if r.amounts[i].dim == dim {
			return &r.amounts[i]
		}
	}
	if i, known := r.places[dim]; known {
		return &r.amounts[i]
	}
	if len(r.amounts) >= amountsScanned {
		if r.places == nil {
			r.places = map[uint32]int{}
		}
		r.places[dim] = len(r.amounts)
	}
	r.amounts = append(r.amounts, amount{dim: dim})
	return &r.amounts[len(r.amounts)-1]
}

// amountsScanned is how many amounts of a row are compared before they are looked up.
const amountsScanned = 32

// add counts what one request asks for.
func (r *row) add(asks *shares) {
	if !asks.overhead {
		r.members++
	}
	for i := range asks.used {
		r.count(asks.dim[i], asks.n[i], asks.overhead)
	}
	if asks.more != nil {
		for _, x := range *asks.more {
			r.count(x.dim, x.n, asks.overhead)
		}
	}
}

func (r *row) count(dim uint32, n int64, overhead bool) {
	a := r.at(dim)
	if overhead {
		a.least = max(a.least, n)
		return
	}
	a.sum, a.top = saturatingAdd(a.sum, n), max(a.top, n)
}

// join counts what another part of the row asks for, whose resources have other
// numbers.
func (r *row) join(part *row, to []uint32) {
	r.members += part.members
	for i := range part.amounts {
		x := &part.amounts[i]
		a := r.at(to[x.dim])
		a.sum, a.top, a.least = saturatingAdd(a.sum, x.sum), max(a.top, x.top), max(a.least, x.least)
	}
}

// finish makes the row's message: the last one if it says the same.
func (r *row) finish(dims *dimensions) *bigfleet.CapacityNeed {
	amounts, domain := r.amounts, ""
	if r.planned == r.round {
		amounts, domain = r.exact, r.domain
	}
	slices.SortFunc(amounts, func(a, b amount) int { return int(a.dim) - int(b.dim) })
	if r.said != nil && domain == r.saidIn && slices.Equal(amounts, r.before) {
		return r.said
	}
	r.before, r.saidIn = append(r.before[:0], amounts...), domain
	r.said = &bigfleet.CapacityNeed{
		Requirements: r.requirements(domain), Spread: r.need.Spread, Priority: r.need.Priority, Group: r.need.Group,
		InterruptionPenaltyBucket: r.need.InterruptionPenaltyBucket, ReclamationPenaltyBucket: r.need.ReclamationPenaltyBucket,
		AggregateResources: make(map[string]string, len(amounts)), MinUnit: make(map[string]string, len(amounts)),
	}
	for i := range amounts {
		a := &amounts[i]
		name := dims.names[a.dim]
		r.said.AggregateResources[name] = text(name, a.asked())
		r.said.MinUnit[name] = text(name, a.top)
	}
	return r.said
}

// dimensions number the names of resources.
type dimensions struct {
	names []string
	index map[string]uint32 // once there are many
}

// scanned is how many names are compared before they are looked up.
const scanned = 8

// of returns the number of a name.
func (d *dimensions) of(name string) uint32 {
	for i, have := range d.names[:min(len(d.names), scanned)] {
		if have == name {
			return uint32(i)
		}
	}
	if at, known := d.index[name]; known {
		return at
	}
	at := uint32(len(d.names))
	d.names = append(d.names, name)
	if at >= scanned {
		if d.index == nil {
			d.index = map[string]uint32{}
		}
		d.index[name] = at
	}
	return at
}
