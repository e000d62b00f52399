package model

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// Operator says how a requirement looks at an attribute. The numbers up to
// Same are those of the wire enum; Gt and Lt have no wire form yet.
type Operator uint8

// The operators.
const (
	OpUnspecified Operator = iota
	In
	NotIn
	Exists
	DoesNotExist
	Same
	Gt
	Lt

	numOperators = int(Lt) + 1
)

var operatorNames = [numOperators]string{"Unspecified", "In", "NotIn", "Exists", "DoesNotExist", "Same", "Gt", "Lt"}

// String returns the operator's name as files spell it.
func (o Operator) String() string {
	if int(o) < len(operatorNames) {
		return operatorNames[o]
	}
	return fmt.Sprintf("Operator(%d)", uint8(o))
}

// ParseOperator returns the operator of that name.
func ParseOperator(name string) (Operator, bool) {
	for i := 1; i < numOperators; i++ {
		if operatorNames[i] == name {
			return Operator(i), true
		}
	}
	return OpUnspecified, false
}

// Requirement is one condition on a machine's attribute.
type Requirement struct {
	Key      string
	Operator Operator
	Values   []string
}

// Matches reports whether an attribute meets the requirement: its value, and
// whether the machine has it at all. Same asks for presence (and membership if
// values are listed); that a group shares one value is decided elsewhere.
func (r *Requirement) Matches(value string, present bool) bool {
	switch r.Operator {
	case In:
		return present && slices.Contains(r.Values, value)
	case NotIn:
		return !present || !slices.Contains(r.Values, value)
	case Exists:
		return present
	case DoesNotExist:
		return !present
	case Same:
		return present && (len(r.Values) == 0 || slices.Contains(r.Values, value))
	case Gt, Lt:
		if !present || len(r.Values) != 1 {
			return false
		}
		have, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return false
		}
		want, err := strconv.ParseInt(r.Values[0], 10, 64)
		if err != nil {
			return false
		}
		if r.Operator == Gt {
			return have > want
		}
		return have < want
	}
	return false
}

// WhenUnsatisfiable says whether a spread constraint binds. The numbers are
// those of the wire enum.
type WhenUnsatisfiable uint8

// DoNotSchedule is a hard constraint; ScheduleAnyway does not constrain.
const (
	WhenUnspecified WhenUnsatisfiable = iota
	DoNotSchedule
	ScheduleAnyway
)

// String returns the Kubernetes spelling.
func (w WhenUnsatisfiable) String() string {
	switch w {
	case DoNotSchedule:
		return "DoNotSchedule"
	case ScheduleAnyway:
		return "ScheduleAnyway"
	}
	return "Unspecified"
}

// ParseWhenUnsatisfiable is the inverse of String.
func ParseWhenUnsatisfiable(name string) (WhenUnsatisfiable, bool) {
	switch name {
	case "DoNotSchedule":
		return DoNotSchedule, true
	case "ScheduleAnyway":
		return ScheduleAnyway, true
	}
	return WhenUnspecified, false
}

// Spread asks that a Need's machines lie evenly over the values of a key.
type Spread struct {
	Key               string
	MaxSkew           int32 // ≥ 1
	WhenUnsatisfiable WhenUnsatisfiable
}

// ProfileSpec is what a profile is made of, in any order.
type ProfileSpec struct {
	Requirements []Requirement
	Spread       []Spread
	Priority     int32
	Interruption Bucket
	Reclamation  Bucket
}

// FieldError is one fault of an input, with the path to the field.
type FieldError struct {
	Path string // e.g. requirements[0].operator
	Msg  string
}

// Error returns "path: message".
func (e *FieldError) Error() string { return e.Path + ": " + e.Msg }

