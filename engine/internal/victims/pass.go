package victims

import (
	"github.com/tonnage/tonnage/bitmap"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/assign"
	"github.com/tonnage/tonnage/engine/internal/plan"
	"github.com/tonnage/tonnage/engine/internal/records"
	"github.com/tonnage/tonnage/engine/internal/reuse"
	"github.com/tonnage/tonnage/engine/internal/tenancy"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/snapshot"
)

// Pass is what could be preempted, and what is, in the state of a cycle.
type Pass struct {
	assign.Pass
	st         *Store
	Candidates Candidates
	Preempted  Preempted
	Tenants    Tenants
	Told       Told
}

// Candidates is what phase 2 could preempt, and the memory of its search. Nothing else reads it, but for figures.
type Candidates struct {
	// Machine by machine: the pools by matcher, each of the priority that asked last.
	pools     map[uint32]*victimPool
	noVictims *victimPool
	// By kind: what could be preempted, nil = not computed yet; bounds of what VictimsMachine finds in each domain.
	PoolOf      []*victimPool
	TotalBounds []domainTotalsBound
	leaving     []leavingMachine // see FindLeaving
	// With gangs: the pools of units, and how domains are divided.
	UnitPools map[victimPoolKey]*UnitPool
	Cuts      map[cutKey]*cut // by nested key; built when first needed
	Cut       *cut            // of the Need at work; nil = its domains are not divided
	turns     Turns
	// ended finds machines by class in Reserved.Ended, and spared finds them in Preempted.SparedRows. Both logs are empty when a pass
	// begins, so Forget resets both.
	ended, spared classLog
}

// Preempted is what phase 2 decides; phase 3 and the report read it.
type Preempted struct {
	Victims  []Victim
	VictimOf bitmap.Dense // machines preempted in this cycle
	Spared   bitmap.Dense // machines that drain for nobody since this pass; see SpareDrains
	// SparedRows is Spared, in the order in which they were: an append-only log.
	SparedRows []columnar.Row
	InFlight   map[int32][]int64 // by Need: what drains for it
	// WithheldBy is, by machine, the Need whose acquisition was revoked because its plan went to another domain.
	WithheldBy map[columnar.Row]int32
	Withheld   []int32 // Needs with revoked acquisitions
	// With gangs: the Needs with plans, and what the plans count on.
	Plans   []GangPlan
	Planned []Planned
	Awaited []columnar.Row // machines of an ended plan that the Need at work still counts on
	regiven bool           // some victim has gone from one plan to another
}

// Told is what stages note for Explain, and for Plan.Compared.
type Told struct {
	all         bool            // Explain asks about all Needs
	only        map[int32]bool  // the Needs that Explain asks about, unless about all
	Tried       []records.Tried // the domains in which phase 2 looked
	TriedFrom   int             // index in Tried of the first entry of the Need at work
	Compared    int             // plans whose domains stand in Tried without Explain
	PlanWhys    []records.Planned
	TenancyWhys []records.Turn
}

// Begin begins the pass of a cycle. Phase 2 fills the lists of the last one.
func (p *Pass) Begin(st *Store, s *snapshot.Snapshot, in *plan.Input) {
	p.Pass.Begin(&st.Store, s, in)
	p.st = st
	m := &st.memory
	if m.withheldBy == nil {
		m.withheldBy = map[columnar.Row]int32{}
	}
	clear(m.withheldBy)
	clear(m.tried)
	p.Preempted.WithheldBy = m.withheldBy
	p.Preempted.Victims, p.Preempted.Withheld, p.Told.Tried = m.victims[:0], m.withheld[:0], m.tried[:0]
}

// Lay allocates what phases 1 and 2 need, once the order is known.
func (p *Pass) Lay() {
	p.findTenants()
	p.Pass.Lay(p.Tenants.Shares)
	for _, l := range p.st.Workers {
		l.enter(p)
	}
	rows := p.Snap.Supply.RowMax()
	p.Candidates.noVictims = &p.st.lent.noVictims
	p.Preempted.VictimOf = bitmap.DenseIn(p.Arena, rows)
	p.Preempted.Spared = bitmap.DenseIn(p.Arena, rows)
	findExplained(p)
}

// StartOver begins from nothing, and allocates the columns of gangs.
func (p *Pass) StartOver() {
	p.Pass.StartOver()
	if p.Opts.Victims == plan.VictimsGang {
		p.st.Gangs.lay(p, len(p.st.Lines), len(p.st.Claims))
	}
}

// BeginGangs prepares the table of gangs for phase 2.
func (p *Pass) BeginGangs() { p.st.Gangs.begin(p) }

// Forget forgets what the last cycle found for kinds.
func (p *Pass) Forget() {
	x := &p.st.lent
	x.poolOf = reuse.Resize(x.poolOf, len(p.Kinds))
	for len(x.totalBounds) < len(p.Kinds) {
		x.totalBounds = append(x.totalBounds, domainTotalsBound{})
	}
	for i := range x.totalBounds {
		x.totalBounds[i].Epoch = 0
	}
	p.Candidates.PoolOf, p.Candidates.TotalBounds = x.poolOf, x.totalBounds
	p.Candidates.turns, p.Candidates.ended, p.Candidates.spared = Turns{}, classLog{state: model.Configured}, classLog{state: model.Draining}
}

// LeaveBehind gives back what was lent for the cycle, and saves what the next one builds on.
func (p *Pass) LeaveBehind() {
	st := p.st
	for _, l := range st.Workers {
		l.LeaveBehind()
	}
	p.Save(p.Preempted.Withheld)
	st.memory.victims, st.memory.withheld, st.memory.tried = p.Preempted.Victims, p.Preempted.Withheld, p.Told.Tried
	st.Seen.Epoch = p.Stock.Epoch
	st.lent.pools.TakeBack()
	st.TakeBackUnits()
	st.lent.alikes.TakeBack()
	if p.Opts.Victims == plan.VictimsGang {
		st.Gangs.plans, st.Gangs.planned = p.Preempted.Plans, p.Preempted.Planned
	}
}

// Tenants is the policy between tenants, and its turns at the end of phase 2.
type Tenants struct {
	Shares     *tenancy.Shares // nil = no policy
	Between    reclaimTurns
	Reclaiming bool // these turns are under way
}
