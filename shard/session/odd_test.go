package session_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/shard/session"
)

// An operator of another make, or of a later version, says things that nobody
// here knows, in any order. Its session goes on, and what is known is done.
func TestOddButLegalFrames(t *testing.T) {
	f := serve(t, session.Deps{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stream, err := pb.NewShardClient(f.dial(t, nil)).Session(ctx, grpc.ForceCodecV2(raw{encoding.GetCodecV2(protocodec.Name)}))
	if err != nil {
		t.Fatal(err)
	}
	ack := func(echo string) {
		t.Helper()
		m, err := stream.Recv()
		if err != nil || m.GetAck().GetEcho() != echo {
			t.Fatalf("%v, %v; want an acknowledgement of %s", m, err, echo)
		}
	}
	encoded := func(m *pb.OperatorMessage) []byte {
		t.Helper()
		data, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	send := func(data []byte) {
		t.Helper()
		if err := stream.SendMsg(data); err != nil {
			t.Fatal(err)
		}
	}
	later := text(15, "of a later version")
	// A hello with more in it than is known here.
	send(join(later, sub(1, text(9, "later"), text(1, "a"), number(2, 5)), later))
	ack("hello")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	odd := [][]byte{
		nil, later, sub(6, text(1, "a new kind")), number(2, 7), // a roll-up of another type
		protowire.AppendTag(protowire.AppendTag(nil, 40, protowire.StartGroupType), 40, protowire.EndGroupType),
		encoded(&pb.OperatorMessage{Payload: &pb.OperatorMessage_BootstrapResponse{BootstrapResponse: &pb.BootstrapBlobResponse{RequestId: "x"}}}),
		encoded(&pb.OperatorMessage{Payload: &pb.OperatorMessage_ReclaimAck{ReclaimAck: &pb.ReclaimAck{NodesStarted: -1}}}),
		sub(3), sub(4, text(9, "more")),
	}
	for rows := 1; rows <= 50; rows++ {
		for range random.IntN(4) {
			send(odd[random.IntN(len(odd))])
		}
		// A roll-up in two parts, one behind the other, is one roll-up.
		one := encoded(rollup("a", rows-1))
		one = join(one, sub(2, sub(3, amount(2, "cpu", "1"))))
		send(join(odd[random.IntN(5)], one, later))
		await(t, f.core.taken)
		ack("rollup")
		if got := f.core.rows("a"); got != rows {
			t.Fatalf("%d rows, want %d", got, rows)
		}
	}
}

func TestWhatIsNoMessageEndsTheSession(t *testing.T) {
	for name, test := range map[string]struct {
		bad  []byte
		want codes.Code
	}{
		"cut off":               {[]byte{0x12, 0x05, 1}, codes.Internal}, // as any gRPC server says
		"an answer that is bad": {sub(3, []byte{0x0a, 9}), codes.InvalidArgument},
		"a name that is bad":    {sub(4, []byte{0x0a, 1, 0xff}), codes.InvalidArgument},
	} {
		f := serve(t, session.Deps{})
		ctx, cancel := context.WithCancel(context.Background())
		stream, err := pb.NewShardClient(f.dial(t, nil)).Session(ctx, grpc.ForceCodecV2(raw{encoding.GetCodecV2(protocodec.Name)}))
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.SendMsg(hello("a")); err != nil {
			t.Fatal(err)
		}
		if err := stream.SendMsg(test.bad); err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) != test.want {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
		until(t, "the session is over", func() bool { return f.server.Count() == 0 })
		cancel()
	}
}
