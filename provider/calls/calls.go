package calls

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/provider/epoch"
)

// The errors of a Backend, beside shard.ErrFenced, the Invalid of a Call and those of a context.
var (
	ErrNotFound = errors.New("no such machine")
	// ErrPosition is returned for a call that the machine's state does not
	// allow: the caller acted on a wrong view.
	ErrPosition = errors.New("the machine's state does not allow the call")
	// ErrClosed is returned for calls to a backend that was closed.
	ErrClosed = errors.New("the store is closed")
	// ErrBroken is returned once the file could not be written.
	ErrBroken = errors.New("the store's file cannot be written")
	// ErrFull is returned for a call whose token there is no place for.
	ErrFull = fmt.Errorf("tokens of more than %d pairs of shard and machine", TokensMax)
)

// Backend keeps machines and answers calls. Safe for concurrent use. What it answers and
// lists is durable.
type Backend interface {
	// Do carries out a call; it checks the token, the machine, Call.Invalid, whether it is a
	// repeat, and the position, in this order. When the error is ctx's, the call may be carried out
	// all the same; with others it is not.
	Do(ctx context.Context, c *Call) (Answer, error)
	// Get returns a bigfleet.v1alpha1.Machine, which must not be changed. The error wraps
	// ErrNotFound, ErrBroken or ErrClosed.
	Get(id string) ([]byte, error)
	// List returns a bigfleet.v1alpha1.MachineList, and whether it is everything there
	// is, but for the filter. A list that Max cuts off holds the machines that
	// changed first, and its cursor goes on behind them.
	List(f ListFilter) (msg []byte, full bool, err error)
	// States returns how many machines there are in each state.
	States() [model.NumStates]int
	Stats() Stats
}

// Call is one of the four calls that change a machine.
type Call struct {
	Op       shard.Op
	Machine  string
	Cluster  string            // Configure only
	Metadata map[string]string // Configure only; must not be changed afterwards
	Blob     []byte            // Configure only: what the machine starts with; must not be changed
	Grace    time.Duration     // Drain only
	// Shard and Token say who calls; all zero bypasses the fence.
	Shard string
	Token epoch.Token
	// WholeShard has the epoch be no lower than any that passed for the shard, whatever the
	// machine; else the fence is that of the machine alone.
	WholeShard bool
	// Invalid is what is wrong with the other arguments, nil = nothing. It refuses
	// the call after the token and the machine's id were looked at.
	Invalid error
}

// Answer is what a call returns.
type Answer struct {
	Operation string
	Machine   []byte // bigfleet.v1alpha1.Machine; must not be changed
}

// ListFilter says what to list.
type ListFilter struct {
	Since  []byte        // a cursor; empty, foreign or too old lists everything
	States []model.State // empty = all
	Max    int           // records at most, 0 = all
}

// Stats counts what a backend's file cost.
type Stats struct {
	Transactions uint64
	Calls        uint64
	Ended        uint64        // transitions
	DiskTime     time.Duration // spent in transactions, in sum
	Tokens       int
}
