package wire

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
)

// HostProvider is what HostRef.provider says of machines that AppendRecord writes.
const HostProvider = "tonnage"

// AppendRecord appends a record to a listing as Parse reads it: the inverse, for
// providers that are not elsewhere and for trying Parse. The idle clock, stamps
// and reservation have no fields; they travel as metadata.
func AppendRecord(dst []byte, rec *shard.Record) []byte {
	m := &rec.Machine
	return appendMessage(dst, fieldMachines, func(b []byte) []byte {
		b = appendText(b, fieldID, m.ID)
		b = appendNumber(b, fieldState, uint64(m.State))
		if m.Host != "" {
			b = appendMessage(b, fieldHost, func(b []byte) []byte {
				return appendText(appendText(b, fieldHostProvider, HostProvider), fieldHostRef, m.Host)
			})
		}
		b = appendText(b, fieldInstanceType, m.InstanceType)
		b = appendText(b, fieldZone, m.Zone)
		b = appendNumber(b, fieldCapacityType, uint64(m.CapacityType))
		b = appendDouble(b, fieldPricePerHour, m.PricePerHour)
		b = appendDouble(b, fieldInterruption, m.InterruptionProbability)
		b = appendResources(b, fieldResources, m.Resources)
		b = appendMap(b, fieldLabels, m.Labels)
		b = appendText(b, fieldLastError, m.LastError)
		b = appendResources(b, fieldAllocatable, m.Allocatable)
		b = appendText(b, fieldCluster, m.Cluster)
		return appendMap(b, fieldShardMetadata, rec.Metadata)
	})
}

// AppendRevision appends a listing's cursor.
func AppendRevision(dst, revision []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, fieldRevision, protowire.BytesType), revision)
}

func appendText(b []byte, num protowire.Number, s string) []byte {
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

func appendDouble(b []byte, num protowire.Number, v float64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendFixed64(protowire.AppendTag(b, num, protowire.Fixed64Type), math.Float64bits(v))
}

// appendMap appends the entries in the order of the map, as encoders do.
func appendMap(b []byte, num protowire.Number, m map[string]string) []byte {
	for k, v := range m {
		b = appendMessage(b, num, func(b []byte) []byte { return appendText(appendText(b, fieldEntryKey, k), fieldEntryValue, v) })
	}
	return b
}

func appendResources(b []byte, num protowire.Number, r model.Resources) []byte {
	if len(r) == 0 {
		return b
	}
	return appendMessage(b, num, func(b []byte) []byte {
		for _, a := range r {
			b = appendMessage(b, fieldResourcesEntry, func(b []byte) []byte {
				b = appendText(b, fieldEntryKey, a.Name)
				return appendText(b, fieldEntryValue, model.FormatQuantity(a.Name, a.Value))
			})
		}
		return b
	})
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

// AppendBody appends what a record says beside its machine's id, for records that
// differ in their ids only: see AppendRecordOf.
func AppendBody(dst []byte, rec *shard.Record) []byte {
	named := *rec
	named.Machine.ID = ""
	return append(dst, MachineOf(AppendRecord(nil, &named))...)
}

// AppendRecordOf appends a record of an id and a body that AppendBody has made.
func AppendRecordOf(dst []byte, id string, body []byte) []byte {
	n := protowire.SizeTag(fieldID) + protowire.SizeBytes(len(id)) + len(body)
	dst = protowire.AppendVarint(protowire.AppendTag(dst, fieldMachines, protowire.BytesType), uint64(n))
	return append(appendText(dst, fieldID, id), body...)
}
