package session

import (
	"strconv"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
)

// Connected tells whether the cluster's operator has a session.
func (s *Server) Connected(cluster string) bool { return s.links.current(cluster) != nil }

// NodeState queues the news of a machine for the operator of its cluster. It
// never waits.
func (s *Server) NodeState(u shard.NodeState) {
	s.put(u.Cluster, topic{machine: u.Machine}, nodeUpdate(u))
}

// Capacity queues a hint for the operator of its cluster. It never waits.
func (s *Server) Capacity(h shard.CapacityHint) {
	if h.Profile != nil {
		s.put(h.Cluster, topic{shape: h.Profile.Fingerprint()}, capacityUpdate(h))
	}
}

// put queues an update. A session that has no room for it is ended: its
// operator hears everything when it connects again.
func (s *Server) put(cluster string, t topic, u update) {
	if l := s.links.current(cluster); l != nil && !l.out.put(t, u) {
		l.end(errBehind)
	}
}

type nodeUpdate shard.NodeState

func (u nodeUpdate) message() *pb.ShardMessage {
	return &pb.ShardMessage{Payload: &pb.ShardMessage_NodeStateUpdate{NodeStateUpdate: &pb.NodeStateUpdate{
		SupersedesKey: "node:" + u.Machine,
		MachineId:     u.Machine, ClusterId: u.Cluster, State: pb.MachineState(u.State), NodeName: u.NodeName, ProviderId: u.ProviderID,
		LastError: u.LastError, Labels: u.Labels, Resources: resources(u.Resources),
	}}}
}

type capacityUpdate shard.CapacityHint

func (u capacityUpdate) message() *pb.ShardMessage {
	return &pb.ShardMessage{Payload: &pb.ShardMessage_AvailableCapacity{AvailableCapacity: &pb.AvailableCapacityUpdate{
		SupersedesKey:  "available:" + fingerprint(u.Profile),
		Requirements:   requirements(u.Profile),
		AvailableCount: int32(min(u.Count, 1<<31-1)), Confidence: pb.AvailableCapacityUpdate_Confidence(u.Confidence), CostPerHour: u.CostPerHour,
	}}}
}

// fingerprint writes a profile's fingerprint as it stands in the metadata of
// machines.
func fingerprint(p *model.Profile) string { return strconv.FormatUint(p.Fingerprint(), 16) }

// requirements writes those of a profile. Gt and Lt have no form on the wire.
func requirements(p *model.Profile) []*pb.NodeSelectorRequirement {
	var out []*pb.NodeSelectorRequirement
	for _, r := range p.Requirements() {
		if r.Operator <= model.Same {
			out = append(out, &pb.NodeSelectorRequirement{Key: r.Key, Operator: pb.NodeSelectorRequirement_Operator(r.Operator), Values: r.Values})
		}
	}
	return out
}

// resources writes a vector; nil for an empty one.
func resources(v model.Resources) *pb.Resources {
	if len(v) == 0 {
		return nil
	}
	return &pb.Resources{Resources: quantitiesOf(v)}
}

func quantitiesOf(v model.Resources) map[string]string {
	if len(v) == 0 {
		return nil
	}
	out := make(map[string]string, len(v))
	for _, a := range v {
		out[a.Name] = model.FormatQuantity(a.Name, a.Value)
	}
	return out
}
