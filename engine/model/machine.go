package model

import (
	"errors"
	"fmt"
	"math"
)

// The keys that read a machine's typed field before its labels.
const (
	KeyInstanceType = "node.kubernetes.io/instance-type"
	KeyZone         = "topology.kubernetes.io/zone"
	KeyCapacityType = "karpenter.sh/capacity-type"
)

// LabelLateBound with the value "true" says that a machine is made when it is bound to a cluster. Until
// then it costs nothing: while it is Idle, it is a slot of quota like a Speculative machine.
const LabelLateBound = "tonnage.dev/late-bound"

// LabelCountedFor is a label of a bound machine in what a shard tells its cluster: for what it is counted there. Where it is absent, that is not known.
const LabelCountedFor = "tonnage.dev/counted-for"

// Values of LabelCountedFor.
const (
	CountedForGroup = "group" // for a row that has a group, or must be in one domain
	CountedForRow   = "row"   // for any other
)

// Machine is one record of the supply: what the provider says of it and what
// the shard stamped on it. Times are Unix nanoseconds, 0 = not set.
type Machine struct {
	ID                      string
	State                   State
	CapacityType            CapacityType
	Host                    string // empty for Speculative and Creating
	Cluster                 string // set while bound or draining
	InstanceType            string
	Zone                    string
	Resources               Resources
	Allocatable             Resources // replaces Resources as a whole when not empty
	Labels                  map[string]string
	PricePerHour            float64 // USD, ≥ 0
	InterruptionProbability float64 // per hour, 0…1
	LastError               string  // Failed only
	Assigned                Assignment
	IdleSince               int64
	Reservation             Reservation
}

// Assignment is what the shard stamped on a machine when it acquired it: the
// identity and the value of the Need that it serves.
type Assignment struct {
	Priority     int32
	Interruption Bucket
	Reclamation  Bucket
	Fingerprint  uint64 // of the Need's profile; 0 = no stamp
	Group        string
}

// Owner identifies a Need across cycles, whether or not it is folded: the
// fingerprint is that of its profile without the Same requirement.
type Owner struct {
	Cluster     string
	Fingerprint uint64
	Group       string
}

// Reservation holds a machine for one Need: a victim on its way out, or a
// machine that was created for it. The zero value is no reservation.
type Reservation struct {
	Owner Owner
	// Rank on the record, for the time after a restart in which the owner's
	// cluster has not reported.
	Priority     int32
	Interruption Bucket
	Reclamation  Bucket
	Arrival      int64
	// Deadline is when it ends at the latest, Unix nanoseconds, 0 = none yet. A
	// Draining machine's reservation does not expire, and of a plan none does before
	// the last.
	Deadline int64
	// Plan is the id of the plan of preemption that the machine is part of, 0 =
	// none: it was created for its owner. The reservations of a plan end
	// together.
	Plan uint64
	// Domain is the value of the owner's Same key that the plan has chosen;
	// empty = none.
	Domain string
}

// Active reports whether there is a reservation at all.
func (r Reservation) Active() bool { return r.Owner.Cluster != "" }

// CountsOnExcess reports whether it is of a plan of another cluster than the given one, which
// counts on a Configured machine as excess that is reclaimed anyway. Such a reservation has
// a deadline; that of a machine that is preempted for a plan begins when it turns Idle.
func (r *Reservation) CountsOnExcess(cluster string) bool {
	return r.Plan != 0 && r.Deadline != 0 && r.Owner.Cluster != cluster
}

// Departs reports whether a plan of another cluster counts on a Configured machine as excess.
// The machine is to be reclaimed, so no Need is credited it; a Draining machine is not either.
func (m *Machine) Departs() bool {
	return m.State == Configured && m.Reservation.CountsOnExcess(m.Cluster)
}

// EffectiveAllocatable returns what the machine offers to workloads.
func (m *Machine) EffectiveAllocatable() Resources {
	if len(m.Allocatable) > 0 {
		return m.Allocatable
	}
	return m.Resources
}

// Attribute returns the value that requirements on the key see, and whether
// the machine has one: the typed field of the three well-known keys first,
// then the label.
func (m *Machine) Attribute(key string) (string, bool) {
	var typed string
	switch key {
	case KeyInstanceType:
		typed = m.InstanceType
	case KeyZone:
		typed = m.Zone
	case KeyCapacityType:
		typed = m.CapacityType.Label()
	}
	if typed != "" {
		return typed, true
	}
	v, ok := m.Labels[key]
	return v, ok
}

// The reasons for which a machine record is refused.
var (
	ErrPrice       = errors.New("pricePerHour must be a finite number, at least 0")
	ErrProbability = errors.New("interruptionProbability must be between 0 and 1")
	ErrStructural  = errors.New("fields contradict the state")
)

// LabelsBytesMax is the most that all label keys and values of one machine may take
// together.
const LabelsBytesMax = 64 << 10

// Validate checks the record by itself and returns an error that wraps
// ErrPrice, ErrProbability or ErrStructural. With hosts set, the rules about
// the host field are checked too (files for decide leave it out).
func (m *Machine) Validate(hosts bool) error {
	if err := CheckLabels(m.Labels); err != nil {
		return m.structural(err.Error())
	}
	return m.ValidateRest(hosts)
}

