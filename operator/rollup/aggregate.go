package rollup

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	api "github.com/tonnage/tonnage/api/v1alpha1"
)

// slack is how many slots or rows out of use are kept beside as many in use.
const slack = 4096

// The reasons for which a request is left out. What is wrong is wrapped in one of them.
var (
	// ErrOperator: its requirement is one that shards do not know.
	ErrOperator = errors.New("operator is not supported: use In, NotIn, Exists or DoesNotExist")
	// ErrLarge: it is longer than a shard accepts.
	ErrLarge = errors.New("the request is too large")
	// ErrMany: there are too many different ones.
	ErrMany = errors.New("too many different requests")
	// ErrUnreadable: what is written in it cannot be read.
	ErrUnreadable = errors.New("the request cannot be read")
	// ErrName: a key, a value or the name of a resource is one that shards refuse, and
	// with it the whole roll-up.
	ErrName = errors.New("name is not valid")
	// ErrQuantity: an amount is no amount.
	ErrQuantity = errors.New("quantity is not valid")
)

// Refusal is a request that is not in the roll-up.
type Refusal struct {
	Request *api.CapacityRequest
	Err     error
}

// Result is a roll-up. Its messages may be those of an earlier one: they are not
// modified.
type Result struct {
	// Needs are the rows, by priority from the highest, then by their canonical form.
	Needs []*bigfleet.CapacityNeed
	// Included are the requests that Needs contain, in the order given.
	Included []*api.CapacityRequest
	// Refused are the others.
	Refused []Refusal
	// Rows are, of each of Included, the index in Needs of the row that contains it.
	Rows []int32
	// Classes are the size classes of Included, 0 for a member of a group.
	Classes []uint8
	// SoftSpread counts the terms of topology spread of the included requests that no row
	// has, since they are ScheduleAnyway: they would split rows, and bind nobody.
	SoftSpread int
}

// nowhere is the row of a request that is left out.
const nowhere = ^uint32(0)

// Aggregator adds requests up, and remembers of each what it read in it. So an
// object must not be modified once it was given; one that has changed is another
// object, as in the caches of client-go. The zero value is ready. One owner.
//
// What there is to remember is filed after the result is returned; the next roll-up
// waits for it.
type Aggregator struct {
	limits Limits
	filed  chan struct{} // closed when the last roll-up's is; nil = there was nothing
	worn   bool          // most of it is out of use

	rows  []row
	byKey map[string]uint32 // the canonical form: index in rows
	order []uint32          // indexes of rows as they are reported
	dims  dimensions
	sets  map[uint64]uint32 // numbers of sets of requirements, by their hash
	keys  map[string]uint32 // numbers of attribute keys
	round uint32            // roll-ups so far
	// places is scratch: by index in rows, the place in the order. Only what the roll-up at hand has counts.
	places []int32

	known   map[*api.CapacityRequest]uint32 // index in slots
	unheard []unheard                       // of the roll-up at hand
	plans   []*plan                         // of the roll-up at hand
	met     int                             // how many of them the roll-up at hand has
	slots   []slot
	free    []uint32 // slots that nobody has
}

// slot is what was read in one request.
type slot struct {
	row   uint32
	round uint32 // of the last roll-up that had the request
	asks  shares
	plan  *plan // of a request that is one; it has no row
}

