package fleetview

import (
	"io"
	"sync"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/whatif"
	"github.com/tonnage/tonnage/internal/world"
	"github.com/tonnage/tonnage/shard"
)

const (
	// AlbumPlansMax is how many plans of preemption the page can still show. One
	// takes at most 150 KB.
	AlbumPlansMax = 64
	// planMachinesMax is how many machines of a plan are listed by name.
	planMachinesMax = 512
)

// Album keeps the last plans of preemption, of all shards of the process, to
// be drawn when somebody looks.
type Album struct {
	mu    sync.Mutex
	plans [AlbumPlansMax]numberedPlan
	last  uint64
}

type numberedPlan struct {
	number uint64 // from 1; 0 = none
	about  PlanRow
	taken  []PlanVictim
	whatif.Drawing
}

// PlanRow is a plan of preemption in a list.
type PlanRow struct {
	Number       uint64 `json:"number"`
	At           int64  `json:"at"` // Unix milliseconds
	Name         string `json:"name"`
	Cluster      string `json:"cluster"`
	Need         string `json:"need"` // the profile in words
	Priority     int32  `json:"priority"`
	Domain       string `json:"domain,omitempty"`
	Machines     int    `json:"machines"`
	GraceSeconds int32  `json:"graceSeconds"` // the longest
}

// PlanVictim is a machine that a plan takes.
type PlanVictim struct {
	Machine      string `json:"machine"`
	From         string `json:"from"`           // the cluster that loses it
	Need         string `json:"need,omitempty"` // that it served; empty = none, or it is gone
	Priority     int32  `json:"priority"`
	GraceSeconds int32  `json:"graceSeconds"`
}

// keep takes in the plans of a cycle, before anything is done about them. A nil
// album keeps none.
func (a *Album) keep(in engine.Input, plan *engine.Plan, names world.Names) []numberedPlan {
	if a == nil || plan.Stats.Actions[engine.Preempt] == 0 {
		return nil
	}
	losers := stampNames{in: in, names: names}
	drawings := whatif.DrawingsOf(in, plan, whatif.Words{
		Profile: shard.Describe, Holder: losers.of,
		Need: func(cluster string, row int) string { return nameAt(in, names, cluster, row) },
	})
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make([]numberedPlan, 0, len(drawings))
	for i := range drawings {
		a.last++
		x := numberedPlan{number: a.last, Drawing: drawings[i]}
		x.describe(in, plan, names, &losers)
		a.plans[a.last%AlbumPlansMax] = x
		out = append(out, x)
	}
	return out
}

// describe says what a plan is for, and what it takes.
func (x *numberedPlan) describe(in engine.Input, plan *engine.Plan, names world.Names, losers *stampNames) {
	x.about = PlanRow{Number: x.number, At: in.Now / 1e6}
	for _, a := range plan.Actions {
		if a.Kind != engine.Preempt || !x.Takes(in.Supply.ID(a.Machine)) {
			continue
		}
		if x.about.Machines == 0 {
			cluster, row := plan.Identity(int(a.Need))
			p := plan.Profile(int(a.Need))
			x.about.Name, x.about.Cluster, x.about.Need, x.about.Priority = nameAt(in, names, cluster, row), cluster, inShort(shard.Describe(p)), p.Priority()
		}
		x.about.Machines++
		x.about.GraceSeconds = max(x.about.GraceSeconds, a.GraceSeconds)
		if len(x.taken) < planMachinesMax {
			of, cluster := in.Supply.Assigned(a.Machine), in.Supply.Cluster(a.Machine)
			x.taken = append(x.taken, PlanVictim{
				Machine: in.Supply.ID(a.Machine), From: cluster, Need: losers.of(cluster, of), Priority: of.Priority, GraceSeconds: a.GraceSeconds,
			})
		}
	}
	for i := range plan.Reservations {
		if r := &plan.Reservations[i]; x.Takes(in.Supply.ID(r.Machine)) {
			x.about.Domain = r.Reservation.Domain
			return
		}
	}
}

// Write draws a plan.
func (a *Album) Write(number uint64, out io.Writer) (ok bool, err error) {
	x := a.get(number)
	if x.number == 0 {
		return false, nil
	}
	return true, x.WriteSVG(out) // nobody changes it
}

// get returns a plan, the zero value when it is not kept.
func (a *Album) get(number uint64) numberedPlan {
	a.mu.Lock()
	defer a.mu.Unlock()
	if x := a.plans[number%AlbumPlansMax]; x.number == number {
		return x
	}
	return numberedPlan{}
}

// list returns the plans that are kept, newest first.
func (a *Album) list() []PlanRow {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := []PlanRow{}
	for i := range uint64(AlbumPlansMax) {
		if i >= a.last {
			break
		}
		out = append(out, a.plans[(a.last-i)%AlbumPlansMax].about)
	}
	return out
}

// planOf returns the plan that takes a machine, and what it takes there; nil and nothing if none is kept.
func planOf(plans []numberedPlan, machine string) (*numberedPlan, PlanVictim) {
	for i := range plans {
		if !plans[i].Takes(machine) {
			continue
		}
		for _, v := range plans[i].taken {
			if v.Machine == machine {
				return &plans[i], v
			}
		}
		return &plans[i], PlanVictim{}
	}
	return nil, PlanVictim{}
}

// stampNamesMax is how many stamps of one cycle are looked up among the rows of their clusters.
const stampNamesMax = 64

// stampNames finds what the Needs are called that machines serve by their stamps, each stamp once.
type stampNames struct {
	in    engine.Input
	names world.Names
	known map[model.Owner]string
}

// of returns the name of the first row that a stamp is of; empty if the row is gone.
func (s *stampNames) of(cluster string, stamp model.Assignment) string {
	k := model.Owner{Cluster: cluster, Fingerprint: stamp.Fingerprint, Group: stamp.Group}
	name, known := s.known[k]
	if known || len(s.known) >= stampNamesMax {
		return name
	}
	if row, _ := rowOf(s.in, cluster, stamp); row >= 0 {
		name = nameAt(s.in, s.names, cluster, row)
	}
	if s.known == nil {
		s.known = map[model.Owner]string{}
	}
	s.known[k] = name
	return name
}

// rowOf returns the first row of a cluster that a stamp is of, and how many it may be of; -1 if there is none.
func rowOf(in engine.Input, cluster string, stamp model.Assignment) (first, alike int) {
	first = -1
	b := in.Demand.Block(cluster)
	if b == nil || stamp.Fingerprint == 0 {
		return first, 0
	}
	for i := range b.Len() {
		p := in.Demand.Profile(b.Profile(i))
		own := p.Fingerprint() == stamp.Fingerprint && b.Group(i) == stamp.Group
		if !own && !(p.Same() != nil && stamp.Group == "" && p.Folded().Fingerprint() == stamp.Fingerprint) {
			continue
		}
		if alike++; first < 0 {
			first = i
		}
	}
	return first, alike
}
