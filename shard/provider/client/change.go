package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/provider/epoch"
)

// change is a call that changes a machine.
type change struct {
	op      shard.Op
	method  string
	machine string
	request func(epoch.Token) any
	// done tells of a machine whether the call has been carried out, or is
	// being.
	done func(*model.Machine) bool
}

// at returns what tells machines in one of two states.
func at(during, to model.State) func(*model.Machine) bool {
	return func(m *model.Machine) bool { return m.State == during || m.State == to }
}

// Create turns a quota slot into a machine. The metadata stays here.
func (c *Client) Create(ctx context.Context, req shard.CreateRequest) (shard.Record, error) {
	return c.change(ctx, &change{
		op: shard.OpCreate, method: pb.CapacityProvider_Create_FullMethodName, machine: req.Machine,
		request: func(t epoch.Token) any {
			return &pb.CreateRequest{MachineId: req.Machine, ShardId: c.o.Shard, ShardEpoch: t.Epoch, SequenceNumber: t.Sequence}
		},
		done: at(model.Creating, model.Idle),
	})
}

// Configure binds an idle machine to a cluster. The provider keeps the metadata
// and echoes it while the machine is bound.
func (c *Client) Configure(ctx context.Context, req shard.ConfigureRequest) (shard.Record, error) {
	bound := at(model.Configuring, model.Configured)
	return c.change(ctx, &change{
		op: shard.OpConfigure, method: pb.CapacityProvider_Configure_FullMethodName, machine: req.Machine,
		request: func(t epoch.Token) any {
			return &pb.ConfigureRequest{
				MachineId: req.Machine, ClusterId: req.Cluster, BootstrapBlob: req.Blob, ShardMetadata: req.Metadata,
				ShardId: c.o.Shard, ShardEpoch: t.Epoch, SequenceNumber: t.Sequence,
			}
		},
		done: func(m *model.Machine) bool { return bound(m) && m.Cluster == req.Cluster },
	})
}

// Drain takes a machine out of its cluster. The metadata stays here.
func (c *Client) Drain(ctx context.Context, req shard.DrainRequest) (shard.Record, error) {
	return c.change(ctx, &change{
		op: shard.OpDrain, method: pb.CapacityProvider_Drain_FullMethodName, machine: req.Machine,
		request: func(t epoch.Token) any {
			return &pb.DrainRequest{
				MachineId: req.Machine, GracePeriodSeconds: int64(req.GraceSeconds),
				ShardId: c.o.Shard, ShardEpoch: t.Epoch, SequenceNumber: t.Sequence,
			}
		},
		done: at(model.Draining, model.Idle),
	})
}

// Delete gives an idle machine back.
func (c *Client) Delete(ctx context.Context, req shard.DeleteRequest) (shard.Record, error) {
	return c.change(ctx, &change{
		op: shard.OpDelete, method: pb.CapacityProvider_Delete_FullMethodName, machine: req.Machine,
		request: func(t epoch.Token) any {
			return &pb.DeleteRequest{MachineId: req.Machine, ShardId: c.o.Shard, ShardEpoch: t.Epoch, SequenceNumber: t.Sequence}
		},
		done: at(model.Deleting, model.Speculative),
	})
}

// change makes a call, and says in its error what the shard may believe.
func (c *Client) change(ctx context.Context, x *change) (rec shard.Record, err error) {
	start := time.Now()
	defer func() { c.metrics.ended(x.op.String(), start, err) }()
	defer func() {
		if err != nil {
			err = fmt.Errorf("provider: %s machine %q: %w", x.op, x.machine, err)
		}
	}()
	ctx, cancel := within(ctx, c.o.CallTimeout)
	defer cancel()
	if err := c.lanes.enter(ctx, x.machine); err != nil {
		return shard.Record{}, fmt.Errorf("%w: waiting for another call for the machine: %w", shard.ErrUnsent, err)
	}
	defer c.lanes.leave(x.machine)
	return c.try(ctx, x)
}

// try makes attempts until one is answered.
func (c *Client) try(ctx context.Context, x *change) (shard.Record, error) {
	maybeDone := false // by an attempt that nobody answered
	for n := 1; ; n++ {
		if f := c.held(); f != nil {
			return shard.Record{}, fmt.Errorf("not sent: %w", f.why)
		}
		token := c.o.Epoch.Next()
		reply, seen, err := c.attempt(ctx, x, token)
		if err == nil {
			return c.taken(ctx, x, reply)
		}
		// Left without an answer that settles it. A connection that breaks may
		// show as any error.
		open := seen.sent.Load() && (!seen.answered.Load() || retryable(err))
		maybeDone = maybeDone || open
		if !open && seen.sent.Load() {
			return c.refused(ctx, x, token, n, err, maybeDone)
		}
		if n == c.o.Attempts || !open && !retryable(err) || !c.wait(ctx, n) {
			return shard.Record{}, unanswered(n, maybeDone, err)
		}
		c.o.Log.Debug("call to the provider is tried again", "op", x.op, "machine", x.machine, "attempt", n+1, "error", err)
	}
}

