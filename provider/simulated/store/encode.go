package store

import (
	"encoding/binary"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tonnage/tonnage/provider/simulated"
	providerwire "github.com/tonnage/tonnage/provider/wire"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/provider/wire"
)

// The file's buckets and keys.
var (
	bucketMachines = []byte("machines") // id → record
	bucketMarks    = []byte("marks")    // shard and machine → token
	bucketMeta     = []byte("meta")
	keyFormat      = []byte("format")
	keyCounters    = []byte("counters")
)

// format is what a file says that this package reads.
const format = "tonnage-provider-1"

// A machine is kept as a listing of one record, as it goes over the wire, and
// behind it what the wire has no fields for, under numbers that no listing has.
const (
	fieldRevision   = 16
	fieldOp         = 17
	fieldTransition = 18
	fieldDue        = 19
	fieldDoomed     = 20
)

// appendEntry appends an entry as it is kept. The first n bytes are what goes
// into a listing. A machine that names no allocatable resources is listed with its
// resources as such: readers of the protocol may ask for them. Metadata has only a machine
// that has a cluster, whatever a fleet keeps for a shard in the same process.
func appendEntry(dst []byte, e *simulated.Entry) (value []byte, n int) {
	rec := shard.Record{Machine: e.Machine, Metadata: e.Metadata}
	if len(rec.Machine.Allocatable) == 0 {
		rec.Machine.Allocatable = rec.Machine.Resources
	}
	if rec.Machine.Cluster == "" {
		rec.Metadata = nil
	}
	dst = providerwire.AppendRecord(dst, &rec)
	n = len(dst)
	doomed := uint64(0)
	if e.Doomed {
		doomed = 1
	}
	for _, f := range [...]struct {
		num protowire.Number
		v   uint64
	}{{fieldRevision, e.Revision}, {fieldOp, uint64(e.Op)}, {fieldTransition, e.Transition}, {fieldDue, uint64(e.Due)}, {fieldDoomed, doomed}} {
		if f.v != 0 {
			dst = protowire.AppendVarint(protowire.AppendTag(dst, f.num, protowire.VarintType), f.v)
		}
	}
	return dst, n
}

var errFormat = errors.New("is not what this program writes")

// decode reads an entry. The value must not change any more: the entry's texts
// are parts of it.
func decode(list *wire.List, value []byte) (e simulated.Entry, err error) {
	if err := list.Parse(value); err != nil {
		return e, err
	}
	if list.Len() != 1 {
		return e, errFormat
	}
	rec, err := list.Record(0)
	if err != nil {
		return e, err
	}
	e.Machine, e.Metadata = rec.Machine, rec.Metadata
	_, _, tag := protowire.ConsumeTag(value)
	_, size := protowire.ConsumeBytes(value[tag:])
	for rest := value[tag+size:]; len(rest) > 0; {
		num, typ, t := protowire.ConsumeTag(rest)
		if t < 0 || typ != protowire.VarintType {
			return e, errFormat
		}
		v, m := protowire.ConsumeVarint(rest[t:])
		if m < 0 {
			return e, errFormat
		}
		rest = rest[t+m:]
		switch num {
		case fieldRevision:
			e.Revision = v
		case fieldOp:
			e.Op = shard.Op(v)
		case fieldTransition:
			e.Transition = v
		case fieldDue:
			e.Due = int64(v)
		case fieldDoomed:
			e.Doomed = v != 0
		}
	}
	return e, nil
}

func encodeCounters(c simulated.Counters) []byte {
	var b []byte
	for _, v := range [...]uint64{c.Instance, c.Revision, c.Forgotten, c.Transition} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return b
}

func decodeCounters(b []byte) (c simulated.Counters, err error) {
	if len(b) != 32 {
		return c, fmt.Errorf("the counters: %w", errFormat)
	}
	at := func(i int) uint64 { return binary.BigEndian.Uint64(b[8*i:]) }
	return simulated.Counters{Instance: at(0), Revision: at(1), Forgotten: at(2), Transition: at(3)}, nil
}
