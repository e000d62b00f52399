package session

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tonnage/tonnage/api/frames"
	"github.com/tonnage/tonnage/engine/model"
)

// AppendRollup appends the roll-up of a cluster as Decode reads it: the inverse,
// for sources of demand that are not operators and for trying Decode. Of the
// rows, what the wire has no field for is left out: arrivals, stamps and least
// aggregates. Profiles with Gt or Lt have no form on the wire; a decoder
// refuses them.
func AppendRollup(dst []byte, cluster string, timestamp int64, rows []model.Need) []byte {
	dst = appendString(dst, frames.FieldClusterID, cluster)
	dst = appendNumber(dst, frames.FieldTimestamp, uint64(timestamp))
	for i := range rows {
		dst = appendMessage(dst, frames.FieldNeeds, func(b []byte) []byte { return appendNeed(b, &rows[i]) })
	}
	return dst
}

func appendNeed(b []byte, n *model.Need) []byte {
	p := n.Profile
	for _, r := range p.Requirements() {
		b = appendMessage(b, frames.FieldRequirements, func(b []byte) []byte {
			b = appendString(b, fieldKey, r.Key)
			b = appendNumber(b, fieldOperator, uint64(r.Operator))
			for _, v := range r.Values {
				b = protowire.AppendString(protowire.AppendTag(b, fieldValues, protowire.BytesType), v)
			}
			return b
		})
	}
	b = appendQuantities(b, frames.FieldAggregate, n.Aggregate)
	b = appendNumber(b, frames.FieldPriority, uint64(int64(p.Priority())))
	for _, s := range p.Spread() {
		b = appendMessage(b, frames.FieldSpread, func(b []byte) []byte {
			b = appendString(b, fieldTopologyKey, s.Key)
			b = appendNumber(b, fieldMaxSkew, uint64(s.MaxSkew))
			return appendNumber(b, fieldWhenUnsatisfiable, uint64(s.WhenUnsatisfiable))
		})
	}
	b = appendNumber(b, frames.FieldInterruption, uint64(p.Interruption()))
	b = appendNumber(b, frames.FieldReclamation, uint64(p.Reclamation()))
	b = appendQuantities(b, frames.FieldMinUnit, n.MinUnit)
	return appendString(b, frames.FieldGroup, n.Group)
}

func appendQuantities(b []byte, num protowire.Number, r model.Resources) []byte {
	for _, a := range r {
		b = appendMessage(b, num, func(b []byte) []byte {
			b = appendString(b, fieldMapKey, a.Name)
			return appendMessage(b, fieldMapValue, func(b []byte) []byte { return model.AppendQuantity(b, a.Name, a.Value) })
		})
	}
	return b
}

// appendMessage appends a field of bytes that body appends.
func appendMessage(b []byte, num protowire.Number, body func([]byte) []byte) []byte {
	b = protowire.AppendTag(b, num, protowire.BytesType)
	at := len(b)
	b = body(append(b, 0)) // most lengths take one byte
	n := len(b) - at - 1
	if more := protowire.SizeVarint(uint64(n)) - 1; more > 0 {
		b = append(b, make([]byte, more)...)
		copy(b[at+1+more:], b[at+1:at+1+n])
	}
	protowire.AppendVarint(b[:at], uint64(n))
	return b
}

// appendString and appendNumber leave out what is empty, as proto3 does.
func appendString(b []byte, num protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, num, protowire.BytesType), s)
}

func appendNumber(b []byte, num protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), v)
}
