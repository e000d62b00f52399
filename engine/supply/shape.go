package supply

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	"github.com/tonnage/tonnage/engine/model"
)

// DimsMax is the most dimensions that vectors of a table have: those of
// model.AlwaysOffered, and model.OfferedNamesMax others.
const DimsMax = model.DimensionsMax

// shapes interns what machines are made of. The effective vector of shape s is
// vecs[s*stride:][:stride].
type shapes struct {
	names  held // by encoding
	res    []model.Resources
	alloc  []model.Resources
	vecs   []int64
	stride int // room per vector: len(dims), or 1 when there are none
	dims   []string
	dimIDs map[string]int
	layout uint64 // how often the dimensions changed
	came   uint64 // how often a shape came into use or went out of it
	// offers counts, by resource name, the shapes in use whose effective vector
	// has it. offered are those of these names that have a dimension, sorted;
	// ignored are the others.
	offers           map[string]uint32
	offered, ignored []string
	settled          bool // dims, offered and ignored follow from offers
	// recent are shapes held lately, the next to go at next: neighbours in a listing
	// are often alike.
	recent [8]uint32
	next   int
	key    []byte
}

func newShapes() shapes {
	return shapes{
		dimIDs: map[string]int{}, offers: map[string]uint32{}, settled: true, stride: 1, vecs: make([]int64, 1),
		res: make([]model.Resources, 1), alloc: make([]model.Resources, 1),
	}
}

// hold interns a machine's vectors.
func (s *shapes) hold(resources, allocatable model.Resources) uint32 {
	for _, id := range s.recent {
		if id != 0 && s.names.refs[id] > 0 && s.res[id].Equal(resources) && s.alloc[id].Equal(allocatable) {
			s.names.again(id)
			return id
		}
	}
	s.encode(resources, allocatable)
	if id, ok := s.names.dict.LookupBytes(s.key); ok {
		s.names.again(id)
		s.remember(id)
		return id
	}
	s.came++
	s.offer(effective(resources, allocatable))
	id := s.names.holdBytes(s.key)
	for int(id) >= len(s.res) {
		s.res = append(s.res, nil)
		s.alloc = append(s.alloc, nil)
		s.vecs = append(s.vecs, make([]int64, s.stride)...)
	}
	s.res[id], s.alloc[id] = resources, allocatable
	s.remember(id)
	s.fill(id)
	return id
}

func (s *shapes) remember(id uint32) {
	s.recent[s.next] = id
	s.next = (s.next + 1) % len(s.recent)
}

// effective is what counts of a machine's vectors.
func effective(resources, allocatable model.Resources) model.Resources {
	if len(allocatable) > 0 {
		return allocatable
	}
	return resources
}

// encode writes both vectors to s.key, unambiguously.
func (s *shapes) encode(resources, allocatable model.Resources) {
	s.key = s.key[:0]
	for _, r := range [...]model.Resources{resources, allocatable} {
		s.key = binary.AppendUvarint(s.key, uint64(len(r)))
		for _, a := range r {
			s.key = binary.AppendUvarint(s.key, uint64(len(a.Name)))
			s.key = append(s.key, a.Name...)
			s.key = binary.AppendVarint(s.key, a.Value)
		}
	}
}

// release gives one reference back; a shape that nobody has any more is gone.
func (s *shapes) release(id uint32) {
	if s.names.release(id) {
		s.came++
		for _, a := range effective(s.res[id], s.alloc[id]) {
			if s.offers[a.Name]--; s.offers[a.Name] == 0 {
				delete(s.offers, a.Name)
				s.settled = false
			}
		}
		s.res[id], s.alloc[id] = nil, nil
	}
}

func (s *shapes) vec(id uint32) []int64 { return s.vecs[int(id)*s.stride:][:len(s.dims)] }

// largest returns, of every dimension that some shape in use has, the largest amount.
func (s *shapes) largest() []model.Amount {
	most := make([]int64, len(s.dims))
	for id := range s.res {
		if id == 0 || s.names.refs[id] == 0 {
			continue
		}
		for d, v := range s.vec(uint32(id)) {
			most[d] = max(most[d], v)
		}
	}
	out := make([]model.Amount, 0, len(most))
	for d, v := range most {
		if v > 0 {
			out = append(out, model.Amount{Name: s.dims[d], Value: v})
		}
	}
	slices.SortFunc(out, func(a, b model.Amount) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// fill writes the vector of a shape; names without a dimension are left out.
func (s *shapes) fill(id uint32) {
	v := s.vec(id)
	clear(v)
	for _, a := range effective(s.res[id], s.alloc[id]) {
		if d, ok := s.dimIDs[a.Name]; ok {
			v[d] = a.Value
		}
	}
}

// offer counts the names of a shape that comes into use, and gives new ones
// dimensions. While there is room for all of them, that is done at once; when a
// choice has to be made, by settle. Rare, and O(shapes) when a name is new.
func (s *shapes) offer(r model.Resources) {
	dims := s.dims
	for _, a := range r {
		if s.offers[a.Name]++; s.offers[a.Name] > 1 {
			continue
		}
		s.settled = false
		if _, ok := s.dimIDs[a.Name]; !ok {
			dims = append(dims[:len(dims):len(dims)], a.Name)
		}
	}
	switch {
	case len(dims) == len(s.dims):
	case countLimited(dims) <= model.OfferedNamesMax:
		s.layOut(dims)
	case len(s.offers) <= model.OfferedNamesMax:
		s.settle() // names that are no longer offered make room
	}
}

// countLimited returns how many of the names count against OfferedNamesMax.
func countLimited(names []string) (n int) {
	for _, name := range names {
		if !model.AlwaysOffered(name) {
			n++
		}
	}
	return n
}

// settle chooses which of the offered names have a dimension, and lays the
// vectors out anew if these are not the ones there are. The choice depends on
// nothing but the names that machines offer now. O(1) when no name has come or
// gone since the last call.
func (s *shapes) settle() {
	if s.settled {
		return
	}
	s.settled = true
	s.offered, s.ignored = s.offered[:0], s.ignored[:0]
	limited := 0
	for _, name := range slices.Sorted(maps.Keys(s.offers)) {
		if !model.AlwaysOffered(name) {
			if limited++; limited > model.OfferedNamesMax {
				s.ignored = append(s.ignored, name)
				continue
			}
		}
		s.offered = append(s.offered, name)
	}
	for _, name := range s.offered {
		if _, ok := s.dimIDs[name]; !ok {
			s.layOut(slices.Clone(s.offered))
			return
		}
	}
	for _, name := range s.ignored {
		if _, ok := s.dimIDs[name]; ok {
			s.layOut(slices.Clone(s.offered))
			return
		}
	}
}

// layOut writes all vectors anew over these dimensions.
func (s *shapes) layOut(dims []string) {
	s.dims, s.stride = dims, len(dims)
	s.layout++
	clear(s.dimIDs)
	for i, n := range dims {
		s.dimIDs[n] = i
	}
	s.vecs = make([]int64, len(s.res)*s.stride)
	for id := range s.res {
		s.fill(uint32(id))
	}
}

func (s *shapes) bytes() int64 {
	const slot = 2 * 24 // two slice headers
	n := s.names.bytes() + int64(cap(s.vecs))*8 + int64(cap(s.res))*slot
	for id := range s.res {
		n += int64(len(s.res[id])+len(s.alloc[id])) * 24
	}
	return n
}
