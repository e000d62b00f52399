package session

import (
	"context"
	"time"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/shard"
)

// CordonWaitMax is how long Cordon waits for an acknowledgement at most.
const CordonWaitMax = 5 * time.Second

// Cordon tells the cluster's operator that a machine is going to be drained,
// and waits until it has begun to clear the node, or ctx ends, or for
// CordonWaitMax. The node is named by the machine's id. The errors wrap
// shard.ErrNoSession or the context's; a drain goes on after either.
func (s *Server) Cordon(ctx context.Context, c shard.Cordon) error {
	l := s.links.current(c.Cluster)
	if l == nil {
		return shard.ErrNoSession
	}
	ctx, cancel := context.WithTimeout(ctx, CordonWaitMax)
	defer cancel()
	_, err := l.drains.ask(ctx, l, func(id string) bool {
		return l.out.reply(&pb.ShardMessage{Payload: &pb.ShardMessage_ReclaimInstruction{ReclaimInstruction: &pb.ReclaimInstruction{
			InstructionId: id, Nodes: []string{c.Machine}, GracePeriodSeconds: int64(c.GraceSeconds), PreemptorPriority: c.PreemptorPriority,
		}}})
	})
	return err
}
