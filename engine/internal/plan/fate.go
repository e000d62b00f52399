package plan

// PlanEnd says why a plan of preemption, or a reservation, ends in a cycle.
type PlanEnd uint8 //nolint:revive // the engine has it under this name

// The causes. If the machines of a plan end for several causes, the first of these counts.
const (
	PlanStands         PlanEnd = iota // it has not ended
	PlanRankLost                      // a Need of higher rank takes one of its machines
	PlanDomainLost                    // even with every preemption, its domain can no longer cover the owner
	PlanOwnerGone                     // the owner is no longer in the demand
	PlanOwnerSatisfied                // the owner is satisfied by other machines
	PlanUnneeded                      // what else is on its way covers what the owner lacks
	PlanExpired                       // its deadlines have passed
	PlanMachinesGone                  // its machines are in states in which they cannot be held

	// NumPlanEnds is the number of causes, PlanStands included.
	NumPlanEnds = int(PlanMachinesGone) + 1
)

var planEndNames = [NumPlanEnds]string{"", "rank_lost", "domain_lost", "owner_gone", "owner_satisfied", "unneeded", "expired", "machines_gone"}

// String returns the cause's name as files and metrics spell it.
func (e PlanEnd) String() string { return planEndNames[e] }

// PlanCounts counts the fates of plans of preemption in a cycle. Everything that plans reserve for one
// owner counts as one plan, whichever cycles planned it. All counts are 0 with VictimsMachine, which
// makes no plans.
type PlanCounts struct { //nolint:revive // a field of Stats has this name
	// PlansMade counts the Needs for which the cycle preempts or reserves by a plan, including
	// additions to plans of earlier cycles.
	PlansMade int
	// Of the plans of earlier cycles, PlansKept still hold a machine after the cycle. PlansCompleted
	// hold none, since their owners bind the rest. PlansEnded, by cause, hold none, and their owners
	// bind none of it; PlansEnded[PlanStands] is 0.
	PlansKept, PlansCompleted int
	PlansEnded                [NumPlanEnds]int
	// LeftBound counts the machines of gangs that plans break but do not use: they stay bound.
	LeftBound int
}

// Fate is the fate of one owner's plan: it still holds a machine, its owner binds one, and the
// first cause, in the order of PlanEnd, for which it lost one.
type Fate struct {
	Stands, Binds bool
	End           PlanEnd
}
