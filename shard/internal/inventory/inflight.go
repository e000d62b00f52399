package inventory

import "github.com/tonnage/tonnage/engine"

// uncertainHoldNanos is how long the listing is not believed when it says
// that a call without an answer did nothing: the call may still arrive.
const uncertainHoldNanos = int64(5e9)

// InFlight is the calls to the provider of which a listing may not know yet: those under
// way, those that ended while the provider listed, and those without an answer.
type InFlight struct {
	calls   map[string]engine.Kind // under way, by machine
	listing bool                   // the provider lists
	settled map[string]struct{}    // machines whose call ended while the provider listed
	unsure  map[string]unsure      // machines whose call has no answer
	failed  bool                   // a call has failed since the last full listing
}

// unsure is what is remembered of a call without an answer, or with one that does
// not say that it has begun.
type unsure struct {
	before Standing
	until  int64 // Unix nanoseconds; what the listing says before is not final
}

// NewInFlight returns that there is no call.
func NewInFlight() *InFlight {
	return &InFlight{calls: map[string]engine.Kind{}, settled: map[string]struct{}{}, unsure: map[string]unsure{}}
}

// Begin notes that a call is under way, or waits to be.
func (f *InFlight) Begin(machine string, kind engine.Kind) { f.calls[machine] = kind }

// End notes that the call of a machine is over.
func (f *InFlight) End(machine string) {
	delete(f.calls, machine)
	if f.listing {
		f.settled[machine] = struct{}{}
	}
}

// HasCall tells whether a call of the machine is under way, or waits to be.
func (f *InFlight) HasCall(machine string) bool {
	_, ok := f.calls[machine]
	return ok
}

// Busy tells whether the provider's word on a machine may be older than a call that is
// under way, or was while the provider listed.
func (f *InFlight) Busy(machine string) bool {
	if f.HasCall(machine) {
		return true
	}
	_, ok := f.settled[machine]
	return ok
}

// LookAgain has the next full listing come soon: what is known of a machine may be wrong.
func (f *InFlight) LookAgain() { f.failed = true }

// Uncertain tells whether a machine has had a call without an answer, how it was before
// that, and whether it is too early to believe a listing which says that it did nothing.
func (f *InFlight) Uncertain(machine string, now int64) (before Standing, early, ok bool) {
	u, ok := f.unsure[machine]
	return u.before, now < u.until, ok
}

// Certain notes that it is known by now what became of a call without an answer.
func (f *InFlight) Certain(machine string) { delete(f.unsure, machine) }

// WantsListing tells whether a call has failed since the last full listing.
func (f *InFlight) WantsListing() bool { return f.failed }

// UnderWay visits the machines whose calls a listing may not know yet.
func (f *InFlight) UnderWay(visit func(machine string)) {
	for id := range f.calls {
		visit(id)
	}
	for id := range f.settled {
		visit(id)
	}
}

// Count returns how many calls are under way, or wait to be.
func (f *InFlight) Count() int { return len(f.calls) }

// Doubt notes that it is not known whether a call did anything. The machine was as given
// before it.
func (f *InFlight) Doubt(machine string, before Standing, now int64) {
	f.failed = true
	f.unsure[machine] = unsure{before: before, until: now + uncertainHoldNanos}
}

// ListingBegins forgets the calls that ended while the provider listed before.
func (f *InFlight) ListingBegins() {
	f.listing = true
	clear(f.settled)
}

// ListingEnds notes that the provider has listed, or has given up; full says that the listing
// told of all machines.
func (f *InFlight) ListingEnds(full bool) {
	f.listing = false
	if full {
		f.failed = false
	}
}

// TakenOver notes that a listing was taken over: of the calls that ended meanwhile the next one knows.
func (f *InFlight) TakenOver() { clear(f.settled) }
