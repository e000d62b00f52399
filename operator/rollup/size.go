package rollup

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	api "github.com/tonnage/tonnage/api/v1alpha1"
	"github.com/tonnage/tonnage/engine/model"
)

// A machine counts for a row only if the row's largest request fits it, so one large
// request shuts small machines out for all requests of its row. Three rules keep sizes
// apart; none of them applies to a group, which is one row whatever its members ask for.
//
//   - Requests for a device (an extended resource, such as GPUs) have a row for each count of it.
//   - Giants, requests above giantCPU or giantMemory, have a row of their own.
//   - A row's largest request does not grow. A request that is larger than all that
//     the shard has heard in its row begins another size class, with a row of its own.

// giantCPU and giantMemory are a quarter of 64 cores and of 256 GiB: what machines have
// that are bought for ordinary requests, about.
const (
	giantCPU    = 16 * 1000
	giantMemory = 64 << 30
)

// ClassesMax is how many size classes there are of requests that are alike otherwise.
// Above that, the last class's largest request does grow.
const ClassesMax = 8

// countsExact is up to which number each count of a device has a row of its own; above it
// each power of two has.
const countsExact = 64

// Parts of the form that says a request's size.
const (
	sizeApart = 1 << iota
	sizeGiant
)

// device is how many of an extended resource a request asks for.
type device struct {
	name  string
	count uint64
}

// isDevice tells whether a resource is an extended one: its name has a domain, and not
// that of Kubernetes itself.
func isDevice(name string) bool {
	domain, _, found := strings.Cut(name, "/")
	return found && domain != "kubernetes.io" && !strings.HasSuffix(domain, ".kubernetes.io")
}

// sizing is what makes the size part of a request's form.
type sizing struct {
	flags    byte
	devices  []device
	class    uint64    // 0 = it has none so far
	overhead *overhead // of a request that is no pod's
	text     []byte    // scratch
}

// begin empties it for a request.
func (s *sizing) begin(request *api.CapacityRequest) {
	*s = sizing{devices: s.devices[:0], text: s.text, class: classOf(request)}
	if tag, is := request.Labels[api.LabelPackingOverhead]; is {
		s.overhead = readTag(tag)
		s.class = s.overhead.class
	}
}

// count notes an amount, in the engine's units.
func (s *sizing) count(name string, n int64) {
	switch {
	case name == model.DimensionCPU && n > giantCPU, name == "memory" && n > giantMemory:
		s.flags |= sizeGiant
	case isDevice(name):
		count := uint64(n)
		if count > countsExact {
			count = countsExact + uint64(bits.Len64((count-1)/countsExact))
		}
		s.devices = append(s.devices, device{name, count})
	}
}

// end finishes it: devices have no order in a request. What a device is needed for is
// placed by the device, however large it is.
func (s *sizing) end() {
	if s.flags&sizeApart != 0 {
		s.flags = sizeApart
	}
	if len(s.devices) > 0 {
		s.flags &^= sizeGiant
		slices.SortFunc(s.devices, func(a, b device) int { return cmp.Compare(a.name, b.name) })
	}
}

// kind is a number for all but the class: a hash of flags and devices.
func (s *sizing) kind() uint64 {
	if s.overhead != nil {
		return s.overhead.kind
	}
	if s.flags == 0 && len(s.devices) == 0 {
		return 0
	}
	s.text = append(s.text[:0], s.flags)
	for _, d := range s.devices {
		s.text = append(binary.AppendUvarint(s.text, uint64(len(d.name))), d.name...)
		s.text = binary.AppendUvarint(s.text, d.count)
	}
	return xxhash.Sum64(s.text)
}

// classOf is the size class that a request has: the one in its status, the first for one
// that was heard without a class; 0 when it was not heard.
func classOf(request *api.CapacityRequest) uint64 {
	switch class := request.Status.SizeClass; {
	case request.Status.Phase != api.RequestAcknowledged:
		return 0
	case class == nil || *class < 1 || *class > ClassesMax:
		return 1
	default:
		return uint64(*class)
	}
}

// unheard is a request in a row without a class.
type unheard struct {
	index uint32 // of the request
	asks  shares
}

// classify gives the requests that were not heard their size classes: the first that has
// a larger request, or else all together a new one. The choice depends on the requests and
// on what was heard alone. Cost: O(requests that were not heard).
func (g *Aggregator) classify(rowOf []uint32) {
	if len(g.unheard) == 0 {
		return
	}
	fresh := len(g.rows)
	classes := map[uint32]*classes{}
	for i := range g.unheard {
		u := &g.unheard[i]
		open := rowOf[u.index]
		c := classes[open]
		if c == nil {
			c = g.classesOf(open)
			classes[open] = c
		}
		rowOf[u.index] = c.choose(g, &u.asks)
	}
	// Only now, so that none of them has changed what the classes are.
	for i := range g.unheard {
		u := &g.unheard[i]
		g.row(rowOf[u.index]).add(&u.asks)
	}
	g.unheard = g.unheard[:0]
	g.sortIn(fresh)
}

// classes are those of requests that are alike but for their size.
type classes struct {
	rows  [ClassesMax]uint32 // nowhere = the class is empty
	fresh uint32             // the row of those that are larger than all classes; nowhere = none so far
	open  uint32             // the row of those that have none
}

// classesOf looks up the classes beside a row of requests that have none.
func (g *Aggregator) classesOf(open uint32) *classes {
	c := &classes{fresh: nowhere, open: open}
	for i := range c.rows {
		at, known := g.byKey[g.keyInClass(open, uint64(i+1))]
		if !known || g.rows[at].round != g.round {
			at = nowhere
		}
		c.rows[i] = at
	}
	return c
}

// keyInClass is the form of a row in another class; that of a row without one ends with 0.
func (g *Aggregator) keyInClass(open uint32, class uint64) string {
	key := g.rows[open].key
	return string(binary.AppendUvarint([]byte(key[:len(key)-1]), class))
}

// choose returns the row for a request.
func (c *classes) choose(g *Aggregator, asks *shares) uint32 {
	free := ClassesMax - 1
	for i := len(c.rows) - 1; i >= 0; i-- {
		if c.rows[i] == nowhere {
			free = i
		}
	}
	for _, at := range c.rows {
		if at != nowhere && g.rows[at].holds(asks) {
			return at
		}
	}
	if c.fresh == nowhere {
		c.fresh = g.inClass(c.open, uint64(free+1))
	}
	return c.fresh
}

// inClass returns the row of a class, which is made if there is none.
func (g *Aggregator) inClass(open uint32, class uint64) uint32 {
	key := g.keyInClass(open, class)
	at, known := g.byKey[key]
	if !known {
		from := g.rows[open]
		at = uint32(len(g.rows))
		g.rows = append(g.rows, row{key: key, class: uint8(class), need: from.need, bytes: from.bytes, set: from.set, keys: from.keys})
		g.byKey[key] = at
	}
	return at
}

// holds tells whether a request is at most as large as the row's largest amounts.
func (r *row) holds(asks *shares) bool {
	for i := range asks.used {
		if asks.n[i] > r.largest(asks.dim[i]) {
			return false
		}
	}
	if asks.more != nil {
		for _, x := range *asks.more {
			if x.n > r.largest(x.dim) {
				return false
			}
		}
	}
	return true
}

// largest returns the largest amount of a resource in the row, 0 if nobody asks for it.
func (r *row) largest(dim uint32) int64 {
	for i := range r.amounts {
		if r.amounts[i].dim == dim {
			return r.amounts[i].top
		}
	}
	return 0
}
