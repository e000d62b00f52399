package intake

import (
	"encoding/binary"
	"log/slog"
	"slices"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
	"github.com/tonnage/tonnage/shard/internal/memory"
	"github.com/tonnage/tonnage/shard/internal/tally"
)

// The quarantine holds a roll-up that asks for nearly nothing of what its cluster asked for
// before, until it is the third in a row: a mass scale-down goes through, and a broken
// informer cache does not empty a cluster. It looks twice.
//
// A mailbox looks at the number of rows alone, before it answers: less than a tenth of at
// least QuarantineRowsMin (see mailboxes). The cycle knows what is bound, and looks at
// clusters with at least Config.QuarantineMachines:
//
//	rows, or the sum of any resource, are less than a tenth of what was accepted before
//	nothing is known of what was accepted before, and of every resource less than a
//	tenth is asked for of what is bound
//
// What was accepted last outlives the process.
const (
	// QuarantineRowsMin is from how many accepted rows on a mailbox is suspicious.
	QuarantineRowsMin = 10
	quarantineKept    = 10 // one of so many rows must stay
	quarantineRollups = 3
	// quarantineApart is what part of a cycle interval must be between two roll-ups that
	// confirm each other: a repeat is no confirmation.
	quarantineApart = 0.8
)

// asked is what a cluster asked for.
type asked struct {
	rows  int
	total model.Resources
}

// fell tells whether so much less is asked for than before.
func (a *asked) fell(now *asked) bool {
	return now.rows*quarantineKept < a.rows || slices.ContainsFunc(a.total, func(was model.Amount) bool {
		return now.total.Get(was.Name) < tenthOf(was.Value)
	})
}

// little tells whether of every resource less than a tenth is asked for of what is bound.
func (a *asked) little(offers model.Resources) bool {
	return !slices.ContainsFunc(offers, func(has model.Amount) bool {
		return a.total.Get(has.Name) >= tenthOf(has.Value)
	})
}

// tenthOf returns a tenth, rounded up: less than that is less than a tenth, also of a few GPUs.
func tenthOf(amount int64) int64 {
	tenth := amount / quarantineKept
	if amount%quarantineKept > 0 {
		tenth++
	}
	return tenth
}

// askedOf returns what rows ask for.
func askedOf(rows []model.Need) asked {
	var total []model.Amount
	for i := range rows {
		total = append(total, rows[i].Aggregate...)
	}
	return asked{len(rows), model.NewResources(total...)}
}

func (a *asked) encode() []byte {
	b := binary.AppendUvarint(nil, uint64(a.rows))
	for _, x := range a.total {
		b = binary.AppendVarint(memory.AppendText(b, x.Name), x.Value)
	}
	return b
}

func decodeAsked(value []byte) (a asked, ok bool) {
	rows, n := binary.Uvarint(value)
	if n <= 0 {
		return asked{}, false
	}
	a.rows = int(rows)
	var total []model.Amount
	for d := memory.NewReader(value[n:]); d.More(); {
		x := model.Amount{Name: d.Text(), Value: d.Varint()}
		if d.TooShort() || x.Name == "" || x.Value <= 0 {
			return asked{}, false
		}
		total = append(total, x)
	}
	a.total = model.NewResources(total...)
	return a, true
}

// doubt is how often roll-ups of a cluster were held in a row.
type doubt struct {
	count int
	at    int64 // when the last one came that counts, Unix nanoseconds
}

// more counts a roll-up that came at a time, unless it is a mere repeat.
func (d doubt) more(at, apart int64) doubt {
	if d.count > 0 && at-d.at < apart {
		return d
	}
	return doubt{d.count + 1, at}
}

// quarantine is what a cycle looks at.
type quarantine struct {
	on       bool
	least    int   // from how many bound machines on a cycle looks; 0 = it does not
	apart    int64 // nanoseconds
	memory   memory.Memory
	machines *supply.Table
	log      *slog.Logger

	accepted map[string]asked // of clusters that ask for anything
	doubts   map[string]doubt
	bound    map[string]boundTo // of this cycle; nil = not looked at yet
}

// boundTo is what a cluster has.
type boundTo struct {
	machines int
	offers   model.Resources
}

// admits tells whether a roll-up becomes the demand of its cluster. reported says that the
// cluster has reported: where nothing was accepted it has asked for nothing.
func (q *quarantine) admits(x *delivery, now *asked, reported bool) bool {
	if !q.on || q.least == 0 || x.confirmed || !q.suspects(x.cluster, now, reported) {
		delete(q.doubts, x.cluster)
		return true
	}
	d := q.doubts[x.cluster].more(x.at, q.apart)
	if d.count >= quarantineRollups {
		delete(q.doubts, x.cluster)
		return true
	}
	q.doubts[x.cluster] = d
	q.log.Warn("roll-up held: it asks for nearly nothing of what is bound to the cluster", "cluster", x.cluster, "rows", now.rows,
		"bound", q.boundTo(x.cluster).machines, "rollup", d.count, "confirmedAt", quarantineRollups)
	return false
}

func (q *quarantine) suspects(cluster string, now *asked, reported bool) bool {
	was, known := q.accepted[cluster]
	known = known || reported
	if known && !was.fell(now) {
		return false
	}
	has := q.boundTo(cluster)
	return has.machines >= q.least && (known || now.little(has.offers))
}

// accept notes what has become the demand of a cluster.
func (q *quarantine) accept(cluster string, now asked) {
	was, known := q.accepted[cluster]
	switch {
	case now.rows > 0:
		q.accepted[cluster] = now
	case known:
		delete(q.accepted, cluster)
	}
	if q.memory == nil || known && was.rows == now.rows && was.total.Equal(now.total) {
		return
	}
	var value []byte
	if now.rows > 0 {
		value = now.encode()
	}
	q.memory.Set(memory.Asked+cluster, value)
}

// boundTo returns what is bound to a cluster. All clusters are counted together, once a
// cycle. O(machines).
func (q *quarantine) boundTo(cluster string) boundTo {
	if q.bound == nil {
		q.bound = map[string]boundTo{}
		type sum struct {
			machines int
			offers   tally.Sums
		}
		of := map[uint32]*sum{}
		view := q.machines.View()
		for r := range q.machines.All() {
			if !view.State[r].Bound() {
				continue
			}
			x := of[view.Cluster[r]]
			if x == nil {
				x = &sum{}
				of[view.Cluster[r]] = x
			}
			m := q.machines.Brief(r)
			x.machines++
			x.offers.Change(m.EffectiveAllocatable(), true)
		}
		for id, x := range of {
			q.bound[q.machines.Name(id)] = boundTo{x.machines, x.offers.Resources()}
		}
	}
	return q.bound[cluster]
}

// recall takes over what a cluster asked for in an earlier process; false says that it cannot be
// read.
func (q *quarantine) recall(cluster string, value []byte) bool {
	a, ok := decodeAsked(value)
	if ok {
		q.accepted[cluster] = a
	}
	return ok
}
