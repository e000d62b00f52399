package engine

// CreditCounts says which Needs credit concerned itself with.
type CreditCounts struct {
	// CreditLooks counts the Needs that came on the worklist of their cluster. Some of them kept the
	// credit of the last cycle.
	CreditLooks int
	// CreditedBy counts the credited Needs by cause.
	CreditedBy [NumCreditCauses]int
}

func (c *CreditCounts) add(x *CreditCounts) {
	c.CreditLooks += x.CreditLooks
	for i, n := range x.CreditedBy {
		c.CreditedBy[i] += n
	}
}

// CreditCause is why the credit of a Need was computed.
type CreditCause uint8

// The causes. Of several that hold, the first counts.
const (
	notCredited   CreditCause = iota
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
