package supply

import (
	"encoding/binary"
	"fmt"

	"github.com/tonnage/tonnage/engine/model"
)

// DimsMax is the most resource dimensions that all machines together may name.
const DimsMax = 64

// shapes interns what machines are made of. The effective vector of shape s
// is vecs[s*stride:][:stride].
type shapes struct {
	names  interner // by encoding
	res    []model.Resources
	alloc  []model.Resources
	vecs   []int64
	stride int
	dims   []string
	dimIDs map[string]int
	key    []byte
}

func newShapes() shapes {
	s := shapes{names: newInterner(), dimIDs: map[string]int{}}
	s.res, s.alloc = make([]model.Resources, 1), make([]model.Resources, 1)
	return s
}

// hold interns a machine's vectors. The error says which dimension is one too
// many; nothing changes then.
func (s *shapes) hold(resources, allocatable model.Resources) (uint32, error) {
	s.key = s.key[:0]
	for _, r := range [...]model.Resources{resources, allocatable} {
		s.key = binary.AppendUvarint(s.key, uint64(len(r))+1)
		for _, a := range r {
			s.key = binary.AppendUvarint(s.key, uint64(len(a.Name)))
			s.key = append(s.key, a.Name...)
			s.key = binary.AppendVarint(s.key, a.Value)
		}
	}
	if id, ok := s.names.ids[string(s.key)]; ok {
		s.names.refs[id]++
		return id, nil
	}
	effective := allocatable
	if len(effective) == 0 {
		effective = resources
	}
	if err := s.useDims(effective); err != nil {
		return 0, err
	}
	id := s.names.hold(string(s.key))
	for int(id) >= len(s.res) {
		s.res = append(s.res, nil)
		s.alloc = append(s.alloc, nil)
	}
	s.res[id], s.alloc[id] = resources, allocatable
	for len(s.vecs) < (int(id)+1)*s.stride {
		s.vecs = append(s.vecs, 0)
	}
	v := s.vec(id)
	clear(v)
	for _, a := range effective {
		v[s.dimIDs[a.Name]] = a.Value
	}
	return id, nil
}

func (s *shapes) vec(id uint32) []int64 { return s.vecs[int(id)*s.stride:][:s.stride] }

// useDims numbers the vector's dimensions, laying all vectors out anew when
// one is new: rare, and O(shapes).
func (s *shapes) useDims(r model.Resources) error {
	fresh := 0
	for _, a := range r {
		if _, ok := s.dimIDs[a.Name]; !ok {
			fresh++
		}
	}
	if fresh == 0 {
		return nil
	}
	if s.stride+fresh > DimsMax {
		return fmt.Errorf("resources name %d new dimensions on top of %d; at most %d are supported", fresh, s.stride, DimsMax)
	}
	for _, a := range r {
		if _, ok := s.dimIDs[a.Name]; !ok {
			s.dimIDs[a.Name] = len(s.dims)
			s.dims = append(s.dims, a.Name)
		}
	}
	old, n := s.stride, len(s.res)
	vecs := make([]int64, n*len(s.dims))
	for i := range n {
		if (i+1)*old <= len(s.vecs) {
			copy(vecs[i*len(s.dims):], s.vecs[i*old:][:old])
		}
	}
	s.vecs, s.stride = vecs, len(s.dims)
	return nil
}
