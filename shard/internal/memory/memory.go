// Package memory is what a shard keeps for the process after it.
package memory

import "context"

// Memory outlives the process: a map from keys to values. Set never waits; it
// returns a position that Durable can wait for, 0 when nothing changed. An empty
// value forgets the key. All calls visit for what an earlier process left, and
// is called before anything is set.
type Memory interface {
	Set(key string, value []byte) (position uint64)
	Durable(ctx context.Context, position uint64) error
	All(visit func(key string, value []byte))
}

// The first byte of a key says what is kept under it. What is remembered is what a provider does not give back: it echoes stamps
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
	Machine  = "m"
	Waiting  = "w"
	Domain   = "d"
	Given    = "g"
	Received = "r"
	Adoption = "a"
	Asked    = "q"
)

// DomainPrefix begins the keys of domains. A memory that loses them must say so, not
// forget them: a shard without any takes up whatever its provider lists.
const DomainPrefix = Domain
