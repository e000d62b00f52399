package wire_test

import (
	"fmt"
	"math"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
)

// The slow twin: a generic protobuf decoder that is given the messages'
// description. The provider of a HostRef is not in it: nobody reads it.

const (
	kindText    = descriptorpb.FieldDescriptorProto_TYPE_STRING
	kindNumber  = descriptorpb.FieldDescriptorProto_TYPE_INT32 // as enums are
	kindDouble  = descriptorpb.FieldDescriptorProto_TYPE_DOUBLE
	kindBytes   = descriptorpb.FieldDescriptorProto_TYPE_BYTES
	kindMessage = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE
)

func field(name string, num int32, kind descriptorpb.FieldDescriptorProto_Type) *descriptorpb.FieldDescriptorProto {
	return &descriptorpb.FieldDescriptorProto{Name: &name, Number: &num, Type: &kind, Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
}

func messageField(name string, num int32, of string, repeated bool) *descriptorpb.FieldDescriptorProto {
	f := field(name, num, kindMessage)
	f.TypeName = proto.String(".twin." + of)
	if repeated {
		f.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
	}
	return f
}

func message(name string, fields ...*descriptorpb.FieldDescriptorProto) *descriptorpb.DescriptorProto {
	return &descriptorpb.DescriptorProto{Name: &name, Field: fields}
}

// withMaps adds the entries of maps to a message. They are not marked as such,
// and so decoded as lists, which is the same on the wire: the generic decoder
// panics at an entry with two keys, the second of another wire type.
func withMaps(m *descriptorpb.DescriptorProto, entries ...string) *descriptorpb.DescriptorProto {
	for _, name := range entries {
		m.NestedType = append(m.NestedType, message(name, field("key", 1, kindText), field("value", 2, kindText)))
	}
	return m
}

var twinList = func() protoreflect.MessageDescriptor {
	machine := withMaps(message("Machine",
		field("id", 1, kindText), field("state", 2, kindNumber), messageField("host", 3, "HostRef", false),
		field("instance_type", 4, kindText), field("zone", 5, kindText), field("capacity_type", 6, kindNumber),
		field("price_per_hour", 7, kindDouble), field("interruption_probability", 8, kindDouble),
		messageField("resources", 9, "Resources", false), messageField("labels", 10, "Machine.LabelsEntry", true),
		field("last_error", 12, kindText), messageField("allocatable", 13, "Resources", false),
		field("cluster", 14, kindText), messageField("shard_metadata", 15, "Machine.ShardMetadataEntry", true),
	), "LabelsEntry", "ShardMetadataEntry")
	file := &descriptorpb.FileDescriptorProto{
		Name: proto.String("twin.proto"), Package: proto.String("twin"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{
			machine,
			message("HostRef", field("ref", 2, kindText)),
			withMaps(message("Resources", messageField("resources", 1, "Resources.ResourcesEntry", true)), "ResourcesEntry"),
			message("MachineList", messageField("machines", 1, "Machine", true), field("revision", 2, kindBytes)),
		},
	}
	d, err := protodesc.NewFile(file, nil)
	if err != nil {
		panic(err)
	}
	return d.Messages().ByName("MachineList")
}()

// twinRecord is a record, or why it is refused.
type twinRecord struct {
	rec shard.Record
	err error
}

// decodeTwin decodes a listing.
func decodeTwin(b []byte) (out []twinRecord, revision []byte, err error) {
	m := dynamicpb.NewMessage(twinList)
	if err := proto.Unmarshal(b, m); err != nil {
		return nil, nil, err
	}
	get := func(m protoreflect.Message, name string) protoreflect.Value {
		return m.Get(m.Descriptor().Fields().ByName(protoreflect.Name(name)))
	}
	list := get(m, "machines").List()
	for i := range list.Len() {
		x := list.Get(i).Message()
		texts := func(m protoreflect.Message, name string) map[string]string {
			entries := get(m, name).List()
			if entries.Len() == 0 {
				return nil
			}
			out := map[string]string{}
			for i := range entries.Len() {
				e := entries.Get(i).Message()
				out[get(e, "key").String()] = get(e, "value").String()
			}
			return out
		}
		var t twinRecord
		resources := func(name string) model.Resources {
			r, faults := model.ParseResources(texts(get(x, name).Message(), "resources"))
			if len(faults) > 0 {
				t.err = fmt.Errorf("%s: %w", name, faults[0])
			}
			return r
		}
		number := func(name string, values int) uint8 {
			if v := get(x, name).Int(); v >= 0 && v < int64(values) {
				return uint8(v)
			}
			return math.MaxUint8
		}
		t.rec = shard.Record{
			Machine: model.Machine{
				ID: get(x, "id").String(), State: model.State(number("state", model.NumStates)), CapacityType: model.CapacityType(number("capacity_type", model.NumCapacityTypes)),
				Host: get(get(x, "host").Message(), "ref").String(), Cluster: get(x, "cluster").String(), InstanceType: get(x, "instance_type").String(), Zone: get(x, "zone").String(),
				Resources: resources("resources"), Allocatable: resources("allocatable"), Labels: texts(x, "labels"),
				PricePerHour: get(x, "price_per_hour").Float(), InterruptionProbability: get(x, "interruption_probability").Float(), LastError: get(x, "last_error").String(),
			},
			Metadata: texts(x, "shard_metadata"),
		}
		out = append(out, t)
	}
	return out, get(m, "revision").Bytes(), nil
}
