package ledgers

import (
	"maps"
	"time"
)

// What failed is tried again, later and later: after a first wait, then after waitNext,
// and twice as long each time up to waitMax.
const (
	waitNext = 10 * time.Second
	waitMax  = 10 * time.Minute
	// refusalWait is the first wait after an operator has refused bootstrap data. After the
	// first failure of a machine there is none.
	refusalWait = time.Second
	// WaitsMax is how many things a ledger remembers to have failed; beyond it
	// further ones are tried again at once.
	WaitsMax = 1 << 16
	// waitForgottenNanos is how long after its wait a failure is forgotten.
	waitForgottenNanos = int64(time.Hour)
)

// Setbacks is a ledger of what failed of late.
type Setbacks[K comparable] struct {
	first    time.Duration // the first wait
	failures map[K]*failures
}

// failures are those in a row.
type failures struct {
	count int
	at    int64 // when the last one was noted, Unix nanoseconds
	until int64 // when it may be tried again, Unix nanoseconds
}

func newSetbacks[K comparable](first time.Duration) *Setbacks[K] {
	return &Setbacks[K]{first: first, failures: map[K]*failures{}}
}

// Failed notes a failure of an attempt that had begun at the given time. Attempts that were
// under way together count once: none of them could know of the others.
func (w *Setbacks[K]) Failed(key K, began, now int64) {
	f := w.failures[key]
	if f == nil {
		if len(w.failures) >= WaitsMax {
			w.prune(now)
		}
		if len(w.failures) >= WaitsMax {
			return
		}
		f = &failures{}
		w.failures[key] = f
	} else if began < f.at {
		return
	}
	wait := w.first
	if f.count > 0 {
		wait = min(waitNext<<min(f.count-1, 16), waitMax)
	}
	f.count++
	f.at, f.until = now, now+int64(wait)
}

// Over forgets the failures of what went well.
func (w *Setbacks[K]) Over(key K) { delete(w.failures, key) }

// Forgive forgets the failures of all keys that are chosen.
func (w *Setbacks[K]) Forgive(chosen func(K) bool) {
	maps.DeleteFunc(w.failures, func(key K, _ *failures) bool { return chosen(key) })
}

// Waiting tells whether something that failed should not be tried yet.
func (w *Setbacks[K]) Waiting(key K, now int64) bool {
	f := w.failures[key]
	return f != nil && now < f.until
}

// Next returns when the first of those that wait may be tried again, 0 when none waits.
// O(failures).
func (w *Setbacks[K]) Next(now int64) (at int64) {
	for _, f := range w.failures {
		if f.until > now && (at == 0 || f.until < at) {
			at = f.until
		}
	}
	return at
}

func (w *Setbacks[K]) prune(now int64) {
	maps.DeleteFunc(w.failures, func(_ K, f *failures) bool { return now-f.until > waitForgottenNanos })
}
