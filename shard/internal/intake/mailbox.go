package intake

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/tonnage/tonnage/engine/demand"
)

// MailboxBytesMax is how much memory the roll-ups may hold that wait for the next
// cycle, all clusters together.
const MailboxBytesMax = 64 << 20

// spareBuildersMax is how many empty builders are kept for the next roll-ups.
const spareBuildersMax = 16

// mailboxes hold the newest accepted roll-up of each cluster until a cycle takes
// it over. They decide which roll-ups are accepted, so that the answer to an
// operator waits for no cycle:
//
//	put    validated roll-up ──▶ quarantine, limits ──▶ the cluster's mailbox    any goroutine
//	take   mailboxes ──▶ the demand table                                       the cycle, at its start
//
// A newer roll-up of a cluster takes the place of one that waits, and its rows
// keep the arrivals of those that they continue. The lock is held for a few
// steps at a time, whatever the number of rows.
type mailboxes struct {
	quarantine bool
	apart      int64 // between two roll-ups in quarantine that count, nanoseconds

	mu      sync.Mutex
	boxes   map[string]*mailbox // of clusters with rows, and of those with something for the next cycle
	held    map[string]doubt    // roll-ups in quarantine, in a row
	doubted map[string]struct{} // clusters whose last roll-up the cycle holds
	waiting []*mailbox          // with something for the next cycle, in the order in which it came
	bytes   int64               // of the roll-ups that wait or are being put
	spares  []*demand.Builder
}

// mailbox is what is known of one cluster.
type mailbox struct {
	cluster  string
	accepted int             // rows of the last accepted roll-up, whether it waits or not
	putting  int             // roll-ups that are accepted and not yet in the box
	rollup   *demand.Builder // nil = none waits
	bytes    int64           // of rollup
	at       int64           // when rollup came, Unix nanoseconds
	reported bool            // a held roll-up came
	sure     bool            // rollup has confirmed those that were held
	listed   bool            // in waiting
}

// delivery is what a mailbox held for the cycle.
type delivery struct {
	cluster string
	rollup  *demand.Builder // nil: the cluster has only reported
	at      int64           // Unix nanoseconds
	// confirmed says that it has confirmed those that were held.
	confirmed bool
}

func newMailboxes(quarantine bool, apart int64) mailboxes {
	return mailboxes{quarantine: quarantine, apart: apart, boxes: map[string]*mailbox{}, held: map[string]doubt{}, doubted: map[string]struct{}{}}
}

// put makes a builder's rows what the next cycle takes over, or holds them; held
// counts the held ones in a row. The builder must not have been refused. It is
// the caller's again afterwards, and must be Reset. at is Unix nanoseconds.
func (m *mailboxes) put(b *demand.Builder, at int64) (outcome RollupOutcome, held int, err error) {
	box, older, outcome, held, err := m.admit(b, at)
	if outcome != RollupAccepted {
		return outcome, held, err
	}
	if older != nil {
		b.Continue(older)
	}
	m.place(box, older, b, at)
	return outcome, 0, nil
}

// admit decides what becomes of a roll-up. The mailbox of an accepted one is
// emptied, and what waited in it returned.
func (m *mailboxes) admit(b *demand.Builder, at int64) (box *mailbox, older *demand.Builder, outcome RollupOutcome, held int, err error) {
	cluster, rows, size := b.Cluster(), b.Len(), b.Bytes()
	m.mu.Lock()
	defer m.mu.Unlock()
	box = m.boxes[cluster]
	if box == nil && len(m.boxes) >= demand.ClustersMax {
		return nil, nil, RollupRefused, 0, fmt.Errorf("roll-up of cluster %q: %d clusters have demand; no more are accepted", cluster, demand.ClustersMax)
	}
	if box == nil {
		box = &mailbox{cluster: cluster}
	}
	suspect := m.quarantine && suspicious(box.accepted, rows)
	if d := m.held[cluster].more(at, m.apart); suspect && d.count < quarantineRollups {
		m.held[cluster] = d
		box.reported = true
		m.list(box)
		return box, nil, RollupHeld, d.count, nil
	}
	if others := m.bytes - box.bytes; others > 0 && others+size > MailboxBytesMax {
		return nil, nil, RollupRefused, 0, fmt.Errorf("roll-up of cluster %q: %d bytes, and %d bytes of others wait for the next cycle; at most %d may wait: report again later", cluster, size, others, MailboxBytesMax)
	}
	delete(m.held, cluster)
	m.boxes[cluster] = box
	older, box.rollup = box.rollup, nil
	m.bytes += size - box.bytes
	box.bytes = 0
	box.accepted, box.sure = rows, suspect || box.sure && older != nil && repeats(older, b)
	box.putting++
	return box, older, RollupAccepted, 0, nil
}

