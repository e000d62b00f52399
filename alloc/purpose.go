package alloc

import "fmt"

// Purpose says what memory is for. It labels accounts and metrics.
type Purpose uint8

// The purposes.
const (
	Machines     Purpose = iota // columns of the machine table
	Needs                       // columns of the NeedsTable
	Dictionaries                // strings and interned vectors
	Index                       // sets of rows by state, profile and domain
	Snapshot                    // the frozen view of supply and demand
	Pass                        // scratch of the phases of one cycle
	Plan                        // the lists of the plan that a cycle hands out
	Ingest                      // roll-ups that wait or are read, and what reads them

	// NumPurposes is the number of purposes.
	NumPurposes = int(Ingest) + 1
)

var purposeNames = [NumPurposes]string{
	"machines", "needs", "dictionaries", "index", "snapshot", "pass", "plan", "ingest",
}

// String returns the purpose's metric label.
func (p Purpose) String() string {
	if int(p) < NumPurposes {
		return purposeNames[p]
	}
	return fmt.Sprintf("Purpose(%d)", uint8(p))
}
