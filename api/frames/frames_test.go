package frames_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/api/frames"
)

func carry(r *pb.ClusterCapacityNeeds) *pb.OperatorMessage {
	return &pb.OperatorMessage{Payload: &pb.OperatorMessage_Rollup{Rollup: r}}
}

func row(i int) *pb.CapacityNeed {
	return &pb.CapacityNeed{
		Requirements: []*pb.NodeSelectorRequirement{
			{Key: "node.kubernetes.io/instance-type", Operator: pb.NodeSelectorRequirement_OPERATOR_IN, Values: []string{fmt.Sprint("type-", i%40)}},
		},
		AggregateResources: map[string]string{"cpu": fmt.Sprint(i + 1), "memory": "64Gi"}, MinUnit: map[string]string{"cpu": "1", "memory": "2Gi"},
		Priority: int32(i % 7), Group: fmt.Sprint("job-", i),
		InterruptionPenaltyBucket: pb.PenaltyBucket_PENALTY_BUCKET_1, ReclamationPenaltyBucket: pb.PenaltyBucket_PENALTY_BUCKET_PINNED,
	}
}

func rowsOf(n int) *pb.ClusterCapacityNeeds {
	r := &pb.ClusterCapacityNeeds{ClusterId: "cluster-1", TimestampUnixNanos: 1234567890}
	for i := range n {
		r.Needs = append(r.Needs, row(i))
	}
	return r
}

// random fills every field that the message has with whatever is legal, and
// leaves some empty.
func random(rng *rand.Rand, m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		switch {
		case rng.IntN(4) == 0:
		case f.IsMap():
			entries := m.Mutable(f).Map()
			for range rng.IntN(4) {
				entries.Set(protoreflect.ValueOfString(textOf(rng)).MapKey(), protoreflect.ValueOfString(textOf(rng)))
			}
		case f.IsList() && f.Message() != nil:
			list := m.Mutable(f).List()
			for range rng.IntN(4) {
				random(rng, list.AppendMutable().Message(), depth+1)
			}
		case f.IsList():
			list := m.Mutable(f).List()
			for range rng.IntN(4) {
				list.Append(protoreflect.ValueOfString(textOf(rng)))
			}
		default:
			m.Set(f, scalar(rng, f))
		}
	}
}

func scalar(rng *rand.Rand, f protoreflect.FieldDescriptor) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(rng.Int32() >> rng.IntN(32)))
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(rng.Uint32()) >> rng.IntN(32))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(int64(rng.Uint64()) >> rng.IntN(64))
	default:
		return protoreflect.ValueOfString(textOf(rng))
	}
}

func textOf(rng *rand.Rand) string {
	return strings.Repeat("é", rng.IntN(3)) + strings.Repeat("x", rng.IntN(200)>>rng.IntN(8))
}

// read is what any peer makes of the bytes.
func read(t *testing.T, data []byte) *pb.OperatorMessage {
	t.Helper()
	var m pb.OperatorMessage
	if err := proto.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	return &m
}

func TestOthersReadWhatIsWritten(t *testing.T) {
	const seed = 7
	rng := rand.New(rand.NewPCG(seed, 0))
	codec := frames.Codec()
	for i := range 2000 {
		var r pb.ClusterCapacityNeeds
		random(rng, r.ProtoReflect(), 0)
		want := carry(&r)
		appended, ok := frames.Append([]byte("before"), &r)
		if !ok || !proto.Equal(read(t, bytes.TrimPrefix(appended, []byte("before"))), want) {
			t.Fatalf("seed %d, message %d: what is appended is not %v", seed, i, want)
		}
		if proto.Size(want) != len(appended)-len("before") {
			t.Fatalf("seed %d, message %d: %d bytes, the library needs %d", seed, i, len(appended)-len("before"), proto.Size(want))
		}
		data, err := codec.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(read(t, data.Materialize()), want) {
			t.Fatalf("seed %d, message %d: what the codec writes is not %v", seed, i, want)
		}
		data.Free()
	}
}