// attempt makes one attempt.
func (c *Client) attempt(ctx context.Context, x *change, token epoch.Token) (reply []byte, seen *attempt, err error) {
	c.metrics.attempt(x.op.String())
	ctx, cancel := context.WithTimeout(ctx, c.o.AttemptTimeout)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, epoch.FenceKey, epoch.FenceShard)
	seen, err = c.invoke(ctx, x.method, x.request(token), &reply)
	return reply, seen, err
}

// retryable tells of an answer, or an attempt that did not leave, whether
// another attempt may do better.
func retryable(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Aborted, codes.ResourceExhausted:
		return true
	}
	return false
}

func unanswered(attempts int, maybeDone bool, err error) error {
	class := shard.ErrUnsent
	if maybeDone {
		class = shard.ErrUncertain
	}
	return fmt.Errorf("%w (%d attempts): %w", class, attempts, err)
}

// wait waits before the attempt after the n-th; false when time is up.
func (c *Client) wait(ctx context.Context, n int) bool {
	if ctx.Err() != nil {
		return false
	}
	d := c.o.Backoff
	for range n - 1 {
		d = min(2*d, BackoffMax)
	}
	// Callers that failed together do not come back together.
	d = d/2 + time.Duration(rand.Int64N(int64(d/2)+1))
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// refused deals with an attempt that the provider turned down.
func (c *Client) refused(ctx context.Context, x *change, token epoch.Token, attempts int, err error, maybeDone bool) (shard.Record, error) {
	code := status.Code(err)
	switch code {
	case codes.FailedPrecondition:
		return shard.Record{}, c.stop(token, err)
	case codes.NotFound:
		return shard.Record{}, fmt.Errorf("%w: %w", shard.ErrNoMachine, err)
	case codes.PermissionDenied, codes.Unauthenticated:
		// It is not the machine that is at fault.
		return shard.Record{}, unanswered(attempts, maybeDone, err)
	}
	if !maybeDone && code != codes.AlreadyExists {
		return shard.Record{}, err
	}
	// An earlier attempt may be why this one is refused.
	rec, getErr := c.Get(ctx, x.machine)
	switch {
	case getErr != nil:
		return shard.Record{}, fmt.Errorf("%w: %w; and then: %w", shard.ErrUncertain, err, getErr)
	case x.done(&rec.Machine):
		return rec, nil
	}
	return shard.Record{}, err
}

// stop holds back all calls from now on.
func (c *Client) stop(token epoch.Token, err error) error {
	f := &fence{epoch: token.Epoch, why: fmt.Errorf("%w: %w", shard.ErrFenced, err)}
	if token.Epoch == c.o.Epoch.Epoch() { // else Renew has been here meanwhile
		c.fenced.CompareAndSwap(nil, f)
	}
	return f.why
}

// taken reads the answer of a call that was carried out; if it says nothing of
// the machine, the machine is asked.
func (c *Client) taken(ctx context.Context, x *change, reply []byte) (shard.Record, error) {
	rec, err := c.readAck(x.machine, reply)
	if err == nil {
		return rec, nil
	}
	rec, getErr := c.Get(ctx, x.machine)
	if getErr != nil {
		return shard.Record{}, fmt.Errorf("%w: it was carried out, but %w; and then: %w", shard.ErrUncertain, err, getErr)
	}
	return rec, nil
}

func (c *Client) readAck(machine string, reply []byte) (shard.Record, error) {
	c.ackMu.Lock()
	defer c.ackMu.Unlock()
	if _, err := c.ack.ParseAck(reply); err != nil {
		return shard.Record{}, err
	}
	return c.onlyRecord(machine)
}

var errNoRecord = errors.New("the answer has no machine")

// onlyRecord returns the record of the answer that was parsed.
func (c *Client) onlyRecord(machine string) (shard.Record, error) {
	if c.ack.Len() == 0 {
		return shard.Record{}, errNoRecord
	}
	rec, err := c.ack.Record(0)
	if err != nil {
		return shard.Record{}, err
	}
	if rec.Machine.ID != machine {
		return shard.Record{}, fmt.Errorf("the answer is of machine %q", strings.Clone(rec.Machine.ID))
	}
	return *rec, nil
}
