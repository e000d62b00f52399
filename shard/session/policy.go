package session

import (
	"strconv"

	"google.golang.org/grpc/metadata"

	"github.com/tonnage/tonnage/shard/policy"
)

// The header of a session that tells an operator what the rows of its cluster are
// lowered to. A key is there only if there is such a limit. Buckets are numbers of
// the protocol's enum PenaltyBucket.
const (
	headerPriority     = "tonnage-max-priority"
	headerInterruption = "tonnage-max-interruption-penalty"
	headerReclamation  = "tonnage-max-reclamation-penalty"
)

// limitsHeader says limits; nothing of those that no row is above.
func limitsHeader(l policy.Limits) metadata.MD {
	header, none := metadata.MD{}, policy.None()
	if l.Priority != none.Priority {
		header.Set(headerPriority, strconv.Itoa(int(l.Priority)))
	}
	if l.Interruption != none.Interruption {
		header.Set(headerInterruption, strconv.Itoa(int(l.Interruption)))
	}
	if l.Reclamation != none.Reclamation {
		header.Set(headerReclamation, strconv.Itoa(int(l.Reclamation)))
	}
	return header
}

// LimitsChanged ends the sessions of clusters whose limits are others than their
// operators were told. They connect again, hear the new ones, and report at once:
// the new limits hold from that roll-up on.
func (s *Server) LimitsChanged() {
	for _, l := range s.links.all() {
		if s.limits(l.cluster) != l.limits {
			l.end(errPolicy)
		}
	}
}
