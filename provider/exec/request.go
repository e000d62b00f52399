package exec

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/driver"
)

// protocolVersion is the version of requests and answers.
const protocolVersion = 1

// request is one call of a command.
type request struct {
	verb    string
	machine *driver.Machine // nil for observe
	fields  []field
}

// field is a key of a request. What is set as a variable of the environment has its name.
type field struct {
	key      string
	value    any
	variable string
}

// newRequest returns a request about a machine.
func newRequest(verb string, m *driver.Machine, more ...field) *request {
	return &request{verb: verb, machine: m, fields: append([]field{
		{"version", protocolVersion, ""},
		{"verb", verb, "VERB"},
		{"name", driver.ObjectName(m.ID, m.Generation), "NAME"},
		{"machine", m.ID, "MACHINE"},
		{"generation", m.Generation, "GENERATION"},
		{"lateBound", m.LateBound, "LATE_BOUND"},
		{"host", m.Host, "HOST"},
		{"pool", m.Offer.Pool, "POOL"},
		{"instanceType", m.Offer.InstanceType, "INSTANCE_TYPE"},
		{"zone", m.Offer.Zone, "ZONE"},
		{"capacityType", m.Offer.CapacityType.String(), "CAPACITY_TYPE"},
		{"resources", quantities(m.Offer.Resources), ""},
		{"allocatable", quantities(m.Offer.Allocatable), ""},
		{"labels", nodeLabels(&m.Offer), ""},
		{"taints", append([]driver.Taint{}, m.Offer.Taints...), ""},
		{"template", templateOf(&m.Offer), ""},
	}, more...)}
}

func observeRequest() *request {
	return &request{verb: verbObserve, fields: []field{{"version", protocolVersion, ""}, {"verb", verbObserve, "VERB"}}}
}

func templateOf(o *driver.Offer) json.RawMessage {
	if len(o.Template) == 0 {
		return json.RawMessage("{}")
	}
	return o.Template
}

// nodeLabels are all labels that the machine's node shall have.
func nodeLabels(o *driver.Offer) map[string]string {
	out := map[string]string{}
	for key, value := range map[string]string{
		model.KeyInstanceType: o.InstanceType, model.KeyZone: o.Zone, model.KeyCapacityType: o.CapacityType.Label(),
	} {
		if value != "" {
			out[key] = value
		}
	}
	maps.Copy(out, o.Labels)
	return out
}

func quantities(r model.Resources) map[string]string {
	out := make(map[string]string, len(r))
	for _, a := range r {
		out[a.Name] = model.FormatQuantity(a.Name, a.Value)
	}
	return out
}

// encode writes the request: an object with each key on a line of its own, two spaces before it,
// and its value on the same line. Shells rely on that.
func (q *request) encode() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("{\n")
	for i, f := range q.fields {
		value, err := json.Marshal(f.value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.key, err)
		}
		fmt.Fprintf(&b, "  %q: %s", f.key, value)
		if i < len(q.fields)-1 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
	}
	b.WriteString("}\n")
	return b.Bytes(), nil
}

// variables are the request's short values for the environment.
func (q *request) variables() (out []string) {
	for _, f := range q.fields {
		if f.variable != "" {
			out = append(out, fmt.Sprintf("%s%s=%v", ownPrefix, f.variable, f.value))
		}
	}
	return out
}

// deadlineFields say until when a drain may take.
func deadlineFields(deadline, now time.Time) []field {
	return []field{
		{"deadline", deadline.UTC().Format(time.RFC3339), "DEADLINE"},
		{"graceSeconds", max(0, int64(deadline.Sub(now)/time.Second)), "GRACE_SECONDS"},
	}
}

// record is what is kept with a machine and given back by observe.
type record struct {
	Version      int               `json:"version"`
	Machine      string            `json:"machine"`
	Generation   uint64            `json:"generation"`
	LateBound    bool              `json:"lateBound,omitempty"`
	Host         string            `json:"host,omitempty"`
	Pool         string            `json:"pool"`
	InstanceType string            `json:"instanceType"`
	Zone         string            `json:"zone,omitempty"`
	CapacityType string            `json:"capacityType"`
	Shard        string            `json:"shard,omitempty"`
	Epoch        int64             `json:"epoch,omitempty"`
	Sequence     int64             `json:"sequence,omitempty"`
	Cluster      string            `json:"cluster,omitempty"`
	Metadata     map[string]string `json:"metadata,omitempty"`
}

// recordOf returns the text of a machine's record.
func recordOf(m *driver.Machine, b *driver.Binding) (string, error) {
	text, err := json.Marshal(record{
		Version: protocolVersion, Machine: m.ID, Generation: m.Generation, LateBound: m.LateBound, Host: m.Host,
		Pool: m.Offer.Pool, InstanceType: m.Offer.InstanceType, Zone: m.Offer.Zone, CapacityType: m.Offer.CapacityType.String(),
		Shard: b.Shard, Epoch: b.Epoch, Sequence: b.Sequence, Cluster: b.Cluster, Metadata: b.Metadata,
	})
	if err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(text), nil
}

// readRecord reads the text of a record into what it says of a machine.
func readRecord(text string, into *driver.Observation) error {
	data, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return errors.New("is not what a request gave as record: it is no base64")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	var x record
	if err := d.Decode(&x); err != nil {
		return fmt.Errorf("is not what a request gave as record: %w", err)
	}
	if d.More() {
		return errors.New("is not what a request gave as record: something follows it")
	}
	if x.Version != protocolVersion {
		return fmt.Errorf("is of version %d; this provider reads version %d", x.Version, protocolVersion)
	}
	if x.Generation == 0 {
		return errors.New("generation must be at least 1")
	}
	capacity, ok := model.ParseCapacityType(x.CapacityType)
	if !ok {
		return fmt.Errorf("there is no capacity type %s", strconv.Quote(x.CapacityType))
	}
	for _, name := range []struct {
		of, text string
		needed   bool
	}{
		{"machine", x.Machine, true}, {"host", x.Host, false}, {"pool", x.Pool, true}, {"instanceType", x.InstanceType, true},
		{"zone", x.Zone, false}, {"shard", x.Shard, false}, {"cluster", x.Cluster, false},
	} {
		check := model.CheckOptionalName[string]
		if name.needed {
			check = model.CheckName[string]
		}
		if err := check(name.text); err != nil {
			return fmt.Errorf("%s %w", name.of, err)
		}
	}
	into.ID, into.Generation, into.LateBound, into.HostName = x.Machine, x.Generation, x.LateBound, x.Host
	into.Key = driver.Key{Pool: x.Pool, InstanceType: x.InstanceType, Zone: x.Zone, CapacityType: capacity}
	into.Owner = driver.Owner{Shard: x.Shard, Epoch: x.Epoch, Sequence: x.Sequence}
	into.Cluster, into.Metadata = x.Cluster, x.Metadata
	return nil
}
