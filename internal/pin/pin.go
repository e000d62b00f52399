package pin

import (
	"runtime"

	"github.com/tonnage/tonnage/internal/topology"
)

// To ties the calling goroutine to the CPU of a place; a place without one is
// left alone. It fails when the process may not use that CPU, and on systems
// other than Linux; everything is then as before.
//
// The goroutine calls release to become as it was. One that ends without it
// takes its thread along.
func To(p topology.Place) (release func(), err error) {
	if p.CPU == topology.NoCPU {
		return func() {}, nil
	}
	return to(p.CPU)
}

// Hook returns what a pool of workers calls at the start of each worker, on the
// worker's goroutine, with its number: it ties the worker to its place until
// the goroutine ends. Workers without a place are left alone. A refusal leaves
// the worker where it is, which is no fault of the result: it is told to
// refused (may be nil), which is called by several workers at once.
func Hook(places []topology.Place, refused func(worker int, err error)) func(worker int) {
	return func(worker int) {
		if worker < 0 || worker >= len(places) {
			return
		}
		if _, err := To(places[worker]); err != nil && refused != nil {
			refused(worker, err)
		}
	}
}

// Aside runs work on a thread of its own with the lowest priority, and returns when it has ended: whatever else
// the machine has to do goes first. A panic of the work is the caller's. Where a thread has no priority of its own
// (other systems than Linux), the work runs with that of the process. Do not take a lock in it that others wait for.
func Aside(work func()) {
	done := make(chan any, 1)
	go func() {
		defer func() { done <- recover() }()
		// Priority that was given up cannot be had again: the thread ends with the goroutine, which stays locked to it.
		runtime.LockOSThread()
		lowerPriority()
		work()
	}()
	if fault := <-done; fault != nil {
		panic(fault)
	}
}