// Validate returns every fault of the spec, nil when there is none.
func (s *ProfileSpec) Validate() []*FieldError {
	var faults []*FieldError
	fault := func(path, format string, args ...any) {
		faults = append(faults, &FieldError{path, fmt.Sprintf(format, args...)})
	}
	same := -1
	for i, r := range s.Requirements {
		at := fmt.Sprintf("requirements[%d]", i)
		if err := CheckName(r.Key); err != nil {
			fault(at+".key", "%v", err)
		}
		for j, v := range r.Values {
			if err := CheckText(v); err != nil {
				fault(fmt.Sprintf("%s.values[%d]", at, j), "%v", err)
			}
		}
		switch r.Operator {
		case In, NotIn, Exists, DoesNotExist:
		case Same:
			if same >= 0 {
				fault(at, "a second Same requirement; at most one is allowed (the first is requirements[%d])", same)
			} else {
				same = i
			}
		case Gt, Lt:
			if len(r.Values) != 1 {
				fault(at+".values", "%s takes exactly one integer, got %d values", r.Operator, len(r.Values))
			} else if _, err := strconv.ParseInt(r.Values[0], 10, 64); err != nil {
				fault(at+".values[0]", "%s takes an integer, got %q", r.Operator, r.Values[0])
			}
		default:
			fault(at+".operator", "unknown operator; use one of %s", strings.Join(operatorNames[1:], ", "))
		}
	}
	for i, sp := range s.Spread {
		at := fmt.Sprintf("spread[%d]", i)
		if err := CheckName(sp.Key); err != nil {
			fault(at+".topologyKey", "%v", err)
		}
		if sp.MaxSkew < 1 {
			fault(at+".maxSkew", "must be at least 1, got %d", sp.MaxSkew)
		}
		if sp.WhenUnsatisfiable != DoNotSchedule && sp.WhenUnsatisfiable != ScheduleAnyway {
			fault(at+".whenUnsatisfiable", "must be DoNotSchedule or ScheduleAnyway")
		}
	}
	if !s.Interruption.Valid() {
		fault("interruptionPenalty", "no such bucket: %d", s.Interruption)
	}
	if !s.Reclamation.Valid() {
		fault("reclamationPenalty", "no such bucket: %d", s.Reclamation)
	}
	return faults
}

// Profile is the identity of a kind of demand: requirements, spread, priority
// and the two penalty buckets, in canonical form. It is immutable.
type Profile struct {
	spec        ProfileSpec
	canonical   string
	fingerprint uint64
	same        int      // index of the Same requirement, -1
	hard        []Spread // the DoNotSchedule constraints, by key
	withoutSame *Profile // p itself when there is no Same
	folded      *Profile // p itself when there is no Same
	wasSame     int      // of a profile that Folded returns: the index of what Same says of one machine; else -1
}

// NewProfile brings the spec into canonical form: values sorted and
// deduplicated, requirements sorted by key, operator and values, spread by
// key. The error is the first fault of Validate.
func NewProfile(spec ProfileSpec) (*Profile, error) {
	if faults := spec.Validate(); len(faults) > 0 {
		return nil, faults[0]
	}
	reqs := make([]Requirement, len(spec.Requirements))
	for i, r := range spec.Requirements {
		r.Values = slices.Clone(r.Values)
		slices.Sort(r.Values)
		r.Values = slices.Compact(r.Values)
		reqs[i] = r
	}
	slices.SortFunc(reqs, compareRequirements)
	spread := slices.Clone(spec.Spread)
	slices.SortFunc(spread, func(a, b Spread) int {
		if c := strings.Compare(a.Key, b.Key); c != 0 {
			return c
		}
		if c := int(a.WhenUnsatisfiable) - int(b.WhenUnsatisfiable); c != 0 {
			return c
		}
		return int(a.MaxSkew) - int(b.MaxSkew)
	})
	spec.Requirements, spec.Spread = reqs, spread
	return build(spec, xxhash.Sum64String), nil
}

// compareRequirements is the canonical order: by key, operator and values.
func compareRequirements(a, b Requirement) int {
	if c := strings.Compare(a.Key, b.Key); c != 0 {
		return c
	}
	if c := int(a.Operator) - int(b.Operator); c != 0 {
		return c
	}
	return slices.Compare(a.Values, b.Values)
}

// build makes the profile of a spec that is already canonical. hash gives the
// fingerprint of the encoding; tests pass one that collides.
func build(spec ProfileSpec, hash func(string) uint64) *Profile {
	p := &Profile{spec: spec, same: -1, wasSame: -1}
	for i := range spec.Requirements {
		if spec.Requirements[i].Operator == Same {
			p.same = i
		}
	}
	for _, s := range spec.Spread {
		if s.WhenUnsatisfiable == DoNotSchedule {
			p.hard = append(p.hard, s)
		}
	}
	p.canonical = encode(&spec)
	p.fingerprint = hash(p.canonical)
	if p.fingerprint == 0 {
		p.fingerprint = 1 // 0 says "no stamp"
	}
	p.withoutSame, p.folded = p, p
	if p.same >= 0 {
		stripped := spec
		stripped.Requirements = slices.Delete(slices.Clone(spec.Requirements), p.same, p.same+1)
		p.withoutSame, p.folded = build(stripped, hash), fold(spec, p.same, hash)
	}
	return p
}