// CheckLabels returns what is wrong with a machine's labels, nil when nothing is:
// all together have at most LabelsBytesMax bytes, every key passes CheckName and
// every value CheckText. Of several faults it names the one of the first key.
func CheckLabels(labels map[string]string) error {
	n, sound := 0, true
	for k, v := range labels {
		n += len(k) + len(v)
		sound = sound && k != "" && len(k) <= NameBytesMax && plain(k) && plain(v)
	}
	if n > LabelsBytesMax {
		return fmt.Errorf("labels have %d bytes together; at most %d are accepted", n, LabelsBytesMax)
	}
	if sound {
		return nil
	}
	return firstLabelFault(labels)
}

// firstLabelFault is CheckLabels but for the bytes of all together.
func firstLabelFault(labels map[string]string) error {
	var first error
	at := ""
	for k, v := range labels {
		err := CheckName(k)
		if err != nil {
			err = fmt.Errorf("the key of a label %w", err)
		} else if err = CheckText(v); err != nil {
			err = fmt.Errorf("the value of label %q %w", k, err)
		}
		if err != nil && (first == nil || k < at) {
			first, at = err, k
		}
	}
	return first
}

// shortID returns the id, or the beginning of one that is too long, for errors.
func (m *Machine) shortID() string { return m.ID[:min(len(m.ID), NameBytesMax)] }

// structural returns an error that wraps ErrStructural and names the machine.
func (m *Machine) structural(fault string) error {
	return fmt.Errorf("machine %q in state %s: %w: %s", m.shortID(), m.State, ErrStructural, fault)
}

// ValidateRest is Validate for a machine whose labels are known to pass CheckLabels:
// they are not looked at.
func (m *Machine) ValidateRest(hosts bool) error {
	if fault := m.texts(); fault != "" {
		return m.structural(fault)
	}
	return m.ValidateFields(hosts)
}

// ValidateFields is ValidateRest for a machine whose names and resources are known to
// pass it: it looks at no byte of a name and at no resource. Cost: O(1).
func (m *Machine) ValidateFields(hosts bool) error {
	if !(m.PricePerHour >= 0) || math.IsInf(m.PricePerHour, 0) {
		return fmt.Errorf("machine %q: %w", m.shortID(), ErrPrice)
	}
	if !(m.InterruptionProbability >= 0 && m.InterruptionProbability <= 1) {
		return fmt.Errorf("machine %q: %w", m.shortID(), ErrProbability)
	}
	fault := m.fields()
	if fault == "" {
		fault = m.contradiction(hosts)
	}
	if fault != "" {
		return m.structural(fault)
	}
	return nil
}

// texts says what is wrong with a name or with the resources, "" = nothing.
func (m *Machine) texts() string {
	if m.tooLong() || !(plain(m.ID) && plain(m.Host) && plain(m.Cluster) && plain(m.InstanceType) && plain(m.Zone)) {
		if fault := m.nameFault(); fault != "" {
			return fault
		}
	}
	if !m.Resources.Canonical() || !m.Allocatable.Canonical() {
		return "resources and allocatable must be sorted by name, each name once and each value positive"
	}
	return ""
}

// IsLateBound reports whether the machine is Idle and late-bound: it is not made yet, and costs nothing.
func (m *Machine) IsLateBound() bool { return m.State == Idle && m.Labels[LabelLateBound] == "true" }

// tooLong reports whether there is no id, or a name has too many bytes.
func (m *Machine) tooLong() bool {
	return m.ID == "" || max(len(m.ID), len(m.Host), len(m.Cluster), len(m.InstanceType), len(m.Zone)) > NameBytesMax
}

// fields says what is wrong with a field by itself, whatever its bytes are, "" = nothing.
func (m *Machine) fields() string {
	if m.tooLong() {
		return m.nameFault()
	}
	if n := len(m.Assigned.Group); n > NameBytesMax {
		return fmt.Sprintf("group has %d bytes; at most %d are accepted", n, NameBytesMax)
	}
	if int(m.CapacityType) >= NumCapacityTypes {
		return fmt.Sprintf("no such capacity type: %d", m.CapacityType)
	}
	if !m.Assigned.Interruption.Valid() || !m.Assigned.Reclamation.Valid() {
		return "the assignment has a penalty bucket that does not exist"
	}
	return ""
}

// nameFault says what is wrong with a name, "" = nothing.
func (m *Machine) nameFault() string {
	if err := CheckName(m.ID); err != nil {
		return "id " + err.Error()
	}
	for i, name := range [...]string{m.Host, m.Cluster, m.InstanceType, m.Zone} {
		if err := CheckOptionalName(name); err != nil {
			return [...]string{"host", "cluster", "instanceType", "zone"}[i] + " " + err.Error()
		}
	}
	return ""
}

// contradiction says which field is at odds with the state, "" = none.
func (m *Machine) contradiction(hosts bool) string {
	switch m.State {
	case Speculative, Creating, Idle, Deleting:
		if m.Cluster != "" {
			return fmt.Sprintf("cluster must be empty, it is %q", m.Cluster)
		}
	case Configured, Draining:
		if m.Cluster == "" {
			return "cluster must be set"
		}
	case Configuring, Failed:
	default:
		return "no such state"
	}
	if !hosts {
		return ""
	}
	switch m.State {
	case Speculative, Creating:
		if m.Host != "" {
			return "host must be empty"
		}
	case Idle, Deleting, Configured, Draining:
		if m.Host == "" {
			return "host must be set"
		}
	}
	return ""
}