// Aggregate adds the requests up, each given once: a function of them, of what their
// status says, and of the limits alone. Cost: O(requests), about a microsecond for one that is new, a tenth of it for one
// that is not; new ones are read on several processors if they are many.
func (g *Aggregator) Aggregate(requests []*api.CapacityRequest) *Result {
	g.wait()
	if g.byKey == nil {
		g.reset()
	}
	g.round++
	limits := g.limits.orDefaults()
	rowOf := make([]uint32, len(requests))
	parts := readParts(requests, g.recall(requests, rowOf), &reading{limits: &limits})
	out := &Result{Refused: g.join(parts, rowOf)}
	if g.tooManyNames(&limits) {
		// So many that they cannot all be reported: nothing is remembered of them.
		only := fairNames(requests, rowOf, &limits)
		g.reset()
		g.round = 1
		out.Refused = g.join(readParts(requests, all(len(requests)), &reading{limits: &limits, only: only}), rowOf)
		defer func() { *g = Aggregator{limits: g.limits} }()
	} else {
		defer func() { g.file(len(requests), parts, len(out.Needs)) }()
	}
	g.applyPlans()
	g.classify(rowOf)
	order, budget := g.reported(), limits.budget()
	if len(g.plans) > 0 && !g.fits(order, &budget) {
		g.dropPlans()
		order = g.reported()
	}
	if !g.fits(order, &budget) {
		var left map[uint32]what
		order, left = g.choose(requests, rowOf, order, &budget)
		out.Refused = append(out.Refused, leaveOut(requests, rowOf, left, &budget)...)
	}
	if len(g.places) < len(g.rows) {
		g.places = make([]int32, len(g.rows)+len(g.rows)/4)
	}
	for i, at := range order {
		g.places[at] = int32(i)
	}
	g.placePlanned()
	out.Included, out.Rows = make([]*api.CapacityRequest, 0, len(requests)), make([]int32, 0, len(requests))
	for i, at := range rowOf {
		if at != nowhere {
			out.Rows = append(out.Rows, g.places[at])
			out.Included = append(out.Included, requests[i])
			out.Classes = append(out.Classes, g.rows[at].class)
			out.SoftSpread += softSpread(requests[i])
		}
	}
	out.Needs = make([]*bigfleet.CapacityNeed, len(order))
	for i, at := range order {
		out.Needs[i] = g.rows[at].finish(&g.dims)
	}
	return out
}

// reset forgets all but the limits.
func (g *Aggregator) reset() {
	*g = Aggregator{limits: g.limits, byKey: map[string]uint32{}, sets: map[uint64]uint32{}, keys: map[string]uint32{}}
}

// wait returns when the last roll-up is filed.
func (g *Aggregator) wait() {
	if g.filed == nil {
		return
	}
	<-g.filed
	if g.filed = nil; g.worn {
		*g = Aggregator{limits: g.limits}
	}
}

// recall adds up the requests that are known, and returns the indexes of others.
func (g *Aggregator) recall(requests []*api.CapacityRequest, rowOf []uint32) (unread []uint32) {
	g.met, g.unheard, g.plans = 0, g.unheard[:0], nil
	if len(g.known) == 0 {
		return all(len(requests))
	}
	for i, request := range requests {
		at, known := g.known[request]
		if !known {
			unread = append(unread, uint32(i))
			continue
		}
		s := &g.slots[at]
		s.round, rowOf[i] = g.round, s.row
		if s.plan != nil {
			g.plans = append(g.plans, s.plan)
			g.met++
			continue
		}
		if r := g.row(s.row); r.open {
			g.unheard = append(g.unheard, unheard{uint32(i), s.asks})
		} else {
			r.add(&s.asks)
		}
		g.met++
	}
	return unread
}

// row returns a row that the roll-up at hand has.
func (g *Aggregator) row(at uint32) *row {
	r := &g.rows[at]
	if r.round != g.round {
		r.begin(g.round)
	}
	return r
}

// join takes over what parts have added up, and notes the rows of their requests.
func (g *Aggregator) join(parts []part, rowOf []uint32) (refused []Refusal) {
	fresh := len(g.rows)
	for p := range parts {
		part := &parts[p]
		g.joinRows(part)
		for i, index := range part.indexes {
			at := part.rowOf[i]
			if at != nowhere {
				at = part.to[at]
				if g.rows[at].open {
					g.unheard = append(g.unheard, unheard{index, part.asks[i].renamed(part.dimTo)})
				}
			}
			rowOf[index] = at
		}
		for _, plan := range part.plans {
			plan.join(part)
			g.plans = append(g.plans, plan)
		}
		refused = append(refused, part.refused...)
	}
	g.sortIn(fresh)
	return refused
}

// joinRows takes over the rows of a part.
func (g *Aggregator) joinRows(part *part) {
	part.dimTo = make([]uint32, len(part.dims.names))
	for i, name := range part.dims.names {
		part.dimTo[i] = g.dims.of(name)
	}
	part.to = make([]uint32, len(part.rows))
	for i := range part.rows {
		from := &part.rows[i]
		at, known := g.byKey[from.key]
		if !known {
			at = uint32(len(g.rows))
			g.rows = append(g.rows, row{key: from.key, need: from.need, bytes: from.bytes, gang: from.gang, open: from.open, class: from.class, set: numberOf(g.sets, from.setHash), keys: g.keysOf(from.need)})
			g.byKey[from.key] = at
		}
		part.to[i] = at
		g.row(at).join(from, part.dimTo)
	}
}

