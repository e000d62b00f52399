package world

import (
	"fmt"
	"io"
	"math"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
)

// PlanWhy is a plan of preemption by gangs, by names.
type PlanWhy struct {
	Domain    string
	Missing   model.Resources
	Units     []UnitWhy // in the order in which they were chosen
	Reprieved []UnitWhy // chosen first, and not taken after all
}

// UnitWhy is one unit of a plan.
type UnitWhy struct {
	engine.UnitExplanation
	Machines []string
	Holders  []string // the Needs that the machines serve
}

func (t *translator) explainPlan(x *engine.PlanExplanation) *PlanWhy {
	if x == nil {
		return nil
	}
	return &PlanWhy{Domain: x.Domain, Missing: x.Missing, Units: t.explainUnits(x.Units), Reprieved: t.explainUnits(x.Reprieved)}
}

func (t *translator) explainUnits(list []engine.UnitExplanation) []UnitWhy {
	out := make([]UnitWhy, 0, len(list))
	for i := range list {
		u := UnitWhy{UnitExplanation: list[i], Machines: t.ids(list[i].Machines, false)}
		for _, h := range list[i].Holders {
			u.Holders = append(u.Holders, t.name(h))
		}
		out = append(out, u)
	}
	return out
}

func (p *PlanWhy) write(j *jsonWriter) {
	j.key("plan")
	j.open('{')
	j.word("domain", p.Domain)
	j.vector("missing", p.Missing)
	writeUnits(j, "units", p.Units)
	writeUnits(j, "reprieved", p.Reprieved)
	j.close('}')
}

func writeUnits(j *jsonWriter, key string, units []UnitWhy) {
	if len(units) == 0 {
		return
	}
	j.key(key)
	j.open('[')
	for i := range units {
		u := &units[i]
		j.line("     ")
		j.open('{')
		j.word("class", u.Class)
		j.names("machines", u.Machines)
		j.word("cluster", u.Cluster)
		j.flag("gang", u.Gang)
		j.word("group", u.Group)
		j.names("servedNeeds", u.Holders)
		j.number("band", u.Band)
		j.number("score", u.Score)
		j.key("terms")
		j.open('{')
		j.number("gap", u.Gap)
		j.number("drainSpeed", u.Drain)
		j.number("interruption", u.Interruption)
		j.number("reclamation", u.Reclamation)
		j.close('}')
		j.number("interruptionDollars", u.InterruptionDollars)
		j.number("reclamationDollars", u.ReclamationDollars)
		if u.Tenant != "" {
			j.word("tenant", u.Tenant)
			j.number("ratio", u.Ratio)
		}
		j.number("gain", u.Gain)
		j.number("cost", u.Cost)
		j.number("roi", u.ROI)
		j.key("graceSeconds")
		j.int(int64(u.GraceSeconds))
		j.flag("onlyReserved", u.Spared)
		j.flag("remainder", u.Remainder)
		j.close('}')
	}
	j.close(']')
}

// writeCost writes what the best plan for a domain would destroy.
func writeCost(j *jsonWriter, c *engine.PlanCost) {
	j.key("cost")
	j.open('{')
	j.number("band", c.Band)
	j.key("gangs")
	j.int(int64(c.Gangs))
	j.key("machines")
	j.int(int64(c.Machines))
	j.number("destroyed", c.Destroyed)
	j.key("graceSeconds")
	j.int(int64(c.GraceSeconds))
	j.close('}')
}

// tell says what a plan takes, and what it was about to take.
func (p *PlanWhy) tell(w io.Writer) {
	for _, list := range []struct {
		says  string
		units []UnitWhy
	}{{"takes", p.Units}, {"spares", p.Reprieved}} {
		for i := range list.units[:min(len(list.units), tableDomainsMax)] {
			u := &list.units[i]
			of := ""
			if u.Tenant != "" {
				of = fmt.Sprintf(" of tenant %s at %.2f of its share", cell(u.Tenant), u.Ratio)
			}
			whose := "served " + cell(shortened(u.Holders))
			if u.Spared && len(u.Holders) > 0 {
				whose = fmt.Sprintf("%s had acquired it in this cycle", cell(shortened(u.Holders)))
			}
			fmt.Fprintf(w, "  the plan %s %s (%s)%s: band %g, gain %.3f of cost %.3f, grace %d s, interruption %s, reclamation %s; %s\n",
				list.says, shortened(u.Machines), u.Class, of, u.Band, u.Gain, u.Cost, u.GraceSeconds,
				dollars(u.InterruptionDollars), dollars(u.ReclamationDollars), whose)
		}
		if more := len(list.units) - tableDomainsMax; more > 0 {
			fmt.Fprintf(w, "  … and %s more; -o json lists them all\n", plural(more, "unit"))
		}
	}
}

// dollars writes what work loses, for people.
func dollars(v float64) string {
	if math.IsInf(v, 1) {
		return "pinned"
	}
	return fmt.Sprintf("$%g", v)
}
