package frames

import (
	"sync/atomic"
	"unicode/utf8"

	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
)

// bytesFirst is how much room the first roll-up of a codec gets.
const bytesFirst = 64 << 10

// codec writes roll-ups by hand and leaves the rest to the library's.
type codec struct {
	encoding.CodecV2
	last atomic.Int64 // bytes of the longest roll-up so far
}

// Codec returns a codec for the client's side of sessions. Safe for concurrent
// use; what it remembers is how long roll-ups are, so one session should keep
// one.
func Codec() encoding.CodecV2 {
	return &codec{CodecV2: encoding.GetCodecV2(protocodec.Name)}
}

// Marshal writes a message.
func (c *codec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(*pb.OperatorMessage)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	rollup, ok := m.GetPayload().(*pb.OperatorMessage_Rollup)
	if !ok || rollup.Rollup == nil || unknown(m) {
		return c.CodecV2.Marshal(v)
	}
	pool := mem.DefaultBufferPool()
	lent := pool.Get(int(max(c.last.Load(), bytesFirst)))
	w := writer{b: (*lent)[:0]}
	w.message(FieldRollup, func() { w.rollup(rollup.Rollup) })
	if w.odd {
		pool.Put(lent)
		return c.CodecV2.Marshal(v)
	}
	c.last.Store(max(c.last.Load(), int64(len(w.b))))
	if cap(w.b) != cap(*lent) {
		pool.Put(lent) // it was too short
		return mem.BufferSlice{mem.SliceBuffer(w.b)}, nil
	}
	*lent = w.b
	return mem.BufferSlice{mem.NewBuffer(lent, pool)}, nil
}

// Append appends an OperatorMessage that carries the roll-up, as it goes over
// the wire; false when it is left to the library, and nothing was appended.
func Append(dst []byte, rollup *pb.ClusterCapacityNeeds) ([]byte, bool) {
	w := writer{b: dst}
	w.message(FieldRollup, func() { w.rollup(rollup) })
	if w.odd {
		return dst, false
	}
	return w.b, true
}

func unknown(m protoreflect.ProtoMessage) bool { return len(m.ProtoReflect().GetUnknown()) > 0 }

// writer appends fields in the order of their numbers. odd says that the message
// is not one for it; what it has appended is of no use then.
type writer struct {
	b   []byte
	odd bool
}

func (w *writer) rollup(m *pb.ClusterCapacityNeeds) {
	w.odd = w.odd || m == nil || unknown(m)
	w.text(FieldClusterID, m.GetClusterId())
	w.number(FieldTimestamp, uint64(m.GetTimestampUnixNanos()))
	for _, n := range m.GetNeeds() {
		if n == nil || w.odd {
			w.odd = true
			return
		}
		at := w.open(FieldNeeds)
		w.need(n)
		w.close(at)
	}
}

func (w *writer) need(n *pb.CapacityNeed) {
	w.odd = w.odd || unknown(n)
	for _, r := range n.GetRequirements() {
		at := w.open(FieldRequirements)
		w.requirement(r)
		w.close(at)
	}
	w.quantities(FieldAggregate, n.GetAggregateResources())
	w.number(FieldPriority, uint64(int64(n.GetPriority())))
	for _, s := range n.GetSpread() {
		at := w.open(FieldSpread)
		w.odd = w.odd || s == nil || unknown(s)
		w.text(1, s.GetTopologyKey())
		w.number(2, uint64(int64(s.GetMaxSkew())))
		w.number(3, uint64(int64(s.GetWhenUnsatisfiable())))
		w.close(at)
	}
	w.number(FieldInterruption, uint64(int64(n.GetInterruptionPenaltyBucket())))
	w.number(FieldReclamation, uint64(int64(n.GetReclamationPenaltyBucket())))
	w.quantities(FieldMinUnit, n.GetMinUnit())
	w.text(FieldGroup, n.GetGroup())
}

func (w *writer) requirement(r *pb.NodeSelectorRequirement) {
	w.odd = w.odd || r == nil || unknown(r)
	w.text(1, r.GetKey())
	w.number(2, uint64(int64(r.GetOperator())))
	for _, v := range r.GetValues() {
		w.entry(3, v)
	}
}

// quantities writes a map; its entries have both fields, empty ones too.
func (w *writer) quantities(num protowire.Number, m map[string]string) {
	for name, quantity := range m {
		at := w.open(num)
		w.entry(1, name)
		w.entry(2, quantity)
		w.close(at)
	}
}

// text and number leave out what is empty, as proto3 does; entry does not.
func (w *writer) text(num protowire.Number, s string) {
	if s != "" {
		w.entry(num, s)
	}
}

func (w *writer) entry(num protowire.Number, s string) {
	w.odd = w.odd || !utf8.ValidString(s)
	w.b = protowire.AppendString(protowire.AppendTag(w.b, num, protowire.BytesType), s)
}

func (w *writer) number(num protowire.Number, v uint64) {
	if v != 0 {
		w.b = protowire.AppendVarint(protowire.AppendTag(w.b, num, protowire.VarintType), v)
	}
}

func (w *writer) message(num protowire.Number, body func()) {
	at := w.open(num)
	body()
	w.close(at)
}

// open begins a field that is a message. Its length is written when it is
// known; one byte is left for it, which is enough for most.
func (w *writer) open(num protowire.Number) int {
	w.b = append(protowire.AppendTag(w.b, num, protowire.BytesType), 0)
	return len(w.b)
}

// close ends the message that begins there.
func (w *writer) close(at int) {
	n := len(w.b) - at
	if more := protowire.SizeVarint(uint64(n)) - 1; more > 0 {
		var room [9]byte
		w.b = append(w.b, room[:more]...)
		copy(w.b[at+more:], w.b[at:at+n])
	}
	protowire.AppendVarint(w.b[:at-1], uint64(n))
}
