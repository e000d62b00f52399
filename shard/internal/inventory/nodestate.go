package inventory

import (
	"maps"
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// keyHostname is the label that names a machine's node.
const keyHostname = "kubernetes.io/hostname"

// goneError is the error that an operator gets for a machine that the
// provider no longer lists.
const goneError = "the provider no longer lists the machine"

// NodeState is what an operator is told of a machine of its cluster. Maps and
// slices are shared and must not be modified.
type NodeState struct {
	// Cluster is the cluster whose operator gets the message: the one that the
	// machine is bound to, or was until this change.
	Cluster string
	Machine string
	State   model.State
	// NodeName is the machine's label kubernetes.io/hostname, else its id.
	NodeName   string
	ProviderID string // its host
	LastError  string
	// Labels are the machine's, its instance type and zone under their
	// well-known keys, and model.LabelCountedFor.
	Labels    map[string]string
	Resources model.Resources // what it offers to workloads
}

// Tell queues the news of a machine for the operator of the cluster that it is
// bound to, and for that of the one that it was bound to before.
func (v *Inventory) Tell(r columnar.Row, before string) {
	if v.listener == nil {
		return
	}
	now := v.Table.Cluster(r)
	if before != "" && before != now {
		v.tellCluster(r, before)
	}
	if now != "" {
		v.tellCluster(r, now)
	}
}

func (v *Inventory) tellCluster(r columnar.Row, cluster string) {
	if !v.listener.Connected(cluster) {
		return
	}
	m := v.Table.Get(r)
	u := v.nodeState(&m, cluster)
	if cluster == m.Cluster {
		v.toldCount(r, u.Labels[model.LabelCountedFor])
	}
	v.listener.NodeState(u)
}

// TellGone says that a bound machine is no longer there. The protocol has no
// word for it but that it failed.
func (v *Inventory) TellGone(r columnar.Row) {
	if v.listener == nil {
		return
	}
	m := v.Table.Get(r)
	if m.Cluster == "" || !v.listener.Connected(m.Cluster) {
		return
	}
	m.State, m.LastError = model.Failed, goneError
	v.listener.NodeState(v.nodeState(&m, m.Cluster))
}

func (v *Inventory) nodeState(m *model.Machine, cluster string) NodeState {
	u := NodeState{
		Cluster: cluster, Machine: m.ID, State: m.State, NodeName: m.ID, ProviderID: m.Host, LastError: m.LastError,
		Labels: make(map[string]string, len(m.Labels)+3), Resources: m.EffectiveAllocatable(),
	}
	maps.Copy(u.Labels, m.Labels)
	if m.InstanceType != "" {
		u.Labels[model.KeyInstanceType] = m.InstanceType
	}
	if m.Zone != "" {
		u.Labels[model.KeyZone] = m.Zone
	}
	if host := m.Labels[keyHostname]; host != "" {
		u.NodeName = host
	}
	delete(u.Labels, model.LabelCountedFor)
	if is := v.countedFor(m.Assigned); is != "" && m.State.Bound() {
		u.Labels[model.LabelCountedFor] = is
	}
	return u
}

// toldCount notes what an operator was told that a machine is counted for.
func (v *Inventory) toldCount(r columnar.Row, countedFor string) {
	v.grouped.Remove(r)
	v.rowed.Remove(r)
	switch countedFor {
	case model.CountedForGroup:
		v.grouped.Add(r)
	case model.CountedForRow:
		v.rowed.Add(r)
	}
}

// recount tells the operator of a machine's cluster if the machine is counted for something else than it was told.
func (v *Inventory) recount(r columnar.Row) {
	if v.listener == nil || !v.Table.State(r).Bound() {
		return
	}
	is := v.countedFor(v.Table.Assigned(r))
	if v.grouped.Has(r) != (is == model.CountedForGroup) || v.rowed.Has(r) != (is == model.CountedForRow) {
		v.Tell(r, "")
	}
}

// Recount tells operators of the machines that are counted for something else since fingerprints of profiles have another meaning. O(machines) where
// there are such fingerprints.
func (v *Inventory) Recount(turned []uint64, all bool) {
	if v.listener == nil || len(turned) == 0 && !all {
		return
	}
	slices.Sort(turned)
	turned = slices.Compact(turned)
	view := v.Table.View()
	for row := range view.State {
		r := columnar.Row(row)
		if _, is := slices.BinarySearch(turned, view.Fingerprint(r)); (is || all) && v.Table.Has(r) {
			v.recount(r)
		}
	}
}

// TellAll tells a cluster's operator of every machine that is bound to it.
func (v *Inventory) TellAll(cluster string) (told int) {
	id, known := v.Table.NameID(cluster)
	if v.listener == nil || !known {
		return 0
	}
	clusters := v.Table.View().Cluster
	for r := columnar.Row(1); int(r) < v.Table.RowMax(); r++ {
		if clusters[r] == id && v.Table.Has(r) {
			v.tellCluster(r, cluster)
			told++
		}
	}
	return told
}
