package shard

import (
	"strconv"
	"time"
)

// What failed is tried again, later and later: at once after the first time,
// then after waitFirst, and twice as long each time up to waitMax.
const (
	waitFirst = 10 * time.Second
	waitMax   = 10 * time.Minute
	// WaitsMax is how many things the shard remembers to have failed; beyond it
	// further ones are tried again at once.
	WaitsMax = 1 << 16
	// waitForgottenNanos is how long after its wait a failure is forgotten.
	waitForgottenNanos = int64(time.Hour)
)

// setbacks is the ledger of what failed of late: machines by id, and bootstrap data
// by waitsFor.
type setbacks struct {
	failures map[string]*failures
}

type failures struct {
	count int
	until int64 // Unix nanoseconds
}

// failed notes a failure.
func (w *setbacks) failed(key string, now int64) {
	f := w.failures[key]
	if f == nil {
		if len(w.failures) >= WaitsMax {
			w.prune(now)
		}
		if len(w.failures) >= WaitsMax {
			return
		}
		if w.failures == nil {
			w.failures = map[string]*failures{}
		}
		f = &failures{}
		w.failures[key] = f
	}
	if f.count > 0 {
		f.until = now + int64(min(waitFirst<<min(f.count-1, 16), waitMax))
	}
	f.count++
}

// over forgets the failures of what went well.
func (w *setbacks) over(key string) { delete(w.failures, key) }

// waiting tells whether something that failed should not be tried yet.
func (w *setbacks) waiting(key string, now int64) bool {
	f := w.failures[key]
	return f != nil && now < f.until
}

func (w *setbacks) prune(now int64) {
	for k, f := range w.failures {
		if now-f.until > waitForgottenNanos {
			delete(w.failures, k)
		}
	}
}

// waitsFor is the key of bootstrap data for one profile of a cluster. No
// machine's id holds a NUL.
func waitsFor(cluster string, fingerprint uint64) string {
	return "\x00" + cluster + "\x00" + strconv.FormatUint(fingerprint, 16)
}
