package shard

import (
	"context"
	"errors"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard/internal/inventory"
)

// The errors of Operators.
var (
	// ErrNoSession says that the cluster's operator is not connected.
	ErrNoSession = errors.New("the cluster's operator is not connected")
	// ErrOperator says that the operator answered, and that it cannot.
	ErrOperator = errors.New("the cluster's operator refuses")
)

// Operators is what the shard asks of the clusters' operators and tells them.
// NodeState, Capacity, Connected and Count are called with the shard locked: they
// never block and never call the shard. So whoever implements them holds none
// of its own locks while it calls the shard. All methods may be called
// concurrently.
type Operators interface {
	// Connected tells whether the cluster's operator has a session. What is sent
	// to one that has none is lost: it hears all of it again when it connects,
	// by Shard.Resync.
	Connected(cluster string) bool
	// Count returns how many clusters have a session.
	Count() int
	// Bootstrap fetches what a machine needs to join the cluster. It waits for
	// the operator's answer until ctx ends. The errors wrap ErrNoSession,
	// ErrOperator, or the context's.
	Bootstrap(ctx context.Context, cluster string, profile *model.Profile) (Blob, error)
	// Cordon tells the operator that a machine is going to be drained, and
	// waits for its acknowledgement until ctx ends.
	Cordon(ctx context.Context, c Cordon) error
	// NodeState queues the news of one machine; a newer one of the same
	// machine may replace it.
	NodeState(u inventory.NodeState)
	// Capacity queues a hint; a newer one of the same cluster and fingerprint
	// may replace it.
	Capacity(h CapacityHint)
}

// Blob is what a machine needs to join a cluster.
type Blob struct {
	Data []byte // opaque
	// TTL is how long it is good for, counted from when it was asked for;
	// 0 = for ever.
	TTL time.Duration
}

// Cordon is the notice of a drain.
type Cordon struct {
	Cluster      string
	Machine      string
	GraceSeconds int32
	// PreemptorPriority is 0 for a drain that nobody preempts for.
	PreemptorPriority int32
}

// Confidence is how surely and soon a cluster could have more machines.
type Confidence uint8

// The confidences, numbered as on the wire.
const (
	ConfidenceUnspecified Confidence = iota
	ConfidenceNone                   // nothing matches
	ConfidenceLow
	ConfidenceMedium // only machines that would have to be created match
	ConfidenceHigh   // an Idle machine matches
)

// CapacityHint tells a cluster how many machines there are for one profile that
// it demands: Idle and Speculative ones that match every requirement. It is a
// hint; others may take them.
type CapacityHint struct {
	Cluster    string
	Profile    *model.Profile
	Count      int
	Confidence Confidence
	// CostPerHour is the least price of a matching Idle machine in dollars, 0 if
	// there is none.
	CostPerHour float64
}
