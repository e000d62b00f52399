package shard

import (
	"maps"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// keyHostname is the label that names a machine's node.
const keyHostname = "kubernetes.io/hostname"

// goneError is what an operator hears of a machine that its provider does not
// list any more.
const goneError = "the provider no longer lists the machine"

// tell queues the news of a machine for the operator of the cluster that it is
// bound to, and for that of the one that it was bound to before.
func (v *inventory) tell(r columnar.Row, before string) {
	if v.operators == nil {
		return
	}
	now := v.table.Cluster(r)
	if before != "" && before != now {
		v.tellCluster(r, before)
	}
	if now != "" {
		v.tellCluster(r, now)
	}
}

func (v *inventory) tellCluster(r columnar.Row, cluster string) {
	if !v.operators.Connected(cluster) {
		return
	}
	m := v.table.Get(r)
	v.operators.NodeState(nodeState(&m, cluster))
}

// tellGone says that a bound machine is no longer there. The protocol has no
// word for it but that it failed.
func (v *inventory) tellGone(r columnar.Row) {
	if v.operators == nil {
		return
	}
	m := v.table.Get(r)
	if m.Cluster == "" || !v.operators.Connected(m.Cluster) {
		return
	}
	m.State, m.LastError = model.Failed, goneError
	v.operators.NodeState(nodeState(&m, m.Cluster))
}

func nodeState(m *model.Machine, cluster string) NodeState {
	u := NodeState{
		Cluster: cluster, Machine: m.ID, State: m.State, NodeName: m.ID, ProviderID: m.Host, LastError: m.LastError,
		Labels: make(map[string]string, len(m.Labels)+2), Resources: m.EffectiveAllocatable(),
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
	return u
}

// Resync tells an operator of every machine that is bound to its cluster, as
// after it has connected, and lets it hear the hints anew; what it refused before is
// forgiven. What changes
// meanwhile follows. It returns the number of machines. O(machines of the
// shard), some nanoseconds each.
func (s *Shard) Resync(cluster string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledgers.hints.forget(cluster)
	s.ledgers.refusals.forgive(func(k demandKey) bool { return k.cluster == cluster })
	return s.inventory.tellAll(cluster)
}

// tellAll tells a cluster's operator of every machine that is bound to it.
func (v *inventory) tellAll(cluster string) (told int) {
	id, known := v.table.NameID(cluster)
	if v.operators == nil || !known {
		return 0
	}
	clusters := v.table.View().Cluster
	for r := columnar.Row(1); int(r) < v.table.RowMax(); r++ {
		if clusters[r] == id && v.table.Has(r) {
			v.tellCluster(r, cluster)
			told++
		}
	}
	return told
}
