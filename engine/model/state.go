package model

import "fmt"

// State is a machine's place in its life cycle. The numbers are those of the
// wire enum MachineState.
type State uint8

// The states of a machine. Speculative is a quota slot without a host;
// Creating, Configuring, Draining and Deleting are transitional.
const (
	StateUnspecified State = iota
	Speculative
	Creating
	Idle
	Configuring
	Configured
	Draining
	Deleting
	Failed

	// NumStates is the number of values of State, the unspecified one included.
	NumStates = int(Failed) + 1
)

var stateNames = [NumStates]string{"Unspecified", "Speculative", "Creating", "Idle", "Configuring", "Configured", "Draining", "Deleting", "Failed"}

// String returns the state's name as files, metrics and logs spell it.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// ParseState returns the state of that name; Unspecified is not accepted.
func ParseState(name string) (State, bool) {
	for i := 1; i < NumStates; i++ {
		if stateNames[i] == name {
			return State(i), true
		}
	}
	return StateUnspecified, false
}

// legalMoves holds, per state, the set of states that may follow, as bits.
var legalMoves = [NumStates]uint16{
	Speculative: 1 << Creating,
	Creating:    1<<Idle | 1<<Failed,
	Idle:        1<<Configuring | 1<<Deleting,
	Configuring: 1<<Configured | 1<<Failed | 1<<Idle,
	Configured:  1 << Draining,
	Draining:    1<<Idle | 1<<Failed,
	Deleting:    1<<Speculative | 1<<Failed,
}

// LegalMove reports whether a machine may go from one state to another. A
// state may not follow itself, and nothing follows Failed.
func LegalMove(from, to State) bool {
	return int(from) < NumStates && int(to) < NumStates && legalMoves[from]>>to&1 == 1
}

// Bound reports whether a machine in this state is bound to a cluster and so
// counts for it.
func (s State) Bound() bool { return s == Configured || s == Configuring }

// Paid reports whether a machine in the state costs its price: it has a host, or soon will. One that
// is late-bound costs nothing while it is Idle; see Machine.IsLateBound.
func (s State) Paid() bool {
	switch s {
	case Creating, Idle, Configuring, Configured, Draining, Deleting:
		return true
	}
	return false
}

// CapacityType is how a machine is paid for. The numbers are those of the wire
// enum CapacityType.
type CapacityType uint8

// The capacity types.
const (
	CapacityUnspecified CapacityType = iota
	BareMetal
	Reserved
	OnDemand
	Spot

	// NumCapacityTypes is the number of values of CapacityType.
	NumCapacityTypes = int(Spot) + 1
)

var (
	capacityNames  = [NumCapacityTypes]string{"Unspecified", "BareMetal", "Reserved", "OnDemand", "Spot"}
	capacityLabels = [NumCapacityTypes]string{"", "bare-metal", "reserved", "on-demand", "spot"}
)

// String returns the type's name as files and metrics spell it.
func (c CapacityType) String() string {
	if int(c) < len(capacityNames) {
		return capacityNames[c]
	}
	return fmt.Sprintf("CapacityType(%d)", uint8(c))
}

// Label returns the value of the key karpenter.sh/capacity-type, empty for
// Unspecified.
func (c CapacityType) Label() string {
	if int(c) < len(capacityLabels) {
		return capacityLabels[c]
	}
	return ""
}

// ParseCapacityType returns the capacity type of that name.
func ParseCapacityType(name string) (CapacityType, bool) {
	for i, n := range capacityNames {
		if n == name {
			return CapacityType(i), true
		}
	}
	return CapacityUnspecified, false
}
