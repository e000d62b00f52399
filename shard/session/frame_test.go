package session

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
)

// compare holds a frame to what a generic decoder makes of the same bytes.
func compare(t *testing.T, data []byte) {
	t.Helper()
	var f frame
	fast := newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, &f)
	defer f.free()
	var want pb.OperatorMessage
	if err := proto.Unmarshal(data, &want); err != nil {
		// A frame's body is not looked into, so more frames are frames.
		return
	}
	if fast != nil {
		t.Fatalf("%x: %v; another decoder reads it", data, fast)
	}
	bodies := map[protowire.Number]proto.Message{
		frameHello: &pb.Hello{}, frameRollup: &pb.ClusterCapacityNeeds{}, frameBootstrapResponse: &pb.BootstrapBlobResponse{}, frameReclaimAck: &pb.ReclaimAck{},
	}
	got := bodies[f.kind]
	if got == nil {
		if want.GetPayload() != nil {
			t.Fatalf("%x: nothing that is known, want %v", data, &want)
		}
		return
	}
	if err := proto.Unmarshal(f.body, got); err != nil {
		t.Fatalf("%x: body of %d: %v", data, f.kind, err)
	}
	var message proto.Message
	switch x := want.GetPayload().(type) {
	case *pb.OperatorMessage_Hello:
		message = x.Hello
	case *pb.OperatorMessage_Rollup:
		message = x.Rollup
	case *pb.OperatorMessage_BootstrapResponse:
		message = x.BootstrapResponse
	case *pb.OperatorMessage_ReclaimAck:
		message = x.ReclaimAck
	}
	if message == nil || !proto.Equal(got, message) {
		t.Fatalf("%x: %v of kind %d, want %v", data, got, f.kind, &want)
	}
}

// frameSeeds are messages as operators send them, in parts, in odd orders,
// with fields that are not known.
func frameSeeds(t testing.TB) (seeds [][]byte) {
	t.Helper()
	for _, m := range []*pb.OperatorMessage{
		{},
		{Payload: &pb.OperatorMessage_Hello{Hello: &pb.Hello{ClusterId: "a", ProtocolVersion: "v1alpha1"}}},
		{Payload: &pb.OperatorMessage_Rollup{Rollup: &pb.ClusterCapacityNeeds{ClusterId: "a", Needs: []*pb.CapacityNeed{{Priority: 1}, {Group: "g"}}}}},
		{Payload: &pb.OperatorMessage_BootstrapResponse{BootstrapResponse: &pb.BootstrapBlobResponse{RequestId: "r", UserData: []byte{0, 1}, TtlSeconds: 9}}},
		{Payload: &pb.OperatorMessage_ReclaimAck{ReclaimAck: &pb.ReclaimAck{InstructionId: "i", NodesStarted: 1}}},
	} {
		data, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		seeds = append(seeds, data)
	}
	unknown := protowire.AppendString(protowire.AppendTag(nil, 17, protowire.BytesType), "later")
	otherType := protowire.AppendVarint(protowire.AppendTag(nil, frameRollup, protowire.VarintType), 5)
	group := protowire.AppendTag(protowire.AppendTag(nil, 30, protowire.StartGroupType), 30, protowire.EndGroupType)
	for i, a := range seeds[:5] {
		seeds = append(seeds, bytes.Join([][]byte{unknown, a, otherType, group}, nil), bytes.Join([][]byte{a, a, seeds[(i+1)%5], a}, nil))
	}
	return append(seeds, []byte{0x0a}, []byte{0x0a, 0x05, 1}, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
}

func FuzzFrame(f *testing.F) {
	for _, seed := range frameSeeds(f) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) { compare(t, data) })
}

// Pieces of good messages in any order are read as any decoder reads them.
func TestFramesInAnyOrder(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	seeds := frameSeeds(t)
	for range 5_000 {
		var data []byte
		for range random.IntN(5) {
			data = append(data, seeds[random.IntN(len(seeds)-3)]...)
		}
		compare(t, data)
	}
}

func TestWhatIsNoMessageIsNoFrame(t *testing.T) {
	for _, data := range [][]byte{{0x0a}, {0x0a, 0x05, 1}, {0x00}, bytes.Repeat([]byte{0xff}, 11)} {
		var f frame
		if err := newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, &f); err == nil {
			t.Errorf("%x is read as %d", data, f.kind)
		}
	}
}

// TestFramesTakeLittleMore: the buffer that a frame waits in is at most twice as
// long as the frame.
func TestFramesTakeLittleMore(t *testing.T) {
	for _, n := range []int{300, 5_000, 33_000, 70_000, 300_000, 5_000_000} {
		data := appendMessage(nil, frameRollup, func(b []byte) []byte { return append(b, make([]byte, n)...) })
		var f frame
		if err := newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(data[:n/2]), mem.SliceBuffer(data[n/2:])}, &f); err != nil {
			t.Fatal(err)
		}
		if room := cap(f.held.ReadOnlyData()); room > 2*len(data) {
			t.Errorf("a frame of %d bytes waits in a buffer of %d", len(data), room)
		}
		f.free()
	}
}
