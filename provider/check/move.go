package check

import (
	"strings"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
)

// The states of a machine.
const (
	speculative = pb.MachineState_MACHINE_STATE_SPECULATIVE
	creating    = pb.MachineState_MACHINE_STATE_CREATING
	idle        = pb.MachineState_MACHINE_STATE_IDLE
	configuring = pb.MachineState_MACHINE_STATE_CONFIGURING
	configured  = pb.MachineState_MACHINE_STATE_CONFIGURED
	draining    = pb.MachineState_MACHINE_STATE_DRAINING
	deleting    = pb.MachineState_MACHINE_STATE_DELETING
	failed      = pb.MachineState_MACHINE_STATE_FAILED
)

// move is one of the four calls that change a machine.
type move uint8

const (
	create move = iota
	configure
	drain
	remove
)

// allMoves are the moves in the order of a machine's life.
var allMoves = [...]move{create, configure, drain, remove}

var edges = [...]struct {
	name             string
	from, during, to pb.MachineState
}{
	create:    {"Create", speculative, creating, idle},
	configure: {"Configure", idle, configuring, configured},
	drain:     {"Drain", configured, draining, idle},
	remove:    {"Delete", idle, deleting, speculative},
}

func (m move) String() string          { return edges[m].name }
func (m move) from() pb.MachineState   { return edges[m].from }
func (m move) during() pb.MachineState { return edges[m].during }
func (m move) to() pb.MachineState     { return edges[m].to }
func (m move) id(of string) string     { return lower(m) + "." + of }
func isOneOf(s pb.MachineState, all ...pb.MachineState) bool {
	for _, x := range all {
		if s == x {
			return true
		}
	}
	return false
}

// underWay tells whether a machine in the state is in a move.
func underWay(s pb.MachineState) bool {
	for _, m := range allMoves {
		if m.during() == s {
			return true
		}
	}
	return false
}

// bound tells whether a machine in the state is of a cluster.
func bound(s pb.MachineState) bool { return isOneOf(s, configuring, configured, draining) }

// towards returns the next move from a settled state to another one.
func towards(from, to pb.MachineState) move {
	switch {
	case from == speculative:
		return create
	case from == configured:
		return drain
	case to == speculative:
		return remove
	}
	return configure
}

// distance is how many moves lie between two settled states.
func distance(from, to pb.MachineState) int {
	place := func(s pb.MachineState) int {
		switch {
		case isOneOf(s, speculative, deleting):
			return 0
		case isOneOf(s, configured, configuring):
			return 2
		}
		return 1
	}
	d := place(from) - place(to)
	return max(d, -d)
}

// nameOf is a state as people say it.
func nameOf(s pb.MachineState) string {
	name := strings.TrimPrefix(s.String(), "MACHINE_STATE_")
	return name[:1] + strings.ToLower(name[1:])
}
