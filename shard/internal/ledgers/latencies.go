package ledgers

import (
	"strconv"
	"strings"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard/internal/memory"
	"github.com/tonnage/tonnage/shard/stamps"
)

// WaitingMax is how many entries the ledgers of waiting demand hold at most.
const WaitingMax = 1 << 20

// Latencies is the ledger behind the provisioning latency: since when demand
// waits, by cluster and fingerprint. An entry is observed once, by the first
// machine that is bound for it, and lives no longer than the demand is short.
type Latencies struct {
	memory     memory.Memory    // nil = nothing outlives the process
	reportedAt map[string]int64 // when the roll-ups came that were taken over since the last cycle that decided
	since      map[DemandKey]*since
	short      map[DemandKey]*short
	cycle      uint64
}

// short is demand that was not met in the cycles from first to last.
type short struct{ first, last uint64 }

// DemandKey names the demand of a cluster for one profile.
type DemandKey struct {
	Cluster     string
	Fingerprint uint64
}

type since struct {
	at       int64
	seen     uint64
	recalled bool // from an earlier process
}

func newLatencies(kept memory.Memory) Latencies {
	return Latencies{memory: kept, reportedAt: map[string]int64{}, since: map[DemandKey]*since{}, short: map[DemandKey]*short{}}
}

// record notes the Needs that wait for machines: short, or with machines on
// their way. They wait since the roll-up that brought them. It comes
// after the actions: what they bind at once ends an earlier wait, not this one.
// Of the plan it reads nothing that changes as machines move. did are its deeds.
func (l *Latencies) record(now int64, plan *engine.Plan, did []deeds) {
	l.cycle++
	type seen struct {
		DemandKey
		short bool
	}
	var recent [recentSlots]seen // those of a cluster stand together
	for i := range plan.Len() {
		satisfied := plan.Satisfied(i)
		if satisfied && did[i]&acquires == 0 || int(plan.Fold(i)) != i {
			continue
		}
		cluster, _ := plan.Identity(i)
		k := DemandKey{cluster, plan.Profile(i).Fingerprint()}
		slot := &recent[k.Fingerprint%recentSlots]
		known := slot.DemandKey == k
		if known && (satisfied || slot.short) {
			continue
		}
		*slot = seen{k, !satisfied}
		if !satisfied {
			l.noteShort(k)
		}
		if known {
			continue
		}
		x := l.since[k]
		if x == nil {
			if len(l.since) >= WaitingMax {
				continue
			}
			at := now
			if t, ok := l.reportedAt[cluster]; ok {
				at = min(at, t)
			}
			x = &since{at: at}
			l.since[k] = x
			l.remember(k, at)
		}
		x.seen = l.cycle
	}
	clear(l.reportedAt)
	if l.cycle%latencyPruneCycles == 0 {
		l.prune()
	}
}

// prune forgets demand that stopped waiting a while ago. What is being created
// or configured takes cycles in which its Need is satisfied.
func (l *Latencies) prune() {
	for k, x := range l.since {
		if l.cycle-x.seen > latencyForgottenCycles {
			delete(l.since, k)
			l.remember(k, 0)
		}
	}
	for k, x := range l.short {
		if x.last != l.cycle {
			delete(l.short, k)
		}
	}
}

// noteShort notes that demand is not met in this cycle.
func (l *Latencies) noteShort(k DemandKey) {
	x := l.short[k]
	switch {
	case x == nil && len(l.short) >= WaitingMax:
		return
	case x == nil:
		x = &short{first: l.cycle}
		l.short[k] = x
	case x.last+1 < l.cycle:
		x.first = l.cycle // it was met in between
	}
	x.last = l.cycle
}

// shortFor returns for how many cycles in a row demand is short that the cycle
// after the last one recorded leaves short.
func (l *Latencies) shortFor(k DemandKey) int {
	if x := l.short[k]; x != nil && x.last == l.cycle {
		return int(l.cycle-x.first) + 2
	}
	return 1
}

const (
	latencyPruneCycles     = 64
	latencyForgottenCycles = 360
)

// bound notes that a machine was bound for demand, and returns since when it waited.
func (l *Latencies) bound(k DemandKey) (at int64, waited bool) {
	x := l.since[k]
	if x == nil {
		return 0, false
	}
	delete(l.since, k)
	l.remember(k, 0)
	return x.at, true
}

// Reported notes when a roll-up came that is taken over now, Unix nanoseconds.
func (l *Latencies) Reported(cluster string, at int64) { l.reportedAt[cluster] = at }

// WaitsSince returns since when demand waits that an earlier process has heard
// of, 0 when it does not.
func (l *Latencies) WaitsSince(cluster string, p *model.Profile) int64 {
	if x := l.since[DemandKey{cluster, p.Fingerprint()}]; x != nil && x.recalled {
		return x.at
	}
	return 0
}

// remember keeps since when demand waits; 0 = it does not.
func (l *Latencies) remember(k DemandKey, at int64) {
	if l.memory == nil {
		return
	}
	var value []byte
	if at != 0 {
		value = strconv.AppendInt(nil, at, 10)
	}
	l.memory.Set(memory.Waiting+k.Cluster+"\x00"+stamps.FormatFingerprint(k.Fingerprint), value)
}

// Recall takes over since when demand waits from an earlier process; false says
// that it cannot be read.
func (l *Latencies) Recall(key string, value []byte) bool {
	cluster, text, _ := strings.Cut(key, "\x00")
	fingerprint, err := strconv.ParseUint(text, 16, 64)
	at, err2 := strconv.ParseInt(string(value), 10, 64)
	if err != nil || err2 != nil {
		return false
	}
	l.since[DemandKey{cluster, fingerprint}] = &since{at: at, recalled: true}
	return true
}
