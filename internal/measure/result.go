package measure

import (
	"encoding/json"
	"io"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/history"
)

// Result is what a run measured. Scripts rely on the keys of its JSON.
type Result struct {
	Rung   string `json:"rung"`
	Regime string `json:"regime"`
	Seed   uint64 `json:"seed"`
	// Victims is how phase 2 chooses them: "gang" or "machine".
	Victims string `json:"victims"`
	// Acquire is the rule of acquisition: "cheapest" or "fit".
	Acquire string `json:"acquire"`
	Workers int    `json:"workers"`
	Cycles  int    `json:"cycles"`
	// FullCycles are the measured cycles that built on nothing, CheckedCycles
	// those that were decided a second time, from nothing; neither is part of
	// the other.
	FullCycles    int `json:"fullCycles"`
	CheckedCycles int `json:"checkedCycles"`
	Machines      int `json:"machines"`
	Needs         int `json:"needs"`
	NeedsFolded   int `json:"needsFolded"` // what is left after folding
	Classes       int `json:"classes"`
	// SettleCycles is how many cycles a steady fleet took to come to rest
	// before the measurement; AtRest tells whether it did.
	SettleCycles int  `json:"settleCycles"`
	AtRest       bool `json:"atRest"`

	// ChangedMachines and ChangedNeeds are how many were others in the last
	// measured cycle than in the one before it; 0 where cycles decide from scratch.
	ChangedMachines int `json:"changedMachines"`
	ChangedNeeds    int `json:"changedNeeds"`
	// AdoptedMachines are those that have another stamp in the last measured cycle
	// than in the one before it, in whatever state: they had come to serve another Need.
	AdoptedMachines int `json:"adoptedMachines"`

	// Rest is over all measured cycles: what was decided anew and, in the steady regime,
	// what of the actions came to nothing. Other regimes carry nothing out.
	Rest history.Totals `json:"rest"`
	// CreditLooks counts the Needs that came on the worklists of credit over all measured cycles,
	// CreditedBy those of them that were credited, by cause; see engine.CreditCause.
	CreditLooks int            `json:"creditLooks"`
	CreditedBy  map[string]int `json:"creditedBy"`

	CycleMillis Spread `json:"cycleMillis"`
	PhaseMillis Phases `json:"phaseMillis"`
	// CPUMillis is the processor time of a cycle, over all threads: what a
	// machine that is shared leaves comparable.
	CPUMillis Spread `json:"cpuMillis"`
	// FloorMillis is what this machine's memory allows at best: every row read, every machine
	// rewritten, nothing computed, by as many workers; the least of those measured between
	// the cycles. TimesFloor and P50TimesFloor are how many times that the fastest and the median
	// cycle take.
	FloorMillis   float64 `json:"floorMillis"`
	TimesFloor    float64 `json:"timesFloor"`
	P50TimesFloor float64 `json:"p50TimesFloor"`

	// AllocsPerCycle is the median, as is AllocBytesPerCycle.
	AllocsPerCycle     int64 `json:"allocsPerCycle"`
	AllocsPerCycleMax  int64 `json:"allocsPerCycleMax"`
	AllocBytesPerCycle int64 `json:"allocBytesPerCycle"`
	// BytesPerMachine and BytesPerNeed are those of the tables by BytesFrom.
	BytesPerMachine float64 `json:"bytesPerMachine"`
	BytesPerNeed    float64 `json:"bytesPerNeed"`
	BytesFrom       string  `json:"bytesFrom"`
	// The heap's growth when the tables were filled, before the first cycle
	// built its indexes.
	HeapBytesPerMachine float64 `json:"heapBytesPerMachine"`
	HeapBytesPerNeed    float64 `json:"heapBytesPerNeed"`
	// MemoryBytes is what tables and engine hold at the end, by purpose.
	MemoryBytes map[string]int64 `json:"memoryBytes"`
	// RSSBytes is what of the process is in memory at the end: the generator of
	// the workload too, and the second world of cold and contended.
	RSSBytes int64 `json:"rssBytes"`

	// Those of the last measured cycle.
	Probes           int64 `json:"probes"`
	SearchPairs      int   `json:"searchPairs"`
	SearchUnits      int   `json:"searchUnits"`
	Proposals        int64 `json:"proposals"`
	Conflicts        int64 `json:"conflicts"`
	Displacements    int64 `json:"displacements"`
	Retries          int64 `json:"retries"`
	RetriesExhausted int64 `json:"retriesExhausted"`
	// Actions, Satisfied and Unsatisfied are those of the last measured cycle;
	// ActionsTotal is over all measured cycles.
	Actions      map[string]int `json:"actions"`
	ActionsTotal map[string]int `json:"actionsTotal"`
	Satisfied    int            `json:"satisfied"`
	Unsatisfied  int            `json:"unsatisfied"`
	// PlanChecksum is that of the plan that all measured cycles gave; of a
	// steady run it is over the plans of all measured cycles in turn.
	PlanChecksum string `json:"planChecksum"`
	Verified     string `json:"verified"`
	// VerifiedCycles is how many plans were compared; ReferenceCycles, how many of these
	// with the reference's. The others were with that of one worker that builds on nothing.
	VerifiedCycles  int `json:"verifiedCycles"`
	ReferenceCycles int `json:"referenceCycles"`
	// VerifyMillis is how long the other way took: the reference, or where it was never
	// asked one worker that builds on nothing. Zeros when nothing was compared.
	VerifyMillis Spread  `json:"verifyMillis"`
	CPU          string  `json:"cpu"`
	GOAMD64      string  `json:"goamd64"`
	SIMD         string  `json:"simd"`
	Load1        float64 `json:"load1"`
}

