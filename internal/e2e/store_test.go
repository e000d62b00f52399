package e2e

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/internal/processtest"
)

// metadataPriority is the stamp that every bound machine has.
const metadataPriority = "bigfleet.lucy.sh/assigned-priority"

// store is the provider's own view, read over its wire.
type store struct {
	t    *testing.T
	list pb.CapacityProviderClient
	// all are the machines there were at the beginning.
	all map[string]bool
}

func openStore(t *testing.T, address string) *store {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(256<<20)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	s := &store{t: t, list: pb.NewCapacityProviderClient(conn), all: map[string]bool{}}
	processtest.Eventually(t, patience, "the provider lists its machines", func() bool { return len(s.machines()) > 0 })
	for id := range s.machines() {
		s.all[id] = true
	}
	return s
}

// moving are the states of machines that are on their way.
var moving = []pb.MachineState{
	pb.MachineState_MACHINE_STATE_CREATING, pb.MachineState_MACHINE_STATE_CONFIGURING,
	pb.MachineState_MACHINE_STATE_DRAINING, pb.MachineState_MACHINE_STATE_DELETING,
}

// moves tells whether a machine is on its way, or the provider does not answer.
// To look whether anything does is much less work than to list a fleet, which
// would take the time that the fleet needs.
func (s *store) moves() bool {
	l := s.listed(&pb.ListFilter{States: moving, MaxResults: 1})
	return l == nil || len(l.Machines) > 0
}

func (s *store) listed(filter *pb.ListFilter) *pb.MachineList {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	l, err := s.list.List(ctx, filter)
	if err != nil {
		return nil
	}
	return l
}

// machines lists everything; nil when the provider does not answer.
func (s *store) machines() map[string]*pb.Machine {
	l := s.listed(&pb.ListFilter{})
	if l == nil {
		return nil
	}
	out := make(map[string]*pb.Machine, len(l.Machines))
	for _, m := range l.Machines {
		out[m.Id] = m
	}
	return out
}

// tally counts the machines by state.
func tally(ms map[string]*pb.Machine) map[pb.MachineState]int {
	out := map[pb.MachineState]int{}
	for _, m := range ms {
		out[m.State]++
	}
	return out
}

// check compares the store with what must always hold: every machine is there,
// none is Failed, bound ones carry their stamps.
func (s *store) check() {
	s.t.Helper()
	ms := s.machines()
	for id := range s.all {
		if ms[id] == nil {
			s.t.Errorf("machine %s is lost", id)
		}
	}
	for id, m := range ms {
		switch m.State {
		case pb.MachineState_MACHINE_STATE_FAILED:
			s.t.Errorf("machine %s is Failed: %s", id, m.LastError)
		case pb.MachineState_MACHINE_STATE_CONFIGURING, pb.MachineState_MACHINE_STATE_CONFIGURED:
			if _, ok := m.ShardMetadata[metadataPriority]; !ok || m.Cluster == "" {
				s.t.Errorf("machine %s is bound to %q without stamps: %v", id, m.Cluster, m.ShardMetadata)
			}
		}
	}
}

// checkOwners: each bound machine is one operator's, and the store says whose.
func (s *store) checkOwners(o *operators) {
	s.t.Helper()
	ms := s.machines()
	owner := map[string]string{}
	for _, x := range o.clusters {
		for _, id := range x.serves() {
			if other, taken := owner[id]; taken {
				s.t.Errorf("machine %s serves %s and %s", id, other, x.cluster)
			}
			owner[id] = x.cluster
			if ms[id] == nil || ms[id].Cluster != x.cluster {
				s.t.Errorf("operator of %s believes to have %s, the provider says %v", x.cluster, id, ms[id])
			}
		}
	}
	for id, m := range ms {
		if m.State == pb.MachineState_MACHINE_STATE_CONFIGURED && owner[id] != m.Cluster {
			s.t.Errorf("machine %s is bound to %s, whose operator does not know it", id, m.Cluster)
		}
	}
}
