package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tonnage/tonnage/engine/model"
)

// Describe prints a world for the message of a failed test: a line a machine,
// a line a row, absent fields left out. Quantities are in natural units;
// stamps name the rows whose profile they carry, "~" where without its Same.
func Describe(w World) string {
	var b strings.Builder
	fmt.Fprintf(&b, "now: %s\nreported: %v\n", time.Unix(0, w.Now).UTC().Format(time.RFC3339Nano), reported(w))
	if len(w.DrainSeconds) > 0 {
		fmt.Fprintf(&b, "drainSeconds: %v\n", w.DrainSeconds)
	}
	for _, t := range w.Tenants {
		fmt.Fprintf(&b, "tenant %s: clusters %v, share %s\n", t.Name, t.Clusters, amounts(t.Share))
	}
	for i := range w.Needs {
		if w.BackingOff[w.Needs[i].Owner()] {
			fmt.Fprintf(&b, "backs off: [%d]\n", i)
		}
	}
	if w.OneByOne {
		b.WriteString("victims: machine\n")
	}
	if w.Band != 1 {
		fmt.Fprintf(&b, "band: %v\n", w.Band)
	}
	if len(w.Nested) > 0 {
		fmt.Fprintf(&b, "nested: %v\n", w.Nested)
	}
	if w.TopDomains > 0 {
		fmt.Fprintf(&b, "topDomains: %d\n", w.TopDomains)
	}
	if w.SearchPairs > 0 {
		fmt.Fprintf(&b, "searchPairs: %d\n", w.SearchPairs)
	}
	if w.SearchUnits > 0 {
		fmt.Fprintf(&b, "searchUnits: %d\n", w.SearchUnits)
	}
	if w.Fit {
		fmt.Fprintf(&b, "acquire: fit\nmaxMachineShare: %v\n", w.MaxMachineShare)
	}
	b.WriteString("machines:\n")
	sorted := slices.Clone(w.Machines)
	slices.SortFunc(sorted, func(a, b model.Machine) int { return strings.Compare(a.ID, b.ID) })
	for i := range sorted {
		fmt.Fprintf(&b, "- %s\n", describeMachine(w, &sorted[i]))
	}
	b.WriteString("needs:\n")
	for i := range w.Needs {
		fmt.Fprintf(&b, "- [%d] %s\n", i, describeNeed(w, &w.Needs[i]))
	}
	return b.String()
}

func reported(w World) []string {
	var out []string
	for _, c := range slices.Sorted(maps.Keys(w.Reported)) {
		if w.Reported[c] {
			out = append(out, c)
		}
	}
	return out
}

// fields collects "name: value" for what is set.
type fields []string

func (f *fields) add(name string, value any, set bool) {
	if set {
		*f = append(*f, fmt.Sprintf("%s: %v", name, value))
	}
}

func (f fields) String() string { return "{" + strings.Join(f, ", ") + "}" }

func describeMachine(w World, m *model.Machine) string {
	f := fields{m.ID, m.State.String()}
	f.add("cluster", m.Cluster, m.Cluster != "")
	f.add("type", m.InstanceType, m.InstanceType != "")
	f.add("zone", m.Zone, m.Zone != "")
	f.add("capacity", m.CapacityType, m.CapacityType != 0)
	f.add("resources", amounts(m.Resources), true)
	f.add("allocatable", amounts(m.Allocatable), len(m.Allocatable) > 0)
	f.add("labels", m.Labels, len(m.Labels) > 0)
	f.add("price", m.PricePerHour, m.PricePerHour != 0)
	f.add("probability", m.InterruptionProbability, m.InterruptionProbability != 0)
	f.add("idleFor", time.Duration(w.Now-m.IdleSince), m.State == model.Idle)
	if a := m.Assigned; a != (model.Assignment{}) {
		f.add("assigned", fields{
			fmt.Sprintf("priority: %d", a.Priority), "interruption: " + a.Interruption.Label(), "reclamation: " + a.Reclamation.Label(),
			fmt.Sprintf("need: %s, group: %q", stampOf(w, a.Fingerprint), a.Group)}, true)
	}
	if r := m.Reservation; r.Active() {
		f.add("reserved", fields{
			fmt.Sprintf("for: %s %s %q", r.Owner.Cluster, stampOf(w, r.Owner.Fingerprint), r.Owner.Group),
			fmt.Sprintf("rank: %d/%s/%s", r.Priority, r.Interruption.Label(), r.Reclamation.Label()),
			"ends: " + deadline(w, r.Deadline),
			fmt.Sprintf("plan: %d %q", r.Plan, r.Domain)}, true)
	}
	return f.String()
}

func deadline(w World, at int64) string {
	if at == 0 {
		return "never"
	}
	return fmt.Sprintf("now%+d", at-w.Now)
}

// stampOf names the first row whose profile has the fingerprint.
func stampOf(w World, fingerprint uint64) string {
	for i, n := range w.Needs {
		if n.Profile.Fingerprint() == fingerprint {
			return fmt.Sprintf("[%d]", i)
		}
	}
	for i, n := range w.Needs {
		if n.Profile.WithoutSame().Fingerprint() == fingerprint {
			return fmt.Sprintf("[%d]~", i)
		}
		if n.Profile.Folded().Fingerprint() == fingerprint {
			return fmt.Sprintf("[%d]+", i)
		}
	}
	return fmt.Sprintf("%#x", fingerprint)
}

func describeNeed(w World, n *model.Need) string {
	f := fields{n.Cluster}
	p := n.Profile
	f.add("priority", p.Priority(), true)
	f.add("interruption", p.Interruption().Label(), p.Interruption() != 0)
	f.add("reclamation", p.Reclamation().Label(), p.Reclamation() != 0)
	for _, r := range p.Requirements() {
		f = append(f, strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Key, r.Operator, strings.Join(r.Values, "|"))))
	}
	for _, s := range p.Spread() {
		f = append(f, fmt.Sprintf("spread %s %d %s", s.Key, s.MaxSkew, s.WhenUnsatisfiable))
	}
	f.add("aggregate", amounts(n.Aggregate), true)
	f.add("minUnit", amounts(n.MinUnit), len(n.MinUnit) > 0)
	f.add("minAggregate", amounts(n.MinAggregate), len(n.MinAggregate) > 0)
	f.add("group", n.Group, n.Group != "")
	f.add("arrival", fmt.Sprintf("now%+d", n.Arrival-w.Now), n.Arrival != 0)
	f.add("shortFor", time.Duration(w.Now-n.ShortSince), n.ShortSince != 0)
	f.add("parked", true, n.Parked)
	return f.String()
}

func amounts(r model.Resources) string {
	var f fields
	for _, a := range r {
		f = append(f, fmt.Sprintf("%s: %d", a.Name, a.Value))
	}
	return f.String()
}
