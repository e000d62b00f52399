package client

import (
	"context"
	"fmt"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/stats"
)

// bytesCodec writes messages as protobuf, and hands on those that come as they
// are.
type bytesCodec struct{ encoding.CodecV2 }

var codec = bytesCodec{encoding.GetCodecV2(protocodec.Name)}

// Unmarshal hands a message on where nobody changes it, since what is read of it
// later are parts of it: as a copy, or in the pieces in which it came, which no
// pool gets back then. A long one would be there twice otherwise.
func (bytesCodec) Unmarshal(data mem.BufferSlice, v any) error {
	switch into := v.(type) {
	case *[]byte:
		*into = data.Materialize()
	case *[][]byte:
		data.Ref()
		*into = make([][]byte, len(data))
		for i, b := range data {
			(*into)[i] = b.ReadOnlyData()
		}
	default:
		return fmt.Errorf("a message is read as bytes, not as %T", v)
	}
	return nil
}

// attempt is what is seen of one attempt on its way.
type attempt struct {
	sent     atomic.Bool // its head was handed to a connection
	answered atomic.Bool // the provider said how it ended
}

type attemptKey struct{}

// invoke makes one attempt of a call. The reply is *[]byte, or *[][]byte for
// pieces.
func (c *Client) invoke(ctx context.Context, method string, req, reply any) (*attempt, error) {
	seen := &attempt{}
	return seen, c.conn.Invoke(context.WithValue(ctx, attemptKey{}, seen), method, req, reply, grpc.ForceCodecV2(codec))
}

// observer notes what becomes of attempts and how many connections there were.
type observer struct{ connections *atomic.Uint64 }

// TagRPC is that of stats.Handler, and so are the others.
func (*observer) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC notes how far an attempt got.
func (*observer) HandleRPC(ctx context.Context, s stats.RPCStats) {
	seen, ok := ctx.Value(attemptKey{}).(*attempt)
	if !ok {
		return
	}
	switch s.(type) {
	case *stats.OutHeader:
		seen.sent.Store(true)
	case *stats.InTrailer:
		seen.answered.Store(true)
	}
}

// TagConn does nothing.
func (*observer) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn counts connections.
func (o *observer) HandleConn(_ context.Context, s stats.ConnStats) {
	if _, ok := s.(*stats.ConnBegin); ok {
		o.connections.Add(1)
	}
}
