package fleetview

import (
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
)

// namedMachinesMax is the largest fleet of which machines that are gone are named: their
// names are kept for it, 16 bytes a machine. Of larger ones they are counted by cluster.
const namedMachinesMax = 100_000

// moveLog finds the machines that changed their state or cluster from one cycle to the
// next. It takes 5 bytes a machine, and 16 more for the names. O(machines that changed), as the table's
// own record of changes.
type moveLog struct {
	version uint64
	state   []model.State
	cluster []uint32 // numbers of clusters below
	names   []string // by row; nil for large fleets
	known   bool     // a cycle was seen

	clusters []string
	numbers  map[string]uint32
}

// clusterNumbersMax bounds the clusters that moveLog numbers; it begins anew beyond.
const clusterNumbersMax = 1 << 17

// look compares the table with what it was, and adds what changed to a record. The first time
// there is nothing to compare with.
func (l *moveLog) look(t *supply.Table, into *cycleRecord) {
	if len(l.clusters) > clusterNumbersMax {
		*l = moveLog{}
	}
	rows, now, complete := t.Changes(l.version)
	if complete && l.known {
		for _, r := range rows {
			l.compare(t, r, into)
		}
	} else {
		l.all(t, into)
	}
	l.version, l.known = now, true
}

// all compares every row.
func (l *moveLog) all(t *supply.Table, into *cycleRecord) {
	if t.Len() > namedMachinesMax {
		l.names = nil
	} else if l.names == nil {
		l.names = make([]string, 0, t.RowMax())
	}
	for r := range max(t.RowMax(), len(l.state)) {
		l.compare(t, columnar.Row(r), into)
	}
}

// compare compares one row.
func (l *moveLog) compare(t *supply.Table, r columnar.Row, into *cycleRecord) {
	for len(l.state) <= int(r) {
		l.state, l.cluster = append(l.state, model.StateUnspecified), append(l.cluster, 0)
	}
	id, state, cluster := "", model.StateUnspecified, uint32(0)
	if t.Has(r) {
		id, state, cluster = t.ID(r), t.State(r), l.number(t.Cluster(r))
	}
	was, wasOf, wasID := l.state[r], l.cluster[r], id
	if l.names != nil {
		for len(l.names) <= int(r) {
			l.names = append(l.names, "")
		}
		wasID, l.names[r] = l.names[r], id
	}
	l.state[r], l.cluster[r] = state, cluster
	if !l.known || was == state && wasOf == cluster && wasID == id {
		return
	}
	if was != model.StateUnspecified && wasID != id { // another machine has the row
		into.machineMoved(MachineEvent{Machine: wasID, From: was.String(), FromCluster: l.name(wasOf)})
		was, wasOf = model.StateUnspecified, 0
	}
	if was == state && wasOf == cluster {
		return
	}
	e := MachineEvent{Machine: id, FromCluster: l.name(wasOf), ToCluster: l.name(cluster)}
	if was != model.StateUnspecified {
		e.From = was.String()
	}
	if state != model.StateUnspecified {
		e.To = state.String()
	}
	into.machineMoved(e)
}

func (c *cycleRecord) machineMoved(e MachineEvent) {
	if len(c.machines) >= cycleEventsMax {
		c.more++
		return
	}
	c.machines = append(c.machines, e)
}

func (l *moveLog) number(cluster string) uint32 {
	if cluster == "" {
		return 0
	}
	n, ok := l.numbers[cluster]
	if !ok {
		if l.numbers == nil {
			l.numbers, l.clusters = map[string]uint32{}, []string{""}
		}
		n = uint32(len(l.clusters))
		l.numbers[cluster], l.clusters = n, append(l.clusters, cluster)
	}
	return n
}

func (l *moveLog) name(number uint32) string {
	if number == 0 {
		return ""
	}
	return l.clusters[number]
}
