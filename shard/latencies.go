package shard

import (
	"strconv"
	"strings"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard/stamps"
)

// WaitingMax is how many entries the ledgers of waiting demand hold at most.
const WaitingMax = 1 << 20

// latencies is the ledger behind the provisioning latency: since when demand
// waits, by cluster and fingerprint. An entry is observed once, by the first
// machine that is bound for it, and lives no longer than the demand is short.
type latencies struct {
	memory     Memory           // nil = nothing outlives the process
	reportedAt map[string]int64 // when the roll-ups came that were taken over since the last cycle that decided
	since      map[demandKey]*since
	short      map[demandKey]*short
	cycle      uint64
}

// short is demand that was not met in the cycles from first to last.
type short struct{ first, last uint64 }

type demandKey struct {
	cluster     string
	fingerprint uint64
}

type since struct {
	at       int64
	seen     uint64
	recalled bool // from an earlier process
}

func newLatencies(memory Memory) latencies {
	return latencies{memory: memory, reportedAt: map[string]int64{}, since: map[demandKey]*since{}, short: map[demandKey]*short{}}
}

// record notes the Needs that wait for machines: short, or with machines on
// their way. They wait since the roll-up that brought them. It comes
// after the actions: what they bind at once ends an earlier wait, not this one.
// Of the plan it reads nothing that changes as machines move. did are its deeds.
func (l *latencies) record(now int64, plan *engine.Plan, did []deeds) {
	l.cycle++
	type seen struct {
		demandKey
		short bool
	}
	var recent [recentSlots]seen // those of a cluster stand together
	for i := range plan.Len() {
		satisfied := plan.Satisfied(i)
		if satisfied && did[i]&acquires == 0 || int(plan.Fold(i)) != i {
			continue
		}
		cluster, _ := plan.Identity(i)
		k := demandKey{cluster, plan.Profile(i).Fingerprint()}
		slot := &recent[k.fingerprint%recentSlots]
		known := slot.demandKey == k
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
func (l *latencies) prune() {
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
func (l *latencies) noteShort(k demandKey) {
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
func (l *latencies) shortFor(k demandKey) int {
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
func (l *latencies) bound(k demandKey) (at int64, waited bool) {
	x := l.since[k]
	if x == nil {
		return 0, false
	}
	delete(l.since, k)
	l.remember(k, 0)
	return x.at, true
}

// waitsSince returns since when demand waits that an earlier process has heard
// of, 0 when it does not.
func (l *latencies) waitsSince(cluster string, p *model.Profile) int64 {
	if x := l.since[demandKey{cluster, p.Fingerprint()}]; x != nil && x.recalled {
		return x.at
	}
	return 0
}

// remember keeps since when demand waits; 0 = it does not.
func (l *latencies) remember(k demandKey, at int64) {
	if l.memory == nil {
		return
	}
	var value []byte
	if at != 0 {
		value = strconv.AppendInt(nil, at, 10)
	}
	l.memory.Set(memoryWaiting+k.cluster+"\x00"+stamps.FormatFingerprint(k.fingerprint), value)
}

// recall takes over since when demand waits from an earlier process; false says
// that it cannot be read.
func (l *latencies) recall(key string, value []byte) bool {
	cluster, text, _ := strings.Cut(key, "\x00")
	fingerprint, err := strconv.ParseUint(text, 16, 64)
	at, err2 := strconv.ParseInt(string(value), 10, 64)
	if err != nil || err2 != nil {
		return false
	}
	l.since[demandKey{cluster, fingerprint}] = &since{at: at, recalled: true}
	return true
}
