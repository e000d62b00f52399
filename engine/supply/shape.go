package supply

import (
	"encoding/binary"
	"fmt"

	"github.com/tonnage/tonnage/engine/model"
)

// DimsMax is the most resource dimensions that the machines of a table may
// name at one time.
const DimsMax = 64

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
	// recent are shapes held lately, the next to go at next: neighbours in a listing
	// are often alike.
	recent [8]uint32
	next   int
	key    []byte
}

func newShapes() shapes {
	return shapes{
		dimIDs: map[string]int{}, stride: 1, vecs: make([]int64, 1),
		res: make([]model.Resources, 1), alloc: make([]model.Resources, 1),
	}
}

// hold interns a machine's vectors. The error says which dimension is one too
// many; nothing changes then.
func (s *shapes) hold(resources, allocatable model.Resources) (uint32, error) {
	for _, id := range s.recent {
		if id != 0 && s.names.refs[id] > 0 && s.res[id].Equal(resources) && s.alloc[id].Equal(allocatable) {
			s.names.again(id)
			return id, nil
		}
	}
	s.encode(resources, allocatable)
	if id, ok := s.names.dict.LookupBytes(s.key); ok {
		s.names.again(id)
		s.remember(id)
		return id, nil
	}
	if err := s.useDims(effective(resources, allocatable)); err != nil {
		return 0, err
	}
	id := s.names.holdBytes(s.key)
	for int(id) >= len(s.res) {
		s.res = append(s.res, nil)
		s.alloc = append(s.alloc, nil)
		s.vecs = append(s.vecs, make([]int64, s.stride)...)
	}
	s.res[id], s.alloc[id] = resources, allocatable
	s.remember(id)
	s.fill(id)
	return id, nil
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
		s.res[id], s.alloc[id] = nil, nil
	}
}

func (s *shapes) vec(id uint32) []int64 { return s.vecs[int(id)*s.stride:][:len(s.dims)] }

// fill writes the vector of a shape.
func (s *shapes) fill(id uint32) {
	v := s.vec(id)
	clear(v)
	for _, a := range effective(s.res[id], s.alloc[id]) {
		v[s.dimIDs[a.Name]] = a.Value
	}
}

// useDims numbers the vector's dimensions. When that would be too many, those
// that no machine names any more make room. Rare, and O(shapes) when a
// dimension is new.
func (s *shapes) useDims(r model.Resources) error {
	dims := s.with(s.dims, r)
	if len(dims) == len(s.dims) {
		return nil
	}
	if len(dims) > DimsMax {
		var used []string
		for id := range s.res {
			used = s.with(used, effective(s.res[id], s.alloc[id]))
		}
		fresh := s.with(used, r)
		if len(fresh) > DimsMax {
			return fmt.Errorf("resources name %d new dimensions on top of %d; at most %d are supported", len(fresh)-len(used), len(used), DimsMax)
		}
		dims = fresh
	}
	s.layOut(dims)
	return nil
}

// with returns the names followed by those of r that are not among them.
func (s *shapes) with(names []string, r model.Resources) []string {
	seen := make(map[string]struct{}, len(names)+len(r))
	for _, n := range names {
		seen[n] = struct{}{}
	}
	names = names[:len(names):len(names)]
	for _, a := range r {
		if _, ok := seen[a.Name]; !ok {
			seen[a.Name] = struct{}{}
			names = append(names, a.Name)
		}
	}
	return names
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