// bytesFromAccounts says that bytes are what the tables say they hold.
const bytesFromAccounts = "accounts"

// WriteJSON prints the result as one object.
func (r *Result) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(r)
}

// takeCredit adds what credit looked at in a cycle.
func (r *Result) takeCredit(c *engine.CreditCounts) {
	r.CreditLooks += c.CreditLooks
	for cause, n := range c.CreditedBy {
		if n > 0 {
			r.CreditedBy[engine.CreditCause(cause).String()] += n
		}
	}
}

// takePlan notes what a plan says; the last one's figures stay.
func (r *Result) takePlan(st *engine.Stats) {
	r.Machines, r.Needs, r.NeedsFolded, r.Classes = st.Machines, st.Needs, st.Folded, st.Classes
	r.Satisfied, r.Unsatisfied, r.Probes = st.Satisfied, st.Unsatisfied, st.Probes
	r.SearchPairs, r.SearchUnits = st.SearchPairs, st.SearchUnits
	r.Proposals, r.Retries = st.Proposals, st.Retries
	r.Conflicts, r.Displacements, r.RetriesExhausted = st.Conflicts, st.Displacements, st.RetriesExhausted
	switch {
	case st.Checked:
		r.CheckedCycles++
	case st.Full:
		r.FullCycles++
	}
	for k, n := range st.Actions {
		r.Actions[engine.Kind(k).String()] = n
		r.ActionsTotal[engine.Kind(k).String()] += n
	}
}

// takeSamples notes what the cycles took.
func (r *Result) takeSamples(s *samples) {
	r.CycleMillis, r.CPUMillis, r.PhaseMillis = spreadOf(s.cycle, nanosPerMilli), spreadOf(s.cpu, nanosPerMilli), s.phases()
	r.FloorMillis = spreadOf(s.floor, nanosPerMilli).Min
	r.TimesFloor, r.P50TimesFloor = r.CycleMillis.Min/r.FloorMillis, r.CycleMillis.P50/r.FloorMillis
	allocs := spreadOf(s.allocs, 1)
	r.AllocsPerCycle, r.AllocsPerCycleMax = int64(allocs.P50), int64(allocs.Max)
	r.AllocBytesPerCycle = int64(spreadOf(s.allocBytes, 1).P50)
}

// takeMemory notes what the tables and the engine hold.
func (r *Result) takeMemory(e *engine.Engine, in engine.Input, g growth) {
	var supply, demand alloc.Accounts
	in.Supply.Account(&supply)
	in.Demand.Account(&demand)
	r.BytesFrom = bytesFromAccounts
	r.BytesPerMachine = per(supply.Total().Reserved, in.Supply.Len())
	r.BytesPerNeed = per(demand.Total().Reserved, in.Demand.Len())
	r.HeapBytesPerMachine, r.HeapBytesPerNeed = g.perMachine, g.perNeed
	r.MemoryBytes = map[string]int64{}
	for _, usage := range [...][alloc.NumPurposes]alloc.Usage{supply.Usage(), demand.Usage(), e.Memory()} {
		for p, u := range usage {
			if u.Reserved > 0 {
				r.MemoryBytes[alloc.Purpose(p).String()] += u.Reserved
			}
		}
	}
	r.RSSBytes = rssBytes()
}

// per divides, to a tenth.
func per(total int64, n int) float64 {
	if n == 0 {
		return 0
	}
	return float64(total*10/int64(n)) / 10
}
