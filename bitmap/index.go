package bitmap

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/RoaringBitmap/roaring/v2"
)

// Bucket names one set of the index. Profile 0 stands for any profile; Domain
// 0 for any domain, and is the only one that Profile 0 has.
type Bucket struct {
	State   uint8
	Profile uint32 // number of the profile, from 1
	Domain  uint32 // number of the value of the profile's Same key, from 1
}

// set is the rows of one bucket, never empty.
type set struct {
	rows     *roaring.Bitmap
	sequence uint64
}

// pair names what the domains are listed by.
type pair struct {
	state   uint8
	profile uint32
}

// Index keeps a set of rows for each bucket that has members. Rows, profiles
// and domains are numbers that the owner gives; they begin at 1. The zero
// value is not ready; use NewIndex.
//
// With m the members of the bucket at hand and d the domains of its
// (state, profile), Add and Remove cost O(log m), and O(d) when the bucket of
// a domain comes into being or goes.
type Index struct {
	sets     map[Bucket]*set
	domains  map[pair][]uint32 // the domains that have a bucket, ascending
	states   uint8             // the highest state that ever had a bucket
	sequence uint64            // the last number given to a change
}

// empty is what is returned for buckets that have no members.
var empty = roaring.New()

// NewIndex returns an index without any bucket.
func NewIndex() *Index {
	return &Index{sets: make(map[Bucket]*set), domains: make(map[pair][]uint32)}
}

// Add enters the row and reports whether it is new to the bucket.
func (x *Index) Add(b Bucket, row uint32) bool {
	s := x.open(b)
	if !s.rows.CheckedAdd(row) {
		return false
	}
	x.changed(s)
	return true
}

// AddMany enters the rows and returns how many are new to the bucket. Rows in
// ascending order are entered several times faster than others. The whole
// batch is one change: O(k) beside what Add costs, and no change if k is 0.
func (x *Index) AddMany(b Bucket, rows []uint32) int {
	if len(rows) == 0 {
		return 0
	}
	s := x.open(b)
	before := s.rows.GetCardinality()
	s.rows.AddMany(rows)
	added := int(s.rows.GetCardinality() - before)
	if added > 0 {
		x.changed(s)
	}
	return added
}

// Remove takes the row out and reports whether it was there.
func (x *Index) Remove(b Bucket, row uint32) bool {
	s := x.sets[b]
	if s == nil || !s.rows.CheckedRemove(row) {
		return false
	}
	x.changed(s)
	if s.rows.IsEmpty() {
		x.remove(b)
	}
	return true
}

// DropProfile removes every bucket of the profile, when demand no longer uses
// it. O(states × domains).
func (x *Index) DropProfile(profile uint32) {
	if profile == 0 {
		return
	}
	for state := 0; state <= int(x.states); state++ {
		p := pair{uint8(state), profile}
		for _, domain := range x.domains[p] {
			delete(x.sets, Bucket{p.state, profile, domain})
		}
		delete(x.domains, p)
		delete(x.sets, Bucket{p.state, profile, 0})
	}
}

// open returns the bucket's set, a new one when it has none. The caller puts a
// row into it.
func (x *Index) open(b Bucket) *set {
	if s := x.sets[b]; s != nil {
		return s
	}
	if b.Domain != 0 {
		if b.Profile == 0 {
			panic(fmt.Sprintf("bitmap: bucket %+v has a domain but no profile", b))
		}
		p := pair{b.State, b.Profile}
		list := x.domains[p]
		at, _ := slices.BinarySearch(list, b.Domain)
		x.domains[p] = slices.Insert(list, at, b.Domain)
	}
	s := &set{rows: roaring.New()}
	x.sets[b] = s
	x.states = max(x.states, b.State)
	return s
}

// remove forgets a bucket that has become empty.
func (x *Index) remove(b Bucket) {
	delete(x.sets, b)
	if b.Domain == 0 {
		return
	}
	p := pair{b.State, b.Profile}
	list := x.domains[p]
	if at, ok := slices.BinarySearch(list, b.Domain); ok {
		list = slices.Delete(list, at, at+1)
	}
	if len(list) == 0 {
		delete(x.domains, p)
	} else {
		x.domains[p] = list
	}
}

func (x *Index) changed(s *set) {
	x.sequence++
	s.sequence = x.sequence
}

// Has reports whether the row is in the bucket. O(log m).
func (x *Index) Has(b Bucket, row uint32) bool {
	s := x.sets[b]
	return s != nil && s.rows.Contains(row)
}

// Bitmap returns the bucket's rows, for reading only and until the next change
// of the index; an empty bitmap when there are none. O(1).
func (x *Index) Bitmap(b Bucket) *roaring.Bitmap {
	if s := x.sets[b]; s != nil {
		return s.rows
	}
	return empty
}

// Cardinality returns the number of rows in the bucket. O(m/65,536).
func (x *Index) Cardinality(b Bucket) int { return int(x.Bitmap(b).GetCardinality()) }

// AndCardinality returns how many rows are in both buckets, without making
// their intersection. It costs about what the smaller bucket has members.
func (x *Index) AndCardinality(a, b Bucket) int {
	return int(x.Bitmap(a).AndCardinality(x.Bitmap(b)))
}

// Sequence returns the number of the bucket's latest change, 0 while it is
// empty. Equal numbers at two times mean an equal bucket: no number is given
// twice. O(1).
func (x *Index) Sequence(b Bucket) uint64 {
	if s := x.sets[b]; s != nil {
		return s.sequence
	}
	return 0
}

// Domains returns the domains for which the (state, profile) has a bucket, in
// ascending order, for reading only and until the next change. O(1).
func (x *Index) Domains(state uint8, profile uint32) []uint32 {
	return x.domains[pair{state, profile}]
}

// Buckets returns the number of buckets that have members.
func (x *Index) Buckets() int { return len(x.sets) }

// Bytes returns the memory of the index, as far as roaring tells: containers
// by their content and the objects around them by their size. It visits every
// bucket; ask for it once per report, not per cycle.
func (x *Index) Bytes() int64 {
	const (
		// A map of small entries is seven eighths full at most, half on average.
		mapLoad = 2
		// The header of a container, and its key, pointer and flag in the
		// bitmap that holds it.
		containerBytes = 24 + 2 + 16 + 1
	)
	perSet := int64(unsafe.Sizeof(set{}) + unsafe.Sizeof(roaring.Bitmap{}) + mapLoad*(unsafe.Sizeof(Bucket{})+8))
	var total int64
	for _, s := range x.sets {
		containers := int64(s.rows.Stats().Containers)
		total += perSet + int64(s.rows.GetSizeInBytes()) + containers*containerBytes
	}
	for _, list := range x.domains {
		total += int64(cap(list))*4 + mapLoad*int64(unsafe.Sizeof(pair{})+unsafe.Sizeof(list))
	}
	return total
}
