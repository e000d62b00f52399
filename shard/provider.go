package shard

import (
	"context"

	"github.com/tonnage/tonnage/engine/model"
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
