package client

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/shard"
)

// List asks for what has changed since a revision, if the client uses cursors
// and this one is still good, else for everything.
func (c *Client) List(ctx context.Context, req shard.ListRequest) (out shard.ListResponse, err error) {
	start := time.Now()
	defer func() { c.metrics.ended("List", start, err) }()
	c.listMu.Lock()
	defer c.listMu.Unlock()
	ctx, cancel := within(ctx, c.o.ListTimeout)
	defer cancel()
	since := req.SinceRevision
	if !c.o.Cursors || c.cursorOf == 0 || c.cursorOf != c.connections.Load() {
		since = nil
	}
	out, err = c.listSince(ctx, since)
	switch {
	case len(since) == 0 || ctx.Err() != nil || retryable(err):
		return out, err
	case err != nil:
		// A provider that minds cursors may have one that it cannot read.
		c.o.Log.Warn("listing what changed failed; everything is listed", "error", err)
	case c.cursorOf != 0:
		return out, nil
	}
	// Else the cursor went over another connection than it came.
	return c.listSince(ctx, nil)
}

// listSince lists over one connection.
func (c *Client) listSince(ctx context.Context, since []byte) (shard.ListResponse, error) {
	over := c.connections.Load()
	c.cursorOf = 0
	var msg [][]byte
	err := c.look(ctx, pb.CapacityProvider_List_FullMethodName, "List", &pb.ListFilter{SinceRevision: since}, &msg)
	if err == nil {
		err = c.list.ParsePieces(msg)
	}
	if err != nil {
		return shard.ListResponse{}, fmt.Errorf("provider: list machines: %w", err)
	}
	c.metrics.listed(msg)
	if c.connections.Load() == over {
		c.cursorOf = over
	}
	out := c.list.Response(len(since) == 0)
	if !c.o.Cursors {
		out.Revision = nil
	}
	return out, nil
}

// Get returns what the provider says of one machine.
func (c *Client) Get(ctx context.Context, machine string) (rec shard.Record, err error) {
	start := time.Now()
	defer func() { c.metrics.ended("Get", start, err) }()
	ctx, cancel := within(ctx, c.o.CallTimeout)
	defer cancel()
	var msg []byte
	err = c.look(ctx, pb.CapacityProvider_Get_FullMethodName, "Get", &pb.MachineRef{Id: machine}, &msg)
	if err == nil {
		rec, err = c.readMachine(machine, msg)
	}
	if status.Code(err) == codes.NotFound {
		err = fmt.Errorf("%w: %w", shard.ErrNoMachine, err)
	}
	if err != nil {
		return shard.Record{}, fmt.Errorf("provider: get machine %q: %w", machine, err)
	}
	return rec, nil
}

func (c *Client) readMachine(machine string, msg []byte) (shard.Record, error) {
	c.ackMu.Lock()
	defer c.ackMu.Unlock()
	if err := c.ack.ParseMachine(msg); err != nil {
		return shard.Record{}, err
	}
	return c.onlyRecord(machine)
}

// look makes a call that changes nothing, again when nobody answers.
func (c *Client) look(ctx context.Context, method, name string, req, reply any) error {
	for n := 1; ; n++ {
		c.metrics.attempt(name)
		_, err := c.invoke(ctx, method, req, reply)
		if err == nil || n == listAttempts || status.Code(err) != codes.Unavailable || !c.wait(ctx, n) {
			return err
		}
	}
}
