// Package client finds the leader among the replicas of a coordinator: each of
// them may be asked, a follower names the leader, and one that is down or silent is
// passed over.
package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
)

// The detail by which a follower names the leader.
const (
	detailReason = "NOT_LEADER"
	detailLeader = "leader"
)

// pause is between two rounds over all replicas.
const pause = 100 * time.Millisecond

// reachMax is how long a replica may take to be connected before the next one is asked. The
// connection goes on being made, for the round after.
const reachMax = 2 * time.Second

// connectionsMax bounds the addresses that leaders may send a client to.
const connectionsMax = 16

// Client talks to the replicas at some addresses.
type Client struct {
	options []grpc.DialOption

	mu    sync.Mutex
	known []string // in the order to try; the one that answered last is first
	conns map[string]*grpc.ClientConn
}

// New returns a client of the replicas in a comma-separated list of host:port.
// Nothing is dialled yet.
func New(addresses string, options ...grpc.DialOption) (*Client, error) {
	c := &Client{options: options, conns: map[string]*grpc.ClientConn{}}
	for _, a := range strings.Split(addresses, ",") {
		a = strings.TrimSpace(a)
		if a == "" {
			continue
		}
		if _, _, err := net.SplitHostPort(a); err != nil {
			return nil, fmt.Errorf("address of a coordinator %q: host:port is expected: %w", a, err)
		}
		c.known = append(c.known, a)
	}
	if len(c.known) == 0 {
		return nil, errors.New("no address of a coordinator is given")
	}
	return c, nil
}

// Close ends all connections.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		_ = conn.Close()
	}
	clear(c.conns)
}

// Call makes a call on the leader: on one replica after the other, until one
// does not say that it does not lead or cannot be reached, or ctx ends. A call
// that a replica did not answer may have had its effect, and is made again.
func (c *Client) Call(ctx context.Context, call func(context.Context, grpc.ClientConnInterface) error) error {
	var last error
	for {
		tried := map[string]bool{}
		for next := c.first(); next != ""; next = c.untried(tried) {
			tried[next] = true
			for next != "" {
				conn, err := c.conn(next)
				if err != nil {
					return err
				}
				if err = reach(ctx, conn); err == nil {
					err = call(ctx, conn)
				}
				leader, again := redirect(err)
				if !again {
					c.prefer(next)
					return err
				}
				if ctx.Err() == nil || last == nil {
					last = fmt.Errorf("%s: %w", next, err)
				}
				if next = leader; tried[next] {
					next = ""
				}
				if next != "" {
					tried[next] = true
				}
			}
			if ctx.Err() != nil {
				return last
			}
		}
		select {
		case <-ctx.Done():
			return last
		case <-time.After(pause):
		}
	}
}

// reach waits until a connection is there or has failed: a call on one that is being made would
// wait for as long as ctx lasts, and of a machine that is off nothing comes back.
func reach(ctx context.Context, conn *grpc.ClientConn) error {
	ctx, cancel := context.WithTimeout(ctx, reachMax)
	defer cancel()
	for {
		s := conn.GetState()
		if s != connectivity.Idle && s != connectivity.Connecting {
			return nil
		}
		conn.Connect()
		if !conn.WaitForStateChange(ctx, s) {
			return status.Error(codes.Unavailable, "it does not answer")
		}
	}
}

// redirect tells whether another replica should be asked, and which, if the
// answer says so.
func redirect(err error) (leader string, again bool) {
	s, ok := status.FromError(err)
	if !ok || err == nil {
		return "", false
	}
	switch s.Code() {
	case codes.Unavailable:
		return "", true
	case codes.FailedPrecondition:
		for _, d := range s.Details() {
			if e, ok := d.(*errdetails.ErrorInfo); ok && e.GetReason() == detailReason {
				return e.GetMetadata()[detailLeader], true
			}
		}
		return "", s.Message() == "not leader" // a replica that names nobody
	}
	return "", false
}

func (c *Client) first() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known[0]
}

func (c *Client) untried(tried map[string]bool) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.known {
		if !tried[a] {
			return a
		}
	}
	return ""
}

// prefer puts an address first.
func (c *Client) prefer(address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known[0] == address {
		return
	}
	c.known = slices.DeleteFunc(c.known, func(a string) bool { return a == address })
	c.known = slices.Insert(c.known, 0, address)
	if len(c.known) > connectionsMax {
		c.known = c.known[:connectionsMax]
	}
}

func (c *Client) conn(address string) (*grpc.ClientConn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn := c.conns[address]; conn != nil {
		return conn, nil
	}
	conn, err := grpc.NewClient(address, c.options...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	c.conns[address] = conn
	return conn, nil
}

// Addresses are the replicas that the client knows of.
func (c *Client) Addresses() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.known)
}
