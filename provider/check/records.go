package check

import (
	"context"
	"math"
	"strings"

	"github.com/tonnage/tonnage/engine/model"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
)

// The pages that say what is checked.
const (
	pageRecords    = "docs/provider.md#records"
	pageLife       = "docs/provider.md#a-machines-life"
	pageRepeats    = "docs/provider.md#repeats"
	pageFence      = "docs/provider.md#the-fence"
	pageOrder      = "docs/provider.md#the-order-of-checks"
	pageMetadata   = "docs/provider.md#metadata-and-bootstrap-data"
	pageLists      = "docs/provider.md#get-and-list"
	pageTime       = "docs/provider.md#time"
	pageRestart    = "docs/provider.md#restarts-and-machines-that-are-lost"
	pageNames      = "docs/reference/wire.md#names"
	pageWholeShard = "docs/decisions/0065-a-fence-for-the-whole-shard.md"
)

// rule is what holds of every record, wherever it is seen.
type rule struct {
	id, promise, reference string
	// broken says what is wrong with a record, "" = nothing is.
	broken func(*pb.Machine) string
}

// The rules that look at more than one record.
const (
	ruleSameID       = "record.same-id"
	ruleHostProvider = "record.host-provider"
)

var rules = []rule{
	{"record.id", "The id of a machine keeps the rule for names.", pageNames, func(m *pb.Machine) string { return name("id", m.GetId(), true) }},
	{"record.names", "Type, zone, cluster, labels and resources keep the rule for names.", pageNames, brokenNames},
	{"record.state", "A machine is in one of the eight states.", pageRecords, func(m *pb.Machine) string {
		if m.GetState() < speculative || m.GetState() > failed {
			return "state is " + m.GetState().String()
		}
		return ""
	}},
	{"record.type", "A machine has an instance type and a capacity type.", pageRecords, func(m *pb.Machine) string {
		switch c := m.GetCapacityType(); {
		case m.GetInstanceType() == "":
			return "instance_type is empty"
		case c <= pb.CapacityType_CAPACITY_TYPE_UNSPECIFIED || c > pb.CapacityType_CAPACITY_TYPE_SPOT:
			return "capacity_type is " + c.String()
		}
		return ""
	}},
	{"record.price", "The price is a number, at least 0.", pageRecords, func(m *pb.Machine) string {
		if p := m.GetPricePerHour(); !(p >= 0) || math.IsInf(p, 0) {
			return "price_per_hour is no price"
		}
		return ""
	}},
	{"record.interruption", "The probability of an interruption is a number from 0 to 1.", pageRecords, func(m *pb.Machine) string {
		if p := m.GetInterruptionProbability(); !(p >= 0 && p <= 1) {
			return "interruption_probability is no probability"
		}
		return ""
	}},
	{"record.host", "A machine has a host, with provider and reference, from Idle to Deleting, and none while it is Speculative.", pageRecords, brokenHost},
	{"record.cluster", "A machine has a cluster from Configuring to the end of Draining, and none else.", pageRecords, func(m *pb.Machine) string {
		switch {
		case bound(m.GetState()) && m.GetCluster() == "":
			return "cluster is empty"
		case isOneOf(m.GetState(), speculative, creating, idle, deleting) && m.GetCluster() != "":
			return "cluster is " + m.GetCluster()
		}
		return ""
	}},
	{"record.metadata", "A machine without a cluster has no metadata.", pageMetadata, func(m *pb.Machine) string {
		if isOneOf(m.GetState(), speculative, creating, idle, deleting) && len(m.GetShardMetadata()) > 0 {
			return "shard_metadata is set"
		}
		return ""
	}},
	{"record.resources", "Resources and allocatable are Kubernetes quantities, at least 0; one of both is set.", pageRecords, brokenResources},
	{"record.last-error", "A Failed machine says why.", pageRecords, func(m *pb.Machine) string {
		if m.GetState() == failed && m.GetLastError() == "" {
			return "last_error is empty"
		}
		return ""
	}},
}

