package sim

import (
	"slices"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/history"
	"github.com/tonnage/tonnage/engine/model"
)

// parts are the machines that were bound, bought or let go of in a stage, by id. One that was bound or bought is a part that something
// larger has made superfluous when its Need lacked something with it, lacks no more of anything without it, and has a
// machine that it had not then: it was sought because nothing better was free, and sooner is better.
//
// One that was let go of for a Need, and goes back to the cluster that it left, is explained by something sooner
// (decision 76) when that Need lacks no more of anything than it did, and has a machine that neither it nor its plan had then.
type parts map[string]part

type part struct {
	need    string // whose it is, or for whom it drains
	cluster string // that it left
	lacks   model.Resources
	had     map[string]struct{} // what the Need claimed, and what was held for it
	// excepted: it was bought and bound as a part, and was reclaimed as one. What is left is to delete it.
	excepted bool
}

// explained are the machines of actions that a cycle undoes, by what explains it.
type explained struct{ parts, sooner []string }

// take notes what a cycle binds, buys and lets go of, and returns what explains the actions that it undoes. held says for which
// Needs plans hold a machine after it.
func (p parts) take(x *Cycle, claims map[string]string, held map[string][]string) (out explained) {
	of := func(need string) map[string]struct{} {
		ids := map[string]struct{}{}
		for id, n := range claims {
			if n == need {
				ids[id] = struct{}{}
			}
		}
		return ids
	}
	gained := func(was part) bool {
		for id := range of(was.need) {
			if _, had := was.had[id]; !had {
				return was.lacks.Covers(x.lacks[was.need])
			}
		}
		return false
	}
	counted := map[engine.Kind]int{
		engine.Reclaim: x.wasted.Undone[history.BoundReclaimed], engine.Delete: x.wasted.Undone[history.BoughtDeleted],
		engine.Bootstrap: x.wasted.Undone[history.PreemptedBoundBack] + x.wasted.Undone[history.ReclaimedBoundBack],
	}
	for _, a := range x.Actions {
		was, known := p[a.Machine]
		switch a.Kind {
		case engine.Bootstrap:
			if known && was.cluster != "" && was.cluster == a.cluster && counted[a.Kind] > 0 && gained(was) {
				out.sooner = append(out.sooner, a.Machine)
				counted[a.Kind]--
			}
			p[a.Machine] = part{need: a.Need, lacks: x.lacks[a.Need], had: of(a.Need)}
		case engine.Provision:
			p[a.Machine] = part{need: a.Need, lacks: x.lacks[a.Need], had: of(a.Need)}
		case engine.Delete, engine.Reclaim, engine.Preempt:
			isPart := known && counted[a.Kind] > 0 && (was.excepted || was.cluster == "" && !was.lacks.IsZero() && gained(was))
			if isPart {
				out.parts = append(out.parts, a.Machine)
				counted[a.Kind]--
			}
			delete(p, a.Machine)
			p.letGo(x, a, of, held)
			if isPart && a.Kind == engine.Reclaim {
				if _, drains := p[a.Machine]; !drains {
					p[a.Machine] = part{excepted: true}
				}
			}
		}
	}
	return out
}

// letGo notes a machine that leaves its cluster for a Need.
func (p parts) letGo(x *Cycle, a Action, of func(string) map[string]struct{}, held map[string][]string) {
	need := a.Need
	if a.Kind == engine.Reclaim && len(held[a.Machine]) > 0 {
		need = held[a.Machine][0]
	}
	if need == "" || a.cluster == "" {
		return
	}
	had := of(need)
	for id, needs := range held {
		if slices.Contains(needs, need) {
			had[id] = struct{}{}
		}
	}
	p[a.Machine] = part{need: need, cluster: a.cluster, lacks: x.lacks[need], had: had}
}

// heldFor returns the Needs for which plans hold a machine, by machine.
func (r *run) heldFor() map[string][]string {
	out := map[string][]string{}
	for o, ids := range r.gangs.held {
		rollup := r.gangs.accepted[o.Cluster]
		if rollup == nil {
			continue
		}
		for i := range rollup.Needs {
			n := &rollup.Needs[i]
			fold := model.Owner{Cluster: o.Cluster, Fingerprint: n.Profile.WithoutSame().Fingerprint()}
			if n.Owner() != o && (n.Profile.Same() == nil || fold != o) {
				continue
			}
			for id := range ids {
				out[id] = append(out[id], n.Name)
			}
		}
	}
	return out
}
