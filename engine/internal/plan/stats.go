package plan

// Stats are the facts of one cycle; the edges turn them into metrics.
type Stats struct {
	Machines    int
	Needs       int // rows of the demand
	Folded      int // Needs after folding
	Classes     int
	Satisfied   int
	Unsatisfied int
	Unoffered   int // rows that ask for a resource that no machine offers
	Actions     [NumKinds]int
	// Full says that the cycle built on nothing. Checked says that an incremental answer was compared
	// with one from nothing. Differs says that the two were not equal, or that an audit found something other than
	// what is kept: a fault of the engine.
	Full, Checked, Differs bool
	// Audited counts the clusters of which the credit was computed a second time, from nothing.
	Audited int
	// Credited counts the Needs whose credit was computed: all of them if Full, else those that the
	// changes since the last cycle may concern.
	Credited int
	CreditCounts
	// Clusters counts the clusters with rows or machines, ClustersCredited those in which the credit of
	// some Need was computed. The others keep the credit of the last cycle.
	Clusters, ClustersCredited int
	// Adopted counts the machines of Plan.Adopted, each once: their stamps change, since they serve
	// another Need of their cluster.
	Adopted int
	PlanCounts
	// SearchPairs counts the pairs of a Same-Need and a domain that could hold it, SearchUnits the
	// machines that could be freed there. SearchEnded says that one of them reached its bound in
	// Options, so that Same-Needs of lower rank made no plan.
	SearchPairs, SearchUnits int
	SearchEnded              bool
	// Probes counts the candidates that phases 1 and 2 looked at.
	Probes int64
	AcquireCounts
	// Durations in nanoseconds; 0 without Input.Clock.
	SnapshotNanos  int64
	NormaliseNanos int64
	RankNanos      int64
	Phase1Nanos    int64
	Phase2Nanos    int64
	Phase3Nanos    int64
}

// AcquireCounts says how Needs came to free machines. Counters of conflicts are 0 outside of tests:
// Needs have their turns in rank order.
type AcquireCounts struct {
	// Proposals counts the turns of Needs in acquisition.
	Proposals int64
	// Retries counts the repeated turns, of Needs that had lost a machine.
	Retries int64
	// Conflicts counts the machines that a Need of higher rank had claimed meanwhile, Displacements
	// those that were taken over from a lower rank.
	Conflicts, Displacements int64
	// RetriesExhausted counts the Needs that lost machines too often, and were decided in their turn.
	RetriesExhausted int64
	// Timed counts, by mode, the proposals that were timed, a sample; TimedNanos is the time that these
	// took.
	Timed, TimedNanos [NumProposeModes]int64
}

// ProposeMode is how a Need acquires machines.
type ProposeMode uint8

// The modes.
const (
	ProposeOneByOne ProposeMode = iota // machine by machine, until the Need is covered
	ProposeWhole                       // a Same-Need in one domain

	// NumProposeModes is the number of modes.
	NumProposeModes = int(ProposeWhole) + 1
)

var proposeModeNames = [NumProposeModes]string{"incremental", "all_or_nothing"}

// String returns the mode's name as metrics spell it.
func (m ProposeMode) String() string { return proposeModeNames[m] }

// Add adds the counts of x.
func (c *AcquireCounts) Add(x *AcquireCounts) {
	c.Proposals += x.Proposals
	c.Retries += x.Retries
	c.Conflicts += x.Conflicts
	c.Displacements += x.Displacements
	c.RetriesExhausted += x.RetriesExhausted
	for m := range c.Timed {
		c.Timed[m] += x.Timed[m]
		c.TimedNanos[m] += x.TimedNanos[m]
	}
}

// CreditCounts says which Needs credit concerned itself with.
type CreditCounts struct {
	// CreditLooks counts the Needs that came on the worklist of their cluster. Some of them kept the
	// credit of the last cycle.
	CreditLooks int
	// CreditedBy counts the credited Needs by cause.
	CreditedBy [NumCreditCauses]int
}

// Add adds the counts of x.
func (c *CreditCounts) Add(x *CreditCounts) {
	c.CreditLooks += x.CreditLooks
	for i, n := range x.CreditedBy {
		c.CreditedBy[i] += n
	}
}

// CreditCause is why the credit of a Need was computed.
type CreditCause uint8

// The causes. Of several that hold, the first counts.
const (
	NotCredited   CreditCause = iota
	CreditAnew                // its cluster was credited anew
	CreditRow                 // its row changed
	CreditRobbed              // a Need of higher rank claimed a machine of it
	CreditHeld                // something is held for it, or was, or its plan went to another domain
	CreditLost                // a machine that it claimed left the cluster
	CreditWaiting             // its credit waited for its turn, or a Need of higher rank waits
	CreditStamps              // a machine that it claimed, or one with its stamp, changed
	CreditTempted             // it lacked something, and a machine came or was let go of
	CreditDomains             // it chooses a domain, and machines that it accepts have other claimants

	// NumCreditCauses is the number of causes, with one that stands for none.
	NumCreditCauses = int(CreditDomains) + 1
)

var creditCauseNames = [NumCreditCauses]string{"", "anew", "row", "robbed", "held", "lost", "waiting", "stamps", "tempted", "domains"}

// String returns the cause as outputs spell it, empty for none.
func (c CreditCause) String() string { return creditCauseNames[c] }
