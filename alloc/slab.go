package alloc

import (
	"fmt"
	"unsafe"

	"github.com/tonnage/tonnage/internal/invariants"
)

// Handle names a slot of a Slab. It is opaque and means nothing to another
// slab; 0 names none.
type Handle uint32

const (
	slabPageShift = 10
	slabPageSlots = 1 << slabPageShift

	// A handle is a slot number; under the build tag "invariants" the bits
	// above it count how often the slot was given back.
	slotBits = 24
	slotMask = 1<<slotBits - 1

	// MaxSlots is the most slots that one slab has, the unused slot 0 included.
	MaxSlots = 1 << slotBits
)

// Slab keeps values of one type that come and go one by one, at addresses that
// do not move. Slots that were given back are used again, the latest first, so
// equal histories give equal handles. The zero value is ready.
//
// New, Free and At cost a few nanoseconds; memory grows by pages of 1,024
// slots and shrinks only with the slab.
type Slab[T any] struct {
	pages [][]T
	free  []uint32 // slots to use again, the latest last
	slots uint32   // slots ever used, slot 0 included; 0 before the first New
	lives []uint8  // by slot, invariants only: odd while in use
}

// New returns a slot that holds the zero value. It panics when T holds a
// pointer and when MaxSlots are in use.
func (s *Slab[T]) New() Handle {
	var slot uint32
	if n := len(s.free); n > 0 {
		slot = s.free[n-1]
		s.free = s.free[:n-1]
	} else {
		slot = s.extend()
	}
	h := Handle(slot)
	if invariants.Enabled {
		s.lives[slot]++
		h |= Handle(s.lives[slot]) << slotBits
	}
	var zero T
	*s.at(slot) = zero
	return h
}

// extend returns a slot that was never used.
func (s *Slab[T]) extend() uint32 {
	if s.slots == 0 {
		MustPointerFree[T]()
		s.slots = 1
	}
	slot := s.slots
	if slot >= MaxSlots {
		panic(fmt.Sprintf("alloc: slab of %T is full: %d slots are in use", *new(T), s.Len()))
	}
	s.slots++
	if int(slot>>slabPageShift) == len(s.pages) {
		s.pages = append(s.pages, make([]T, slabPageSlots))
	}
	if invariants.Enabled {
		for len(s.lives) <= int(slot) {
			s.lives = append(s.lives, 0)
		}
	}
	return slot
}

// Free gives the slot back. The handle, and pointers got from it, are dead.
func (s *Slab[T]) Free(h Handle) {
	slot := s.check(h)
	if invariants.Enabled {
		s.lives[slot]++
		p := s.at(slot)
		invariants.Poison(unsafe.Slice((*byte)(unsafe.Pointer(p)), unsafe.Sizeof(*p)))
	}
	s.free = append(s.free, slot)
}

// At returns the slot's value. The pointer is good until Free or Reset; it
// must not be kept in memory without pointers.
func (s *Slab[T]) At(h Handle) *T { return s.at(s.check(h)) }

func (s *Slab[T]) at(slot uint32) *T {
	return &s.pages[slot>>slabPageShift][slot&(slabPageSlots-1)]
}

// check returns the handle's slot. Handles that the slab never gave out panic
// always; handles that were given back, under invariants.
func (s *Slab[T]) check(h Handle) uint32 {
	slot := uint32(h) & slotMask
	if slot == 0 || slot >= s.slots {
		panic(fmt.Sprintf("alloc: slab of %T has no handle %d", *new(T), h))
	}
	if invariants.Enabled {
		if life := uint8(h >> slotBits); life != s.lives[slot] || life&1 == 0 {
			panic(fmt.Sprintf("invariants: handle of slot %d of a slab of %T used after it was given back", slot, *new(T)))
		}
	}
	return slot
}

// Len returns the number of slots in use.
func (s *Slab[T]) Len() int { return max(int(s.slots)-1, 0) - len(s.free) }

// Reset gives every slot back and keeps the memory.
func (s *Slab[T]) Reset() {
	if invariants.Enabled {
		for i := range s.lives {
			s.lives[i] += s.lives[i] & 1
		}
	}
	s.free = s.free[:0]
	s.slots = min(s.slots, 1)
}

// Usage returns the slab's memory in bytes.
func (s *Slab[T]) Usage() Usage {
	var zero T
	size := int64(unsafe.Sizeof(zero))
	return Usage{
		Used:     int64(s.Len()) * size,
		Reserved: int64(len(s.pages))*slabPageSlots*size + int64(cap(s.free))*4 + int64(cap(s.lives)),
	}
}
