package main

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/tonnage/tonnage/shard"
)

// tidyRecordsMin is how long a listing is, in records, for its garbage to be
// worth a collection: some 20 MB.
const tidyRecordsMin = 1 << 16

// tidy collects garbage when a long listing has been taken over. The collector
// lets the heap grow to twice what it last found in use, and while a listing is
// read that is the listing too: everything after it would be garbage until the
// heap is as large again. Between cycles a collection holds up nobody.
type tidy struct {
	busy atomic.Bool
	work sync.WaitGroup
}

// after begins a collection, when the cycle is one after which it is due and
// none is under way.
func (t *tidy) after(r *shard.CycleReport) {
	if !r.Reconciled.Full || r.Reconciled.Listed < tidyRecordsMin || !t.busy.CompareAndSwap(false, true) {
		return
	}
	t.work.Go(func() {
		defer t.busy.Store(false)
		runtime.GC()
	})
}
