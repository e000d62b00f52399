package operator

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	api "github.com/tonnage/tonnage/api/v1alpha1"
	"github.com/tonnage/tonnage/operator/bootstrap"
	"github.com/tonnage/tonnage/operator/drain"
	"github.com/tonnage/tonnage/operator/mirror"
	"github.com/tonnage/tonnage/operator/telemetry"
)

// site carries out what the shard says. It is where drains and objects meet:
// what a state means for a machine depends on whether it is being drained.
type site struct {
	nodes      *mirror.Nodes
	capacities *mirror.Capacities
	drains     *drain.Drainer
	renderer   *bootstrap.Renderer
	metrics    *telemetry.Metrics
	now        func() time.Time
}

// Begin implements session.Cluster.
func (s *site) Begin() {
	s.nodes.Begin()
	s.capacities.Begin()
}

// Settled removes what the session has not mentioned.
func (s *site) Settled(ctx context.Context) error {
	stale, err := s.nodes.Unmentioned(ctx)
	if err != nil {
		return err
	}
	for _, n := range stale {
		machine := n.Annotations[api.AnnotationMachine]
		if machine != "" {
			s.drains.Forget(machine)
		}
		if err := s.nodes.Discard(ctx, n); err != nil {
			return err
		}
	}
	return s.capacities.Collect(ctx, true)
}

// NodeState implements session.Cluster.
func (s *site) NodeState(ctx context.Context, u *bigfleet.NodeStateUpdate) error {
	began := s.now()
	had, err := s.nodes.Get(ctx, u.MachineId)
	if err != nil {
		return err
	}
	phase, gone := mirror.Phase(had, u)
	if gone || !s.nodes.Ours(u) {
		s.drains.Forget(u.MachineId)
		return s.nodes.Remove(ctx, u.MachineId)
	}
	draining := drain.Known(had)
	if phase == api.NodeReady && draining {
		if err := s.drains.Cancel(ctx, u.MachineId, had); err != nil {
			return err
		}
	}
	err = s.nodes.Update(ctx, u.MachineId, func(n *api.UpcomingNode) {
		was := n.Status
		mirror.Fill(n, u)
		n.Status.Phase = phase
		switch {
		case phase == api.NodeReady:
			drain.Clear(n)
		case phase == api.NodeDraining && draining && (was.Phase == api.NodeDrained || was.Phase == api.NodeFailed):
			n.Status.Phase, n.Status.LastError = was.Phase, was.LastError // our part is done
		}
	})
	if err == nil && phase == api.NodeDraining && !draining {
		// It is being drained, and the instruction was missed.
		_, err = s.drains.Start(ctx, u.MachineId, drain.GraceDefault)
	}
	if err == nil {
		s.metrics.NodeState(string(phase), s.now().Sub(began))
	}
	return err
}

// Capacity implements session.Cluster.
func (s *site) Capacity(ctx context.Context, u *bigfleet.AvailableCapacityUpdate) error {
	return s.capacities.Apply(ctx, u)
}

// Reclaim implements session.Cluster.
func (s *site) Reclaim(ctx context.Context, machine string, grace time.Duration) (bool, error) {
	return s.drains.Start(ctx, machine, grace)
}

// Bootstrap implements session.Cluster.
func (s *site) Bootstrap(request *bigfleet.BootstrapRequest) *bigfleet.BootstrapBlobResponse {
	return s.renderer.Render(request)
}

// event tells something about an object in the cluster.
type event func(about runtime.Object, warning bool, reason, action, note string)
