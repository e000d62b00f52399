package cycle

import "sync/atomic"

// Audit says which part of what is kept from cycle to cycle is computed a second time in this cycle, from nothing, and
// counts what differs. Engine.Cycle writes the part; the stages count.
type Audit struct {
	Parts int // a cluster is audited once in so many cycles; 0 = none is in this cycle
	Part  int // of this cycle, from 0
	// Clusters counts the clusters whose credit was computed a second time. Faults counts the differences.
	Clusters, Faults atomic.Int32
}

// sparse is how many times as many cycles it takes to audit all machines in the snapshot and all places in the rank order: they
// are looked up one by one, and each look-up waits for memory.
const sparse = 10

// Has reports whether a cluster is among those that are audited in this cycle.
func (a *Audit) Has(cluster int) bool { return a.Parts > 0 && cluster%a.Parts == a.Part%a.Parts }

// Range returns which of n things are audited in this cycle, of those that are audited once in sparse times Parts cycles.
func (a *Audit) Range(n int) (from, to int) {
	if a.Parts == 0 {
		return 0, 0
	}
	parts := a.Parts * sparse
	part := a.Part % parts
	return n * part / parts, n * (part + 1) / parts
}

// Note counts a difference unless what was found equals what is kept.
func (a *Audit) Note(equal bool) {
	if !equal {
		a.Faults.Add(1)
	}
}
