package cycle

import "sync/atomic"

// Audit says which part of the state that cycles keep is computed again from nothing in this cycle, and counts the
// differences. Engine.Cycle sets the part; the stages count.
type Audit struct {
	Parts int // a cluster is audited once in so many cycles; 0 = none is in this cycle
	Part  int // of this cycle, from 0
	// Clusters counts the clusters whose credit was computed a second time. Faults counts the differences.
	Clusters, Faults atomic.Int32
}

// sparse times Parts is the number of cycles in which all machines of the snapshot and all places of the rank order are
// audited. It is more than Parts, since each of these look-ups waits for memory.
const sparse = 10

// Has reports whether a cluster is among those that are audited in this cycle.
func (a *Audit) Has(cluster int) bool { return a.Parts > 0 && cluster%a.Parts == a.Part%a.Parts }

// Range returns which of n machines, or of n places, are audited in this cycle.
func (a *Audit) Range(n int) (from, to int) {
	if a.Parts == 0 {
		return 0, 0
	}
	parts := a.Parts * sparse
	part := a.Part % parts
	return n * part / parts, n * (part + 1) / parts
}

// Note counts a difference unless an audit found its part equal.
func (a *Audit) Note(equal bool) {
	if !equal {
		a.Faults.Add(1)
	}
}
