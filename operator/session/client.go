package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/api/frames"
	"github.com/tonnage/tonnage/operator/telemetry"
)

// The pauses between sessions, and what counts as one that lasted.
const (
	pauseMin    = 500 * time.Millisecond
	pauseMax    = 30 * time.Second
	stableAfter = 30 * time.Second
	// helloTimeout is how long the shard may take to greet.
	helloTimeout = 10 * time.Second
	// protocolVersion is what Hello says that the operator speaks.
	protocolVersion = "v1alpha1"
	// SettleAfterDefault is when a session has told everything that there was to
	// tell anew: a shard that was just started first lists its machines.
	SettleAfterDefault = time.Minute
)

// Demand is what the cluster asks for. The methods are called from one session
// at a time, Next and Acknowledged concurrently.
type Demand interface {
	// Begin is called before the first roll-up of a session.
	Begin()
	// Limit is called when the shard has told, at the beginning of a session and before
	// its first roll-up, what a roll-up may have; 0 = it has not told of that. offered is
	// the largest amount that one machine has of each resource, as quantities; nil = the
	// shard has not told, and what was told last holds.
	Limit(rows, gangs, sets, keys int, offered map[string]string)
	// Next returns the rows to send now. What it returns is sent. early: the roll-up
	// is not due yet; then it may be withheld, and nothing is sent.
	Next(early bool) (rows []*bigfleet.CapacityNeed, send bool)
	// Grown is sent to when the cluster asks for more than before; nil = never. It
	// is always the same channel.
	Grown() <-chan struct{}
	// Acknowledged is called for every acknowledgement of a roll-up.
	Acknowledged()
}

// Cluster is what the shard's messages act upon. An error is tried again. The
// methods may be called concurrently, but not for one machine.
type Cluster interface {
	// Begin is called when a session begins: every machine will be told anew.
	Begin()
	// Settled is called once when the session has lasted so long that every machine
	// was told.
	Settled(ctx context.Context) error
	// NodeState takes over what became of a machine.
	NodeState(ctx context.Context, update *bigfleet.NodeStateUpdate) error
	// Capacity takes over a hint.
	Capacity(ctx context.Context, update *bigfleet.AvailableCapacityUpdate) error
	// Reclaim begins to empty the node of a machine. It returns once nothing new
	// is scheduled there; started is false if the cluster has no such node.
	Reclaim(ctx context.Context, machine string, grace time.Duration) (started bool, err error)
	// Bootstrap answers with what a machine needs to join.
	Bootstrap(request *bigfleet.BootstrapRequest) *bigfleet.BootstrapBlobResponse
}

// Stream is a session's two directions. Both end when the context of the dial does.
type Stream interface {
	Send(*bigfleet.OperatorMessage) error
	Recv() (*bigfleet.ShardMessage, error)
}

// Inspector is a stream whose shard can be asked what it decided.
type Inspector interface {
	// Inspect asks about one cluster.
	Inspect(ctx context.Context, cluster string) ([]*bigfleet.NeedView, error)
}

// Config is what a client is made of.
type Config struct {
	ClusterID string
	Addresses []string // of shards, tried in turn; at least one
	// RollupInterval is how often the demand is reported at the least.
	RollupInterval time.Duration
	// SettleAfter is when the resynchronisation counts as over.
	SettleAfter time.Duration
	// LookInterval is how often the shard is asked what it decided about the cluster's needs, and Decided is told; 0 =
	// never. Streams that are no Inspector are not asked.
	LookInterval time.Duration
	Decided      func(views []*bigfleet.NeedView)
	// Dial opens a stream that lasts as long as ctx, and the connection under it
	// with it.
	Dial    func(ctx context.Context, address string) (Stream, error)
	Demand  Demand
	Cluster Cluster
	Log     *slog.Logger
	Metrics *telemetry.Metrics // may be nil
	// Now is what roll-ups are stamped with; nil = the wall clock.
	Now func() time.Time
}

// Client keeps a session. One Run at a time.
type Client struct {
	cfg Config
}

// New returns a client that has not dialled.
func New(cfg Config) *Client {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Client{cfg: cfg}
}

// Run keeps a session until ctx ends.
func (c *Client) Run(ctx context.Context) {
	pause := pauseMin
	for at := 0; ; {
		address := c.cfg.Addresses[at%len(c.cfg.Addresses)]
		began := time.Now()
		ended := c.once(ctx, address)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) >= stableAfter {
			pause = pauseMin
		} else {
			at++
		}
		wait := pause - rand.N(pause/2)
		c.cfg.Log.Warn("session ended", "shard", address, "error", ended, "nextIn", wait)
		c.cfg.Metrics.Reconnected()
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		pause = min(2*pause, pauseMax)
	}
}

// once holds one session until it fails.
func (c *Client) once(ctx context.Context, address string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	greeted := time.AfterFunc(helloTimeout, func() {
		cancel(fmt.Errorf("%s has not greeted within %s", address, helloTimeout))
	})
	defer greeted.Stop()
	stream, err := c.cfg.Dial(ctx, address)
	if err != nil {
		return cause(ctx, err)
	}
	s := newLive(c.cfg, stream)
	s.greeted = func(ack *bigfleet.Acknowledgement) {
		greeted.Stop()
		c.cfg.Log.Info("session began", "shard", address, "epoch", ack.ShardEpoch)
	}
	defer c.cfg.Metrics.Connected(false)
	return cause(ctx, s.run(ctx, cancel))
}

// cause is why the context ended, if it was ended for a reason.
func cause(ctx context.Context, err error) error {
	if why := context.Cause(ctx); why != nil && !errors.Is(why, context.Canceled) {
		return why
	}
	return err
}

// DialGRPC returns a Dial of real connections.
func DialGRPC(options ...grpc.DialOption) func(context.Context, string) (Stream, error) {
	return func(ctx context.Context, address string) (Stream, error) {
		conn, err := grpc.NewClient(address, options...)
		if err != nil {
			return nil, fmt.Errorf("shard address %q: %w", address, err)
		}
		context.AfterFunc(ctx, func() { _ = conn.Close() })
		stream, err := bigfleet.NewShardClient(conn).Session(ctx, grpc.ForceCodecV2(frames.Codec()))
		if err != nil {
			return nil, err
		}
		return inspected{stream, bigfleet.NewShardReadClient(conn)}, nil
	}
}
