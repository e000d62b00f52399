package shard

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard/stamps"
)

// Op is one of the four calls that change a machine.
type Op uint8

// The operations; OpAny stands for all of them where faults are described.
const (
	OpAny Op = iota
	OpCreate
	OpConfigure
	OpDrain
	OpDelete

	// NumOps is the number of values of Op.
	NumOps = int(OpDelete) + 1
)

var opNames = [NumOps]string{"any", "Create", "Configure", "Drain", "Delete"}

// String returns the operation's name as files spell it.
func (o Op) String() string { return opNames[o] }

// ParseOp returns the operation of that name, "any" included.
func ParseOp(name string) (Op, bool) {
	for i, n := range opNames {
		if n == name {
			return Op(i), true
		}
	}
	return OpAny, false
}

// Record is what a provider says of one machine. The machine's assignment and
// reservation are not the provider's to know: they travel in Metadata, which it
// stores and echoes unread.
type Record struct {
	Machine  model.Machine
	Metadata map[string]string // shared; must not be modified
	// Decoded is what Decode makes of Metadata, if somebody knows it already.
	Decoded *stamps.Decoded
	// LabelsNumber is a number that all have whose labels are these, and nobody else
	// in this process (see NumberLabels); 0 = there is none. Labels with a number are
	// known to be no longer than model.LabelsBytesMax.
	LabelsNumber uint64
}

// labelNumbers is the last number that was given to labels.
var labelNumbers atomic.Uint64

// NumberLabels returns a number for labels that many records share, which no others
// have.
func NumberLabels() uint64 { return labelNumbers.Add(1) }

// Batch is the records of a listing in the form in which they came, to be read
// one by one where there is need to. It is valid until it is Done or its
// provider lists again, and must not change before.
type Batch interface {
	// Len returns the number of records.
	Len() int
	// ID returns the id of record i; "" says that it cannot be read.
	ID(i int) string
	// Digest returns a number that says what record i says: a record with the
	// digest of the one that was last taken over need not be read. 0 = read it.
	Digest(i int) uint64
	// Record reads record i. The error refuses this record and no other. The
	// result is valid until the next call; its strings may be parts of a much
	// larger text.
	Record(i int) (*Record, error)
	// Done says that no more will be read: the batch lets go of its memory.
	Done()
}

// ListRequest asks for the machines that changed since a revision; without one
// for all.
type ListRequest struct {
	SinceRevision []byte
}

// ListResponse is the provider's view. With Full it is complete, and a machine
// that is not in it does not exist. Without, Removed names what is gone since
// the revision that was asked for.
type ListResponse struct {
	Records  []Record
	Batch    Batch // instead of Records, if not nil
	Removed  []string
	Revision []byte
	Full     bool
}

// CreateRequest turns a quota slot into a machine.
type CreateRequest struct {
	Machine  string
	Metadata map[string]string
}

// ConfigureRequest binds an idle machine to a cluster.
type ConfigureRequest struct {
	Machine  string
	Cluster  string
	Blob     []byte // what the machine needs to join, opaque
	Metadata map[string]string
}

// DrainRequest takes a machine out of its cluster within the grace.
type DrainRequest struct {
	Machine      string
	GraceSeconds int32
	Metadata     map[string]string
}

// DeleteRequest gives an idle machine back.
type DeleteRequest struct {
	Machine string
}

// How a call that changes a machine can fail, for errors.Is. An error that wraps
// none of these says that the provider was reached and did not do it.
var (
	// ErrFenced: the provider knows a newer process of this shard. Nothing was
	// done, nor will be done for any other call of this process: it must stop
	// changing machines, and mark none Failed for it.
	ErrFenced = errors.New("fenced: the provider knows a newer process of this shard")
	// ErrUnsent: the call never left this process. Nothing was done, and the
	// local record can be rolled back.
	ErrUnsent = errors.New("the call did not reach the provider")
	// ErrUncertain: the call left, and its answer never came or cannot be read.
	// Whether it was done shows in the next listing.
	ErrUncertain = errors.New("how the call ended is not known")
	// ErrNoMachine: the provider has no such machine.
	ErrNoMachine = errors.New("the provider has no such machine")
)

// Provider is what the shard drives machines through. A call that changes a
// machine answers at once with its record, as a rule in the transitional
// state; how it ends shows in a later List. Repeating a call whose work is
// under way or done is a success that starts nothing. All methods may be
// called concurrently.
type Provider interface {
	List(ctx context.Context, req ListRequest) (ListResponse, error)
	Create(ctx context.Context, req CreateRequest) (Record, error)
	Configure(ctx context.Context, req ConfigureRequest) (Record, error)
	Drain(ctx context.Context, req DrainRequest) (Record, error)
	Delete(ctx context.Context, req DeleteRequest) (Record, error)
}