// fold makes the profile in whose requirements Same, at an index, is replaced by
// what it says of one machine.
func fold(spec ProfileSpec, same int, hash func(string) uint64) *Profile {
	one := Requirement{Key: spec.Requirements[same].Key, Operator: Exists}
	if values := spec.Requirements[same].Values; len(values) > 0 {
		one.Operator, one.Values = In, values
	}
	rest := slices.Delete(slices.Clone(spec.Requirements), same, same+1)
	at, _ := slices.BinarySearchFunc(rest, one, compareRequirements)
	spec.Requirements = slices.Insert(rest, at, one)
	p := build(spec, hash)
	p.wasSame = at
	return p
}

// encode writes the spec so that no two canonical specs share an encoding:
// every string and every list carries its length in front.
func encode(s *ProfileSpec) string {
	b := make([]byte, 0, 128)
	str := func(v string) {
		b = binary.AppendUvarint(b, uint64(len(v)))
		b = append(b, v...)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(s.Priority))
	b = append(b, byte(s.Interruption), byte(s.Reclamation))
	b = binary.AppendUvarint(b, uint64(len(s.Requirements)))
	for i := range s.Requirements {
		r := &s.Requirements[i]
		str(r.Key)
		b = append(b, byte(r.Operator))
		b = binary.AppendUvarint(b, uint64(len(r.Values)))
		for _, v := range r.Values {
			str(v)
		}
	}
	b = binary.AppendUvarint(b, uint64(len(s.Spread)))
	for _, sp := range s.Spread {
		str(sp.Key)
		b = binary.AppendUvarint(b, uint64(sp.MaxSkew))
		b = append(b, byte(sp.WhenUnsatisfiable))
	}
	return string(b)
}

// Requirements returns the requirements in canonical order; do not modify.
func (p *Profile) Requirements() []Requirement { return p.spec.Requirements }

// Spread returns the spread constraints in canonical order; do not modify.
func (p *Profile) Spread() []Spread { return p.spec.Spread }

// HardSpread returns the DoNotSchedule constraints by key, none when the
// profile also has a Same requirement (Same wins). Do not modify.
func (p *Profile) HardSpread() []Spread {
	if p.same >= 0 {
		return nil
	}
	return p.hard
}

// Priority returns the profile's priority.
func (p *Profile) Priority() int32 { return p.spec.Priority }

// Interruption returns the bucket of the cost of interrupting the workload.
func (p *Profile) Interruption() Bucket { return p.spec.Interruption }

// Reclamation returns the bucket of what the machine is worth to the workload.
func (p *Profile) Reclamation() Bucket { return p.spec.Reclamation }

// Same returns the Same requirement, nil when there is none.
func (p *Profile) Same() *Requirement {
	if p.same < 0 {
		return nil
	}
	return &p.spec.Requirements[p.same]
}

// WithoutSame returns the profile without its Same requirement.
func (p *Profile) WithoutSame() *Profile { return p.withoutSame }

// Folded returns the profile of a fold of Needs with this one: Same is replaced by
// what it says of one machine, In its values, or Exists where it has none.
func (p *Profile) Folded() *Profile { return p.folded }

// WasSame returns, of a profile that Folded has made of another, the requirement
// that stands for Same; nil for all others.
func (p *Profile) WasSame() *Requirement {
	if p.wasSame < 0 {
		return nil
	}
	return &p.spec.Requirements[p.wasSame]
}

// Fingerprint returns the xxhash64 of the canonical encoding, never 0. Equal
// profiles have equal fingerprints; use Equal for the reverse.
func (p *Profile) Fingerprint() uint64 { return p.fingerprint }

// Equal reports whether two profiles are the same, by canonical form.
func (p *Profile) Equal(o *Profile) bool { return p == o || p.canonical == o.canonical }

// Canonical returns the canonical encoding, an opaque unambiguous key.
func (p *Profile) Canonical() string { return p.canonical }

// Matches reports whether a machine meets every requirement of the profile by
// itself.
func (p *Profile) Matches(m *Machine) bool {
	for i := range p.spec.Requirements {
		r := &p.spec.Requirements[i]
		if v, ok := m.Attribute(r.Key); !r.Matches(v, ok) {
			return false
		}
	}
	return true
}
