package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
)

// recorder keeps what a closed loop looked like after each cycle, to say what led to an action that was undone.
type recorder struct {
	course *Course
	needs  map[string]Need // by name
	frames []frame
	last   map[string]deed // by machine and slot
	found  []found
}

// frame is the world after a cycle.
type frame struct {
	cycle    int
	stage    Stage
	actions  []Action
	claims   map[string]string
	lacks    map[string]model.Resources
	machines map[string]model.Machine
	ended    []string
}

// deed is an action that was carried out.
type deed struct {
	kind    engine.Kind
	need    string
	cluster string
	at      int // frame
}

// found is an action that was undone.
type found struct {
	kind     string
	machine  string
	from, to deed
	why      string // it is excepted; "" = it is not
}

func newRecorder(c *Course) *recorder {
	r := &recorder{course: c, needs: map[string]Need{}, last: map[string]deed{}}
	for i := range c.Scenario.Demand {
		for _, n := range c.Scenario.Demand[i].Needs {
			r.needs[n.Name] = n
		}
	}
	r.needs[c.Top.Name] = c.Top
	return r
}

// watch keeps a cycle, and finds the actions that it undoes.
func (rec *recorder) watch(r *run, stage Stage, x *Cycle, why explained) {
	f := frame{cycle: x.Cycle, stage: stage, actions: slices.Clone(x.Actions), claims: maps.Clone(r.claims), lacks: x.lacks, machines: map[string]model.Machine{}, ended: slices.Sorted(maps.Keys(r.gangs.given))}
	r.shard.Machines(func(m model.Machine) bool {
		f.machines[m.ID] = m
		return true
	})
	if len(rec.frames) == 0 || rec.frames[len(rec.frames)-1].stage != stage {
		clear(rec.last) // a stage begins with a change
	}
	rec.frames = append(rec.frames, f)
	for _, a := range x.Actions {
		rec.take(a, why)
	}
}

// take notes an action under the slot in which the one that undoes it looks for it, and finds the one that it undoes.
func (rec *recorder) take(a Action, why explained) {
	d := deed{a.Kind, a.Need, a.cluster, len(rec.frames) - 1}
	undoes := func(slot, kind string) {
		was, known := rec.last[a.Machine+slot]
		delete(rec.last, a.Machine+slot)
		if !known || slot == "drained" && was.cluster != a.cluster {
			return
		}
		x := found{kind: kind, machine: a.Machine, from: was, to: d}
		switch {
		case slices.Contains(why.parts, a.Machine):
			x.why = "part"
		case slices.Contains(why.sooner, a.Machine):
			x.why = "sooner"
		}
		rec.found = append(rec.found, x)
	}
	slot := ""
	switch a.Kind {
	case engine.Provision:
		undoes("gone", "deleted_bought")
		slot = "bought"
	case engine.Delete:
		undoes("bought", "bought_deleted")
		slot = "gone"
	case engine.Bootstrap:
		kind := "reclaimed_bound_back"
		if rec.last[a.Machine+"drained"].kind == engine.Preempt {
			kind = "preempted_bound_back"
		}
		undoes("drained", kind)
		slot = "bound"
	case engine.Preempt:
		undoes("bound", "bound_preempted")
		slot = "drained"
	case engine.Reclaim:
		undoes("bound", "bound_reclaimed")
		slot = "drained"
	}
	rec.last[a.Machine+slot] = d
}

// amounts writes a vector in short: cores, GPUs.
func amounts(r model.Resources) string {
	var s []string
	for _, a := range r {
		name, v := a.Name, a.Value
		if name == "cpu" {
			name, v = "c", v/1000
		}
		if strings.HasSuffix(name, "gpu") {
			name = "g"
		}
		s = append(s, fmt.Sprintf("%d%s", v, name))
	}
	return strings.Join(s, "+")
}

// describe writes a Need in one line.
func (rec *recorder) describe(name string) string {
	n := rec.needs[name]
	if n.Profile == nil {
		return name
	}
	kind := "plain"
	if s := n.Profile.Same(); s != nil {
		kind = "gang/" + s.Key[strings.LastIndex(s.Key, "/")+1:]
		if !n.AllOrNothing() {
			kind = "one/" + s.Key[strings.LastIndex(s.Key, "/")+1:]
		}
	}
	var reqs []string
	for _, r := range n.Profile.Requirements() {
		if r.Operator != model.Same {
			reqs = append(reqs, fmt.Sprintf("%s %v %v", r.Key[strings.LastIndex(r.Key, "/")+1:], r.Operator, r.Values))
		}
	}
	for _, s := range n.Profile.Spread() {
		if s.WhenUnsatisfiable == model.DoNotSchedule {
			kind += "/spread"
		}
	}
	for other, o := range rec.needs {
		if other != name && o.Profile != nil && o.Cluster == n.Cluster && o.Group == n.Group && o.Profile.Fingerprint() == n.Profile.Fingerprint() {
			kind += "/shared"
			break
		}
	}
	return fmt.Sprintf("%s[%s p%d %s %s unit %s min %s grp %s %s]", name, n.Cluster, n.Profile.Priority(), kind, amounts(n.Aggregate), amounts(n.MinUnit), amounts(n.MinAggregate), n.Group, strings.Join(reqs, ","))
}

