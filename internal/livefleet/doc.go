// Package livefleet has the fleets that `tonnage up` starts beside the calibrated workloads and
// the recorded traces: scenarios, and worlds in files.
//
// Both are workload sources: machines at the start, and roll-ups as they fall due. Both do more
// than a workload does. They know their Needs by name, and they move machines while the shard
// runs: a scenario loses a rack, an edited file adds machines. What they move goes through Fleet,
// the provider's own side, so the shard hears of it as it would of a cloud's.
//
// A scenario is a table of machines and Needs with times. It repeats after its period, so that
// whoever looks later sees the same as whoever looked first.
//
// A file is read again when it has changed and is at rest. What differs from what was read before
// is what happens; machines that did not change keep the state that the shard has brought them
// to. A file with faults changes nothing.
package livefleet

import (
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/simulated"
)

// Fleet is the provider's side of machines; the built-in provider is one.
type Fleet interface {
	Add(m model.Machine) error
	Lose(ids ...string) int
	Change(id string, c simulated.Change) error
}

// Trial is a command line that is worth trying against a fleet: the arguments after the name of the
// program and --shard, and what they show.
type Trial struct {
	Command string // before --shard: "explain need"
	Args    string // behind it: "moe"
	Shows   string
}

// identity is what a Need is from one roll-up to the next.
type identity struct {
	cluster     string
	fingerprint uint64
	group       string
}

// namesOf returns the names of Needs by what they are; of Needs that are the same the name is
// left out.
func namesOf(each func(yield func(name string, n *model.Need))) map[identity]string {
	names := map[identity]string{}
	each(func(name string, n *model.Need) {
		id := identityOf(n.Cluster, n)
		if _, twice := names[id]; twice {
			name = ""
		}
		names[id] = name
	})
	return names
}

func identityOf(cluster string, n *model.Need) identity {
	return identity{cluster, n.Profile.Fingerprint(), n.Group}
}
