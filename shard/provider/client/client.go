package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/tonnage/tonnage/internal/mtls"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/provider/epoch"
	"github.com/tonnage/tonnage/shard/provider/wire"
)

// The defaults and limits of Options.
const (
	CallTimeoutDefault    = 30 * time.Second
	ListTimeoutDefault    = 2 * time.Minute
	AttemptTimeoutDefault = 10 * time.Second
	BackoffDefault        = 100 * time.Millisecond
	BackoffMax            = 5 * time.Second
	AttemptsDefault       = 4
	AttemptsMax           = 100
	listAttempts          = 2 // the next cycle lists again
)

// redial is how long after a connection failed the next one is tried: a
// provider that is back is not to be left alone for minutes.
var redial = backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: BackoffMax}

// Options are what a client is made with. Zero stands for the default.
type Options struct {
	Address string      // host:port of the provider
	Shard   string      // this shard's id; not empty
	Epoch   *epoch.File // this process's epoch
	TLS     *mtls.Material
	Server  mtls.Server // what the provider's certificate must show, if TLS is not nil
	// Cursors asks for what has changed, where the provider can tell.
	Cursors bool
	// CallTimeout and ListTimeout end calls whose context has no deadline.
	CallTimeout time.Duration
	ListTimeout time.Duration
	// AttemptTimeout ends one attempt of a call that changes a machine.
	AttemptTimeout time.Duration
	// Attempts is how often such a call is tried, Backoff the wait before the
	// second attempt; each further wait is twice as long, up to BackoffMax.
	Attempts int
	Backoff  time.Duration
	Log      *slog.Logger
	// Metrics count what calls do; nil = nobody does. See NewMetrics.
	Metrics *Metrics
}

// complete fills in the defaults, and returns every fault.
func (o *Options) complete() error {
	for _, x := range [...]struct {
		value   *time.Duration
		instead time.Duration
	}{
		{&o.CallTimeout, CallTimeoutDefault}, {&o.ListTimeout, ListTimeoutDefault},
		{&o.AttemptTimeout, AttemptTimeoutDefault}, {&o.Backoff, BackoffDefault},
	} {
		if *x.value == 0 {
			*x.value = x.instead
		}
	}
	if o.Attempts == 0 {
		o.Attempts = AttemptsDefault
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	var faults []error
	if o.Address == "" {
		faults = append(faults, errors.New("address: must not be empty"))
	}
	if o.Shard == "" {
		faults = append(faults, errors.New("shard: must not be empty; providers do not fence calls without one"))
	}
	if o.Epoch == nil {
		faults = append(faults, errors.New("epoch: must be set"))
	}
	if o.Attempts < 1 || o.Attempts > AttemptsMax {
		faults = append(faults, fmt.Errorf("attempts: must be between 1 and %d, got %d", AttemptsMax, o.Attempts))
	}
	if min(o.CallTimeout, o.ListTimeout, o.AttemptTimeout, o.Backoff) <= 0 {
		faults = append(faults, fmt.Errorf("callTimeout, listTimeout, attemptTimeout, backoff: must be positive, got %v, %v, %v, %v",
			o.CallTimeout, o.ListTimeout, o.AttemptTimeout, o.Backoff))
	}
	return errors.Join(faults...)
}

// Client is a provider in another process. Safe for concurrent use, but for
// List: what it returns is good until it is called again.
type Client struct {
	o       Options
	conn    *grpc.ClientConn
	metrics *Metrics
	lanes   lanes
	fenced  atomic.Pointer[fence]
	// connections counts those that were made.
	connections atomic.Uint64

	ackMu sync.Mutex
	ack   wire.List // of answers, for the sets that they share

	listMu   sync.Mutex
	list     wire.List
	cursorOf uint64 // the connection that the last cursor came over, 0 = none
}

var _ shard.Provider = (*Client)(nil)

// fence is why nothing leaves any more.
type fence struct {
	epoch int64 // of the call that was refused
	why   error
}

// New returns a client. It connects when it is first called.
func New(o Options) (*Client, error) {
	if err := o.complete(); err != nil {
		return nil, fmt.Errorf("provider client: %w", err)
	}
	c := &Client{o: o, metrics: o.Metrics}
	options := append(o.TLS.DialOptionsTo(o.Server),
		grpc.WithDisableRetry(), // attempts have tokens of their own
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: redial, MinConnectTimeout: o.AttemptTimeout}),
		grpc.WithStatsHandler(&observer{connections: &c.connections}))
	conn, err := grpc.NewClient(o.Address, options...)
	if err != nil {
		return nil, fmt.Errorf("provider client: address %s: %w", o.Address, err)
	}
	c.conn = conn
	return c, nil
}

// Close ends the connection. Calls under way fail.
func (c *Client) Close() error { return c.conn.Close() }

// Fenced tells whether calls are held back since the provider refused one.
func (c *Client) Fenced() bool { return c.held() != nil }

// held returns why calls are held back, nil when they are not. A newer epoch
// ends it, whoever read the file.
func (c *Client) held() *fence {
	f := c.fenced.Load()
	if f != nil && c.o.Epoch.Epoch() > f.epoch {
		c.fenced.CompareAndSwap(f, nil)
		return nil
	}
	return f
}

// Renew lets calls leave again after a fenced answer, if the epoch file holds a
// newer epoch by now; it is shard.Deps.Renew. The error says what to do.
func (c *Client) Renew(context.Context) error {
	f := c.held()
	if f == nil {
		return nil
	}
	if _, err := c.o.Epoch.Reread(); err != nil {
		return err
	}
	if c.held() == nil {
		return nil
	}
	return fmt.Errorf("epoch %d of shard %q was refused, and the epoch file holds no newer one; stop this process if another one "+
		"runs as this shard, else write the epoch that the provider knows into the file: %w", f.epoch, c.o.Shard, f.why)
}

// within gives a context without a deadline one.
func within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, limit)
}
