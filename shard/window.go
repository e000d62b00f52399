package shard

// windowSlots is into how many parts a window is divided: what was counted is forgotten a part
// at a time.
const windowSlots = 20

// window counts what happened within the last length of time.
type window struct {
	length int64 // nanoseconds
	slots  [windowSlots]int
	slot   int64 // number of the last one counted in
}

// advance forgets what has left the window.
func (w *window) advance(now int64) {
	current := now / (w.length / windowSlots)
	for n := min(current-w.slot, windowSlots); n > 0; n-- {
		w.slots[(current-n+1)%windowSlots] = 0
	}
	w.slot = max(w.slot, current)
}

// add counts; fewer than 0 take back what was counted.
func (w *window) add(now int64, n int) {
	w.advance(now)
	at := &w.slots[w.slot%windowSlots]
	*at = max(*at+n, 0)
}

// sum returns what was counted in the window that ends now.
func (w *window) sum(now int64) (sum int) {
	w.advance(now)
	for _, n := range w.slots {
		sum += n
	}
	return sum
}

func (w *window) clear() { w.slots = [windowSlots]int{} }
