package session

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tonnage/tonnage/api/frames"
	"github.com/tonnage/tonnage/internal/inbound"
)

// Field numbers of OperatorMessage.
const (
	frameHello             protowire.Number = 1
	frameRollup            protowire.Number = frames.FieldRollup
	frameBootstrapResponse protowire.Number = 3
	frameReclaimAck        protowire.Number = 4
)

// frame is an OperatorMessage as it came: what it carries, in bytes.
type frame struct {
	kind protowire.Number // 0 = nothing that is known
	body []byte
	held mem.Buffer // where body lies, when it lies in a buffer of the transport
}

// free gives the buffer back; body is gone then.
func (f *frame) free() {
	if f.held != nil {
		f.held.Free()
	}
	*f = frame{}
}

// parse finds what the message carries. As with any member of a oneof, the
// last one there is counts, and one that comes in parts is all of them.
func (f *frame) parse(message []byte) error {
	c := cursor{buf: message}
	for c.next() {
		if c.typ != protowire.BytesType || c.num < frameHello || c.num > frameReclaimAck {
			continue
		}
		if f.kind == c.num {
			f.body = append(f.body[:len(f.body):len(f.body)], c.bytes...)
		} else {
			f.kind, f.body = c.num, c.bytes
		}
	}
	if c.err != nil {
		return fmt.Errorf("the message %w", c.err)
	}
	return nil
}

// codec hands the bytes of a frame on instead of making objects of them.
// Everything else is as always.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(protocodec.Name)} }

// buffers lends what frames lie in until they are read, at most twice as long as
// the frame. gRPC's own pool lends a megabyte for what is longer than 32 KiB, as any
// roll-up of some hundred rows is, and a thousand may wait at a time.
var buffers = func() mem.BufferPool {
	var sizes []int
	for n := bufferBytesMin; n <= bufferBytesMax; n *= 2 {
		sizes = append(sizes, n)
	}
	return mem.NewTieredBufferPool(sizes...)
}()

const (
	bufferBytesMin = 256
	bufferBytesMax = 32 << 20 // longer ones are no longer shared
)

// Unmarshal reads a message.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	f, ok := v.(*frame)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	f.free()
	inbound.Copying(data.Len(), func() { f.held = data.MaterializeToBuffer(buffers) })
	if err := f.parse(f.held.ReadOnlyData()); err != nil {
		f.free()
		return err
	}
	return nil
}
