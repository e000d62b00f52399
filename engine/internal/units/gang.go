package units

import "github.com/tonnage/tonnage/columnar"

// Gang is demand that is served as a whole or loses its use: the Needs of one group of a
// cluster, which are its roles, or one Same-Need that no machine holds whole. Its members are
// the machines that its Needs claim.
type Gang struct {
	Cluster int32
	State   GangState // as measured; stateOf also looks at plans and reservations
	// Watched: something was reserved for it, or of it, when phase 2 began, so stateOf must
	// look at reservations.
	Watched bool
	Round   uint32 // mark: the last round in which it was listed; see gangTable.round
	// now memoizes stateOf for the turn of one need; see stateInTurn.
	Turn   uint32
	Now    GangState
	LostAt int // 1 + the index of the last plan that took a member; see lose
	// HasSpare memoizes whether it has a machine above its minimum, for LostAt = SpareAt − 1. Classes is the number of the set of its
	// machines' classes, 0 = it has none yet.
	SpareAt  int
	HasSpare bool
	Classes  int32
	Group    string
	Roles    []GangRole
	Members  []columnar.Row // Configured ones, by id
}

// GangRole is one Need of a gang.
type GangRole struct {
	Need    int32
	Surplus bool // it has more than its minimum, or may have
}

// GangState says what may be taken of a gang.
type GangState uint8

// The states.
const (
	GangSound  GangState = iota // its surplus machine by machine, or all of it
	GangBroken                  // short for shortSecondsBroken with nothing on its way: each member by itself
	GangAlone                   // nothing: it is assembling, or short for less
)