// machine says in which state a machine is, and for whom it is held; * = by a plan.
func (rec *recorder) machine(m *model.Machine) string {
	s := m.State.String()
	if m.Cluster != "" {
		s += "@" + m.Cluster
	}
	if m.Reservation.Active() {
		s += fmt.Sprintf("→%s/%s", m.Reservation.Owner.Cluster, m.Reservation.Owner.Group)
		if m.Reservation.Plan != 0 {
			s += "*"
		}
	}
	return s
}

// cycles says what each cycle did, which reservations ended in it, and what its Needs lacked.
func (rec *recorder) cycles() string {
	var b strings.Builder
	for i := range rec.frames {
		f := &rec.frames[i]
		fmt.Fprintf(&b, "   %s %d: %s | ended %v | lacks", f.stage, f.cycle, f.did(), f.ended)
		for _, n := range slices.Sorted(maps.Keys(f.lacks)) {
			fmt.Fprintf(&b, " %s:%s", n, amounts(f.lacks[n]))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// did lists the actions of a cycle in short.
func (f *frame) did() string {
	var acts []string
	for _, a := range f.actions {
		acts = append(acts, fmt.Sprintf("%s %s %s", a.Kind.String()[:3], a.Machine, a.Need))
	}
	return strings.Join(acts, ", ")
}

// world lists Needs and machines as the loop begins.
func (rec *recorder) world() string {
	var b strings.Builder
	for _, n := range slices.Sorted(maps.Keys(rec.needs)) {
		fmt.Fprintf(&b, "  %s\n", rec.describe(n))
	}
	for i := range rec.course.Scenario.Machines {
		m := &rec.course.Scenario.Machines[i]
		rack := m.Labels["topology.kubernetes.io/rack"]
		fmt.Fprintf(&b, "  %s %s %s/%s role %s $%v p%d own n%v %s\n", m.ID, amounts(m.EffectiveAllocatable()), m.Zone, rack, m.Labels["example.com/role"], m.PricePerHour, m.Assigned.Priority, rec.ownerOf(m), rec.machine(m))
	}
	return b.String()
}

// ownerOf returns the Need whose stamp a machine carries.
func (rec *recorder) ownerOf(m *model.Machine) string {
	for name, n := range rec.needs {
		if n.Profile != nil && n.Cluster == m.Cluster && n.Profile.Fingerprint() == m.Assigned.Fingerprint && n.Group == m.Assigned.Group {
			return name
		}
	}
	return "-"
}

// claimed returns the machines that a Need claims after a frame.
func (f *frame) claimed(need string) (ids []string) {
	for id, n := range f.claims {
		if n == need {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// story says of each action that was undone beyond the exception what led to it.
func (rec *recorder) story(seed int64) string {
	var b strings.Builder
	for _, x := range rec.found {
		if x.why == "part" {
			continue
		}
		from, to := rec.frames[x.from.at], rec.frames[x.to.at]
		who := x.from.need
		if who == "" {
			who = x.to.need
		}
		fmt.Fprintf(&b, "EVENT seed %d %s %s%s %s: %d→%d | did %s undid %s\n", seed, to.stage, x.why, x.kind, x.machine, from.cycle, to.cycle, rec.describe(x.from.need), rec.describe(x.to.need))
		for _, n := range []string{x.from.need, x.to.need} {
			if n != "" {
				fmt.Fprintf(&b, "  %s: then claims %v lacks %s; now claims %v lacks %s\n", n, from.claimed(n), amounts(from.lacks[n]), to.claimed(n), amounts(to.lacks[n]))
			}
		}
		for _, f := range rec.frames[x.from.at : x.to.at+1] {
			m := f.machines[x.machine]
			fmt.Fprintf(&b, "    %d: [%s claimed %s]", f.cycle, rec.machine(&m), f.claims[x.machine])
			if who != "" {
				fmt.Fprintf(&b, " %s has %v lacks %s", who, f.claimed(who), amounts(f.lacks[who]))
			}
			fmt.Fprintf(&b, " | %s | ended %v\n", f.did(), f.ended)
		}
	}
	return b.String()
}
