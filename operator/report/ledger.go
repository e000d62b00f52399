package report

import (
	"k8s.io/apimachinery/pkg/types"

	api "github.com/tonnage/tonnage/api/v1alpha1"
)

// version is a request as it was reported.
type version struct {
	uid        types.UID
	generation int64
}

func versionOf(r *api.CapacityRequest) version { return version{r.UID, r.Generation} }

// entry is a request that waits to be heard.
type entry struct {
	request *api.CapacityRequest
	// since is the first of the session's roll-ups that, with all after it,
	// contained the request.
	since uint64
	class uint8 // the size class that it has in the newest of them
}

// ledger knows which requests wait to be heard. One owner.
type ledger struct {
	sent    uint64 // roll-ups of this session
	heard   uint64 // acknowledgements of this session
	waiting map[version]entry
}

// begin starts a session.
func (l *ledger) begin() { *l = ledger{waiting: map[version]entry{}} }

// report notes what the next roll-up contains.
func (l *ledger) report(included []*api.CapacityRequest, classes []uint8) {
	l.sent++
	next := make(map[version]entry)
	for i, r := range included {
		if heard(r) {
			continue
		}
		e, known := l.waiting[versionOf(r)]
		if !known {
			e.since = l.sent
		}
		e.request, e.class = r, classes[i]
		next[versionOf(r)] = e
	}
	l.waiting = next
}

// acknowledge notes an acknowledgement and returns the requests that it
// confirms.
func (l *ledger) acknowledge() []entry {
	if l.heard == l.sent {
		return nil // it answers nothing
	}
	l.heard++
	var out []entry
	for v, e := range l.waiting {
		if e.since <= l.heard {
			out = append(out, e)
			delete(l.waiting, v)
		}
	}
	return out
}
