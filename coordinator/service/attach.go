package service

import "sync/atomic"

// attachment is what answers, once there is something that can.
type attachment struct {
	replica Replica
	group   Group
}

// slot holds an attachment; calls may come in before there is one.
type slot struct{ p atomic.Pointer[attachment] }

// Attach lets a replica answer. A process serves before its member has joined a
// group, so that others can ask whether it has state.
func (s *Service) Attach(r Replica, g Group) {
	s.slot.p.Store(&attachment{r, g})
}

func (s *Service) attached() (Replica, Group) {
	if a := s.slot.p.Load(); a != nil {
		return a.replica, a.group
	}
	return nil, nil
}
