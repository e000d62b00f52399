// Package guard lends tests memory with a page before and behind it that can
// not be touched: a loop that reads or writes one element too far stops there,
// even when it makes nothing of what it read.
package guard

import (
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Before returns n zero elements that end where the forbidden page begins. T
// holds no pointers. The memory goes away with the test.
func Before[T any](tb testing.TB, n int) []T {
	tb.Helper()
	room, size := pages[T](tb, n)
	return unsafe.Slice((*T)(unsafe.Pointer(&room[len(room)-os.Getpagesize()-size])), n)
}

// After returns n zero elements that begin where the forbidden page ends.
func After[T any](tb testing.TB, n int) []T {
	tb.Helper()
	room, _ := pages[T](tb, n)
	return unsafe.Slice((*T)(unsafe.Pointer(&room[os.Getpagesize()])), n)
}

// pages returns room for n elements and the two pages around it, and the
// elements' size in bytes.
func pages[T any](tb testing.TB, n int) (room []byte, size int) {
	tb.Helper()
	page := os.Getpagesize()
	size = n * int(unsafe.Sizeof(*new(T)))
	inner := max((size+page-1)/page, 1) * page
	room, err := unix.Mmap(-1, 0, inner+2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		tb.Fatalf("memory between forbidden pages: %v", err)
	}
	tb.Cleanup(func() {
		if err := unix.Munmap(room); err != nil {
			tb.Error(err)
		}
	})
	for _, forbidden := range [][]byte{room[:page], room[inner+page:]} {
		if err := unix.Mprotect(forbidden, unix.PROT_NONE); err != nil {
			tb.Fatalf("memory between forbidden pages: %v", err)
		}
	}
	return room, size
}