// What has surprises in it is written by the library, or refused as the library
// does.
func TestTheRestIsLeftToTheLibrary(t *testing.T) {
	library, codec := encoding.GetCodecV2(protocodec.Name), frames.Codec()
	strange := protowire.AppendVarint(protowire.AppendTag(nil, 1000, protowire.VarintType), 7)
	with := func(change func(*pb.OperatorMessage)) *pb.OperatorMessage {
		m := carry(rowsOf(3))
		change(m)
		return m
	}
	first := func(m *pb.OperatorMessage) *pb.CapacityNeed { return m.GetRollup().Needs[0] }
	for _, c := range []struct {
		name string
		m    *pb.OperatorMessage
	}{
		{"nothing", &pb.OperatorMessage{}},
		{"a hello", &pb.OperatorMessage{Payload: &pb.OperatorMessage_Hello{Hello: &pb.Hello{ClusterId: "c"}}}},
		{"no roll-up", &pb.OperatorMessage{Payload: &pb.OperatorMessage_Rollup{}}},
		{"an unknown field beside it", with(func(m *pb.OperatorMessage) { m.ProtoReflect().SetUnknown(strange) })},
		{"an unknown field", with(func(m *pb.OperatorMessage) { m.GetRollup().ProtoReflect().SetUnknown(strange) })},
		{"an unknown field of a row", with(func(m *pb.OperatorMessage) { first(m).ProtoReflect().SetUnknown(strange) })},
		{"an unknown field of a requirement", with(func(m *pb.OperatorMessage) { first(m).Requirements[0].ProtoReflect().SetUnknown(strange) })},
		{"an unknown field of a spread", with(func(m *pb.OperatorMessage) {
			s := &pb.TopologySpread{TopologyKey: "zone"}
			s.ProtoReflect().SetUnknown(strange)
			first(m).Spread = append(first(m).Spread, s)
		})},
		{"a row that is nil", with(func(m *pb.OperatorMessage) { m.GetRollup().Needs[1] = nil })},
		{"a requirement that is nil", with(func(m *pb.OperatorMessage) { first(m).Requirements[0] = nil })},
		{"text that is none", with(func(m *pb.OperatorMessage) { first(m).Group = "\xff" })},
		{"a quantity that is no text", with(func(m *pb.OperatorMessage) { first(m).MinUnit["cpu"] = "\xff" })},
	} {
		want, wantErr := library.Marshal(c.m)
		got, err := codec.Marshal(c.m)
		if (err == nil) != (wantErr == nil) {
			t.Errorf("%s: %v, the library says %v", c.name, err, wantErr)
			continue
		}
		if err == nil && !proto.Equal(read(t, got.Materialize()), read(t, want.Materialize())) {
			t.Errorf("%s: not what the library writes", c.name)
		}
		if r := c.m.GetRollup(); r != nil {
			if _, ok := frames.Append(nil, r); ok && len(c.m.ProtoReflect().GetUnknown()) == 0 {
				t.Errorf("%s: was not left to the library", c.name)
			}
		}
	}
	if _, err := codec.Marshal(7); err == nil {
		t.Error("a number was taken for a message")
	}
}

// The codec reads as the library does, and its buffers come back.
func TestCodecKeepsItsBuffers(t *testing.T) {
	codec := frames.Codec()
	m := carry(rowsOf(2000))
	for range 3 {
		data, err := codec.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var back pb.OperatorMessage
		if err := codec.Unmarshal(data, &back); err != nil || !proto.Equal(&back, m) {
			t.Fatalf("%v: something else came back", err)
		}
		data.Free()
	}
	if codec.Name() != protocodec.Name {
		t.Errorf("its name is %q", codec.Name())
	}
}

func BenchmarkRollup(b *testing.B) {
	m := carry(rowsOf(20_000))
	for _, c := range []struct {
		name  string
		codec encoding.CodecV2
	}{{"frames", frames.Codec()}, {"library", encoding.GetCodecV2(protocodec.Name)}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				data, err := c.codec.Marshal(m)
				if err != nil {
					b.Fatal(err)
				}
				data.Free()
			}
		})
	}
}
