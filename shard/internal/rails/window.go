package rails

// windowSlots is into how many parts a window is divided: what was counted is forgotten a part
// at a time.
const windowSlots = 20

// Window counts what happened within the last length of time.
type Window struct {
	Length int64 // nanoseconds
	slots  [windowSlots]int
	slot   int64 // number of the last one counted in
}

// advance forgets what has left the window.
func (w *Window) advance(now int64) {
	current := now / (w.Length / windowSlots)
	for n := min(current-w.slot, windowSlots); n > 0; n-- {
		w.slots[(current-n+1)%windowSlots] = 0
	}
	w.slot = max(w.slot, current)
}

// Add counts; fewer than 0 take back what was counted, the latest first.
func (w *Window) Add(now int64, n int) {
	w.advance(now)
	if n >= 0 {
		w.slots[w.slot%windowSlots] += n
		return
	}
	for at := w.slot; at > w.slot-windowSlots && at >= 0 && n < 0; at-- {
		slot := &w.slots[at%windowSlots]
		taken := min(*slot, -n)
		*slot, n = *slot-taken, n+taken
	}
}

// Sum returns what was counted in the window that ends now.
func (w *Window) Sum(now int64) (sum int) {
	w.advance(now)
	for _, n := range w.slots {
		sum += n
	}
	return sum
}

func (w *Window) clear() { w.slots = [windowSlots]int{} }
