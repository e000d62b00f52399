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
func (s *Shard) tell(r columnar.Row, before string) {
	if s.operators == nil {
		return
	}
	now := s.machines.Cluster(r)
	if before != "" && before != now {
		s.tellCluster(r, before)
	}
	if now != "" {
		s.tellCluster(r, now)
	}
}

func (s *Shard) tellCluster(r columnar.Row, cluster string) {
	if !s.operators.Connected(cluster) {
		return
	}
	m := s.machines.Get(r)
	s.operators.NodeState(nodeState(&m, cluster))
}

// tellGone says that a bound machine is no longer there. The protocol has no
// word for it but that it failed.
func (s *Shard) tellGone(r columnar.Row) {
	if s.operators == nil {
		return
	}
	m := s.machines.Get(r)
	if m.Cluster == "" || !s.operators.Connected(m.Cluster) {
		return
	}
	m.State, m.LastError = model.Failed, goneError
	s.operators.NodeState(nodeState(&m, m.Cluster))
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
// after it has connected, and lets it hear the hints anew. What changes
// meanwhile follows. It returns the number of machines. O(machines of the
// shard), some nanoseconds each.
func (s *Shard) Resync(cluster string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hints.forget(cluster)
	id, known := s.machines.NameID(cluster)
	if s.operators == nil || !known {
		return 0
	}
	told := 0
	clusters := s.machines.View().Cluster
	for r := columnar.Row(1); int(r) < s.machines.RowMax(); r++ {
		if clusters[r] == id && s.machines.Has(r) {
			s.tellCluster(r, cluster)
			told++
		}
	}
	return told
}
