package guard

import (
	"runtime/debug"
	"testing"
	"unsafe"
)

// faults reports whether touching the address stops the goroutine.
func faults(p unsafe.Pointer) (stopped bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { stopped = recover() != nil }()
	*(*byte)(p)++
	return false
}

func TestPagesAround(t *testing.T) {
	for _, n := range []int{1, 7, 512, 513, 5000} {
		before, after := Before[uint64](t, n), After[uint64](t, n)
		if len(before) != n || len(after) != n {
			t.Fatalf("%d and %d elements, want %d", len(before), len(after), n)
		}
		before[0], before[n-1], after[0], after[n-1] = 1, 2, 3, 4
		if !faults(unsafe.Add(unsafe.Pointer(&before[n-1]), 8)) {
			t.Errorf("%d elements: the byte behind can be touched", n)
		}
		if !faults(unsafe.Add(unsafe.Pointer(&after[0]), -1)) {
			t.Errorf("%d elements: the byte before can be touched", n)
		}
		if faults(unsafe.Pointer(&after[0])) || faults(unsafe.Pointer(&before[n-1])) {
			t.Errorf("%d elements: an element can not be touched", n)
		}
	}
	if got := Before[byte](t, 0); len(got) != 0 {
		t.Errorf("%d elements, want none", len(got))
	}
}