// repeats tells whether a roll-up asks for what the one before it does, or for more: what has
// confirmed the one confirms the other.
func repeats(before, b *demand.Builder) bool {
	was, now := asked{before.Len(), before.Total()}, asked{b.Len(), b.Total()}
	return now.rows >= was.rows && !was.fell(&now)
}

// suspicious tells whether a roll-up of so many rows drops nearly all of those
// accepted before.
func suspicious(accepted, rows int) bool {
	return accepted >= QuarantineRowsMin && rows*quarantineKept < accepted
}

// place puts an accepted roll-up into its mailbox. The builder gets the memory of
// the one before.
func (m *mailboxes) place(box *mailbox, memory, b *demand.Builder, at int64) {
	size := b.Bytes()
	m.mu.Lock()
	defer m.mu.Unlock()
	box.putting--
	if box.rollup == nil {
		if memory == nil {
			memory = m.spareLocked()
		}
		box.rollup = memory
	}
	m.bytes -= box.bytes // of one that was put meanwhile
	box.rollup.Swap(b)
	box.at, box.bytes = at, size
	m.list(box)
}

func (m *mailboxes) list(box *mailbox) {
	if !box.listed {
		box.listed = true
		m.waiting = append(m.waiting, box)
	}
	m.boxes[box.cluster] = box
}

// take empties the mailboxes, in the order in which they were filled. The
// builders are the caller's, who gives them back with recycle.
func (m *mailboxes) take(into []delivery) []delivery {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, box := range m.waiting {
		switch {
		case box.rollup != nil:
			into = append(into, delivery{box.cluster, box.rollup, box.at, box.sure})
			m.bytes -= box.bytes
		case box.reported:
			into = append(into, delivery{cluster: box.cluster})
		}
		box.rollup, box.bytes, box.reported, box.listed = nil, 0, false, false
		box.sure = box.sure && box.putting > 0 // of one that is on its way into the box
		m.drop(box)
	}
	clear(m.waiting)
	m.waiting = m.waiting[:0]
	return into
}

// drop forgets a mailbox of which there is nothing to know.
func (m *mailboxes) drop(box *mailbox) {
	if box.accepted == 0 && box.putting == 0 && box.rollup == nil && !box.listed {
		delete(m.boxes, box.cluster)
	}
}

// know sets how many rows of a cluster were accepted last, for demand that came
// another way, unless a newer roll-up waits.
func (m *mailboxes) know(cluster string, rows int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	box := m.boxes[cluster]
	if box == nil {
		box = &mailbox{cluster: cluster}
		m.boxes[cluster] = box
	}
	if box.rollup == nil && box.putting == 0 {
		box.accepted = rows
	}
	m.drop(box)
}

// spare returns an empty builder.
func (m *mailboxes) spare() *demand.Builder {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.spareLocked()
}

func (m *mailboxes) spareLocked() *demand.Builder {
	n := len(m.spares)
	if n == 0 {
		return demand.NewBuilder()
	}
	b := m.spares[n-1]
	m.spares[n-1] = nil
	m.spares = m.spares[:n-1]
	return b
}

// recycle takes back a builder of which the rows are not needed any more.
func (m *mailboxes) recycle(b *demand.Builder) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.spares) < spareBuildersMax {
		m.spares = append(m.spares, b)
	}
}

// doubt notes whether the cycle holds the last roll-up of a cluster.
func (m *mailboxes) doubt(cluster string, holds bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if holds {
		m.doubted[cluster] = struct{}{}
	} else {
		delete(m.doubted, cluster)
	}
}

// heldClusters returns the clusters whose last roll-up is in quarantine, sorted.
func (m *mailboxes) heldClusters() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := slices.AppendSeq(make([]string, 0, len(m.held)+len(m.doubted)), maps.Keys(m.held))
	out = slices.AppendSeq(out, maps.Keys(m.doubted))
	slices.Sort(out)
	return slices.Compact(out)
}

// memory returns the bytes of roll-ups that wait, and of empty builders.
func (m *mailboxes) memory() (waiting, spare int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range m.spares {
		spare += b.Bytes()
	}
	return m.bytes, spare
}
