package session_test

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard/session"
)

// The slow twin of the decoder: a generic protobuf decoder that is given the
// message's description, maps, and rows as structs.

// field describes a field; of is the message or enum that it holds.
func field(name string, num int32, kind descriptorpb.FieldDescriptorProto_Type, repeated bool, of string) *descriptorpb.FieldDescriptorProto {
	f := &descriptorpb.FieldDescriptorProto{Name: &name, Number: &num, Type: &kind, Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
	if repeated {
		f.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
	}
	if of != "" {
		f.TypeName = proto.String(".twin." + of)
	}
	return f
}

const (
	kindString  = descriptorpb.FieldDescriptorProto_TYPE_STRING
	kindInt32   = descriptorpb.FieldDescriptorProto_TYPE_INT32
	kindInt64   = descriptorpb.FieldDescriptorProto_TYPE_INT64
	kindEnum    = descriptorpb.FieldDescriptorProto_TYPE_ENUM
	kindMessage = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE
)

func message(name string, fields ...*descriptorpb.FieldDescriptorProto) *descriptorpb.DescriptorProto {
	return &descriptorpb.DescriptorProto{Name: &name, Field: fields}
}

// mapEntry describes the entries of a map<string, string>. They are not marked
// as such, and so decoded as a list, which is the same on the wire: the generic
// decoder panics at an entry with two keys, the second of another wire type.
func mapEntry(name string) *descriptorpb.DescriptorProto {
	return message(name, field("key", 1, kindString, false, ""), field("value", 2, kindString, false, ""))
}

var twinRollup = func() protoreflect.MessageDescriptor {
	need := message("CapacityNeed",
		field("requirements", 1, kindMessage, true, "NodeSelectorRequirement"),
		field("aggregate_resources", 2, kindMessage, true, "CapacityNeed.AggregateResourcesEntry"),
		field("priority", 3, kindInt32, false, ""),
		field("spread", 5, kindMessage, true, "TopologySpread"),
		field("interruption_penalty_bucket", 6, kindEnum, false, "Any"),
		field("reclamation_penalty_bucket", 7, kindEnum, false, "Any"),
		field("min_unit", 8, kindMessage, true, "CapacityNeed.MinUnitEntry"),
		field("group", 9, kindString, false, ""))
	need.NestedType = []*descriptorpb.DescriptorProto{mapEntry("AggregateResourcesEntry"), mapEntry("MinUnitEntry")}
	file := &descriptorpb.FileDescriptorProto{
		Name: proto.String("twin.proto"), Package: proto.String("twin"), Syntax: proto.String("proto3"),
		EnumType: []*descriptorpb.EnumDescriptorProto{{ // enums are open: one stands for all
			Name: proto.String("Any"), Value: []*descriptorpb.EnumValueDescriptorProto{{Name: proto.String("ANY"), Number: proto.Int32(0)}},
		}},
		MessageType: []*descriptorpb.DescriptorProto{
			message("ClusterCapacityNeeds",
				field("cluster_id", 1, kindString, false, ""),
				field("timestamp_unix_nanos", 2, kindInt64, false, ""),
				field("needs", 3, kindMessage, true, "CapacityNeed")),
			need,
			message("NodeSelectorRequirement",
				field("key", 1, kindString, false, ""), field("operator", 2, kindEnum, false, "Any"), field("values", 3, kindString, true, "")),
			message("TopologySpread",
				field("topology_key", 1, kindString, false, ""), field("max_skew", 2, kindInt32, false, ""), field("when_unsatisfiable", 3, kindEnum, false, "Any")),
		},
	}
	d, err := protodesc.NewFile(file, nil)
	if err != nil {
		panic(err)
	}
	return d.Messages().ByName("ClusterCapacityNeeds")
}()

// get returns a field of a message.
func get(m protoreflect.Message, name protoreflect.Name) protoreflect.Value {
	return m.Get(m.Descriptor().Fields().ByName(name))
}

// each calls f with every message of a repeated field.
func each(m protoreflect.Message, name protoreflect.Name, f func(protoreflect.Message)) {
	list := get(m, name).List()
	for i := range list.Len() {
		f(list.Get(i).Message())
	}
}

// decodeSlowly is Decode into rows.
func decodeSlowly(cluster string, data []byte) ([]model.Need, error) {
	m := dynamicpb.NewMessage(twinRollup)
	if err := proto.Unmarshal(data, m); err != nil {
		return nil, err
	}
	if id := get(m, "cluster_id").String(); id != "" && id != cluster {
		return nil, errors.New("another cluster")
	}
	var rows []model.Need
	var faults []error
	each(m, "needs", func(n protoreflect.Message) {
		row, err := needSlowly(n)
		if err != nil {
			faults = append(faults, err)
		}
		row.Arrival = get(m, "timestamp_unix_nanos").Int()
		rows = append(rows, row)
	})
	return rows, errors.Join(faults...)
}

func needSlowly(n protoreflect.Message) (row model.Need, err error) {
	spec := model.ProfileSpec{Priority: int32(get(n, "priority").Int())}
	each(n, "requirements", func(r protoreflect.Message) {
		x := model.Requirement{Key: get(r, "key").String()}
		if op := get(r, "operator").Enum(); op >= 1 && op <= 5 {
			x.Operator = model.Operator(op)
		}
		values := get(r, "values").List()
		for i := range values.Len() {
			x.Values = append(x.Values, values.Get(i).String())
		}
		spec.Requirements = append(spec.Requirements, x)
	})
	each(n, "spread", func(s protoreflect.Message) {
		x := model.Spread{Key: get(s, "topology_key").String(), MaxSkew: int32(get(s, "max_skew").Int())}
		if when := get(s, "when_unsatisfiable").Enum(); when == 1 || when == 2 {
			x.WhenUnsatisfiable = model.WhenUnsatisfiable(when)
		}
		spec.Spread = append(spec.Spread, x)
	})
	for name, bucket := range map[protoreflect.Name]*model.Bucket{"interruption_penalty_bucket": &spec.Interruption, "reclamation_penalty_bucket": &spec.Reclamation} {
		v := get(n, name).Enum()
		if v < 0 || v > 27 {
			return row, fmt.Errorf("%s %d", name, v)
		}
		*bucket = model.Bucket(v)
	}
	if row.Profile, err = model.NewProfile(spec); err != nil {
		return row, err
	}
	for name, v := range map[protoreflect.Name]*model.Resources{"aggregate_resources": &row.Aggregate, "min_unit": &row.MinUnit} {
		texts := map[string]string{}
		each(n, name, func(entry protoreflect.Message) {
			texts[get(entry, "key").String()] = get(entry, "value").String()
		})
		var faults []*model.FieldError
		if *v, faults = model.ParseResources(texts); len(faults) > 0 {
			return row, faults[0]
		}
	}
	row.Group = get(n, "group").String()
	return row, nil
}

// loadSlowly is what a decoder and a table do together.
func loadSlowly(t *demand.Table, cluster string, data []byte) error {
	rows, err := decodeSlowly(cluster, data)
	if err != nil {
		return err
	}
	return t.Load(cluster, rows)
}

func loadFast(t *demand.Table, d *session.Decoder, b *demand.Builder, cluster string, data []byte) error {
	if err := d.Decode(cluster, data, b); err != nil {
		return err
	}
	return t.Install(b)
}
