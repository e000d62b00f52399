package shard

import "github.com/tonnage/tonnage/engine"

// uncertainHoldNanos is how long the listing is not believed when it says
// that a call without an answer did nothing: the call may still arrive.
const uncertainHoldNanos = int64(5e9)

// inFlight is the calls to the provider of which a listing may not know yet: those under
// way, those that ended while the provider listed, and those without an answer.
type inFlight struct {
	calls   map[string]engine.Kind // under way, by machine
	listing bool                   // the provider lists
	settled map[string]struct{}    // machines whose call ended while the provider listed
	unsure  map[string]unsure      // machines whose call has no answer
	failed  bool                   // a call has failed since the last full listing
}

// unsure is what is remembered of a call without an answer, or with one that does
// not say that it has begun.
type unsure struct {
	before standing
	until  int64 // Unix nanoseconds; what the listing says before is not final
}

func newInFlight() *inFlight {
	return &inFlight{calls: map[string]engine.Kind{}, settled: map[string]struct{}{}, unsure: map[string]unsure{}}
}

// begin notes that a call is under way, or waits to be.
func (f *inFlight) begin(machine string, kind engine.Kind) { f.calls[machine] = kind }

// end notes that the call of a machine is over.
func (f *inFlight) end(machine string) {
	delete(f.calls, machine)
	if f.listing {
		f.settled[machine] = struct{}{}
	}
}

// hasCall tells whether a call of the machine is under way, or waits to be.
func (f *inFlight) hasCall(machine string) bool {
	_, ok := f.calls[machine]
	return ok
}

// busy tells whether the provider's word on a machine may be older than a call that is
// under way, or was while the provider listed.
func (f *inFlight) busy(machine string) bool {
	if f.hasCall(machine) {
		return true
	}
	_, ok := f.settled[machine]
	return ok
}

// doubt notes that it is not known whether a call did anything. The machine was as given
// before it.
func (f *inFlight) doubt(machine string, before standing, now int64) {
	f.failed = true
	f.unsure[machine] = unsure{before: before, until: now + uncertainHoldNanos}
}

// listingBegins forgets the calls that ended while the provider listed before.
func (f *inFlight) listingBegins() {
	f.listing = true
	clear(f.settled)
}