// numberOf returns the number of a key, the next one when it is new.
func numberOf[K comparable](m map[K]uint32, key K) uint32 {
	n, known := m[key]
	if !known {
		n = uint32(len(m))
		m[key] = n
	}
	return n
}

// keysOf returns the numbers of the attribute keys that a row names, each once.
func (g *Aggregator) keysOf(need *bigfleet.CapacityNeed) []uint32 {
	keys := make([]uint32, 0, len(need.Requirements)+len(need.Spread))
	for _, r := range need.Requirements {
		keys = append(keys, numberOf(g.keys, r.Key))
	}
	for _, s := range need.Spread {
		keys = append(keys, numberOf(g.keys, s.TopologyKey))
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// sortIn gives the rows from an index on their places in the order.
func (g *Aggregator) sortIn(from int) {
	if from == len(g.rows) {
		return
	}
	compare := func(x, y uint32) int {
		l, r := &g.rows[x], &g.rows[y]
		return cmp.Or(cmp.Compare(r.need.Priority, l.need.Priority), strings.Compare(l.key, r.key))
	}
	fresh := make([]uint32, 0, len(g.rows)-from)
	for at := from; at < len(g.rows); at++ {
		fresh = append(fresh, uint32(at))
	}
	slices.SortFunc(fresh, compare)
	merged := make([]uint32, 0, len(g.rows))
	old := g.order
	for len(old) > 0 && len(fresh) > 0 {
		if compare(old[0], fresh[0]) < 0 {
			merged, old = append(merged, old[0]), old[1:]
		} else {
			merged, fresh = append(merged, fresh[0]), fresh[1:]
		}
	}
	g.order = append(append(merged, old...), fresh...)
}

// file remembers what was read, and forgets what the roll-up, of so many requests
// and rows, did not have.
func (g *Aggregator) file(requests int, parts []part, rows int) {
	if len(parts) == 0 && g.met == len(g.known) {
		return
	}
	filed := make(chan struct{})
	g.filed = filed
	go func() {
		defer close(filed)
		if g.known == nil {
			g.known, g.slots = make(map[*api.CapacityRequest]uint32, requests), make([]slot, 0, requests)
		}
		g.forget()
		for p := range parts {
			g.remember(&parts[p])
		}
		g.worn = len(g.rows) > 2*rows+slack || len(g.slots) > 2*len(g.known)+slack
	}()
}

// remember keeps what was read in the requests of a part.
func (g *Aggregator) remember(part *part) {
	for i, request := range part.requests {
		s := slot{row: nowhere, round: g.round, plan: part.plans[i]}
		if s.plan == nil {
			if part.rowOf[i] == nowhere {
				continue
			}
			s.row, s.asks = part.to[part.rowOf[i]], part.asks[i].renamed(part.dimTo)
		}
		if n := len(g.free); n > 0 {
			g.known[request] = g.free[n-1]
			g.slots[g.free[n-1]] = s
			g.free = g.free[:n-1]
			continue
		}
		g.known[request] = uint32(len(g.slots))
		g.slots = append(g.slots, s)
	}
}

// forget drops the requests that the roll-up did not have.
func (g *Aggregator) forget() {
	if g.met == len(g.known) {
		return
	}
	for request, at := range g.known {
		if g.slots[at].round != g.round {
			delete(g.known, request)
			g.slots[at] = slot{}
			g.free = append(g.free, at)
		}
	}
}

// reported returns the indexes of the rows that the roll-up has, as they are
// reported.
func (g *Aggregator) reported() []uint32 {
	order := make([]uint32, 0, len(g.order))
	for _, at := range g.order {
		if r := &g.rows[at]; r.round == g.round && !r.open && r.asks() {
			order = append(order, at)
		}
	}
	return order
}

// all returns the indexes of so many.
func all(n int) []uint32 {
	out := make([]uint32, n)
	for i := range out {
		out[i] = uint32(i)
	}
	return out
}
