package shard

import (
	"context"
	"log/slog"
)

// Memory outlives the process: a map from keys to values. Set never waits; it
// returns a position that Durable can wait for, 0 when nothing changed. An empty
// value forgets the key. All calls visit for what an earlier process left, and
// is called before anything is set.
type Memory interface {
	Set(key string, value []byte) (position uint64)
	Durable(ctx context.Context, position uint64) error
	All(visit func(key string, value []byte))
}

// What is remembered is what a provider does not give back: it echoes stamps
// from the time that a machine is being configured until it has drained. So of
// machines in other states the shard keeps stamps, reservation and clocks
// itself; and since when demand waits, which no roll-up says.
//
//	"m" machine id                        recollection
//	"w" cluster NUL fingerprint           Unix nanoseconds: waits since
//	"d" key NUL value                     1: the domain is assigned to this shard
//	"g" machine id                        move, receiver: it was given away
//	"r" machine id                        instruction: it was received
//	"a" instruction                       Unix nanoseconds: machines were taken over for it
//	"q" cluster                           asked: what it asked for last
const (
	memoryMachine  = "m"
	memoryWaiting  = "w"
	memoryDomain   = "d"
	memoryGiven    = "g"
	memoryReceived = "r"
	memoryAdoption = "a"
	memoryAsked    = "q"
)

// DomainPrefix begins the keys of domains. A memory that loses them must say so, not
// forget them: a shard without any takes up whatever its provider lists.
const DomainPrefix = memoryDomain

// recall reads what an earlier process left into the rooms.
func recall(memory Memory, machines *inventory, own *ownership, in *intake, log *slog.Logger) {
	if memory == nil {
		return
	}
	unread := 0
	memory.All(func(key string, value []byte) {
		kind, rest := key[:min(1, len(key))], key[min(1, len(key)):]
		var known bool
		switch kind {
		case memoryMachine:
			known = machines.recall(rest, value)
		case memoryWaiting:
			known = in.waits.recall(rest, value)
		case memoryAsked:
			known = in.recall(rest, value)
		default:
			known = own.recall(kind, rest, value)
		}
		if !known {
			unread++
		}
	})
	own.endReleases()
	if unread > 0 {
		log.Warn("part of what an earlier process left cannot be read", "entries", unread)
	}
}