func name(field, value string, required bool) string {
	if value == "" && !required {
		return ""
	}
	if err := model.CheckName(value); err != nil {
		return field + " " + err.Error()
	}
	return ""
}

func brokenNames(m *pb.Machine) string {
	out := []string{name("instance_type", m.GetInstanceType(), false), name("zone", m.GetZone(), false), name("cluster", m.GetCluster(), false)}
	for k := range m.GetLabels() {
		out = append(out, name("a label", k, true))
	}
	for _, r := range []*pb.Resources{m.GetResources(), m.GetAllocatable()} {
		for k := range r.GetResources() {
			out = append(out, name("a resource", k, true))
		}
	}
	return strings.Trim(strings.Join(out, " "), " ")
}

func brokenHost(m *pb.Machine) string {
	h := m.GetHost()
	switch m.GetState() {
	case speculative:
		if h.GetRef() != "" {
			return "host is " + h.GetRef()
		}
	case idle, configuring, configured, draining, deleting:
		switch {
		case h.GetProvider() == "":
			return "host.provider is empty"
		case h.GetRef() == "":
			return "host.ref is empty"
		}
	}
	return ""
}

func brokenResources(m *pb.Machine) string {
	if len(m.GetResources().GetResources())+len(m.GetAllocatable().GetResources()) == 0 {
		return "resources and allocatable are empty"
	}
	for _, r := range []*pb.Resources{m.GetResources(), m.GetAllocatable()} {
		if _, faults := model.ParseResources(r.GetResources()); len(faults) > 0 {
			return faults[0].Error()
		}
	}
	return ""
}

// saw holds a record to the rules.
func (t *Target) saw(where string, m *pb.Machine) {
	for i := range rules {
		if what := rules[i].broken(m); what != "" {
			t.violate(rules[i].id, broken(rules[i].promise, "%s: %s, in %s", where, what, brief(m)))
		}
	}
	provider := m.GetHost().GetProvider()
	if provider == "" {
		return
	}
	t.mu.Lock()
	first := t.host
	if first == "" {
		t.host = provider
	}
	t.mu.Unlock()
	if first != "" && first != provider {
		t.violate(ruleHostProvider, broken("host.provider "+first+", as before", "%s: %s", where, brief(m)))
	}
}

// violate notes the first violation of a rule.
func (t *Target) violate(id string, what error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.violations[id] == nil {
		t.violations[id] = what
	}
}

func (t *Target) violation(id string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.violations[id]
}

// recordChecks say what was seen of the rules. They come late, when much was seen; alone,
// they look at one life.
func recordChecks() (out []Check) {
	held := func(id string) func(context.Context, *Target) error {
		return func(ctx context.Context, t *Target) error {
			if _, err := t.list(ctx, &pb.ListFilter{}); err != nil {
				return err
			}
			if err := t.violation(id); err != nil {
				return err
			}
			_, lived := t.life.get(ctx, t, live)
			if err := t.violation(id); err != nil {
				return err
			}
			if len(t.machines) == 0 {
				return nil // what is listed keeps it
			}
			return lived
		}
	}
	for i := range rules {
		out = append(out, Check{rules[i].id, rules[i].promise, rules[i].reference, held(rules[i].id)})
	}
	return append(out,
		Check{ruleSameID, "Get and the answers to calls are about the machine that was asked for.", pageRecords, held(ruleSameID)},
		Check{ruleHostProvider, "All hosts of a provider name the same provider.", pageRecords, held(ruleHostProvider)},
		Check{"record.operations", "A new change has an operation that no other change had.", pageRepeats, func(ctx context.Context, t *Target) error {
			if _, err := t.life.get(ctx, t, live); err != nil && t.reused == nil {
				return err
			}
			return t.reused
		}})
}
