package session

import "time"

// SetHelloWait changes how long a stream may be silent at its beginning.
func (d *Deps) SetHelloWait(wait time.Duration) { d.helloWait = wait }

// Streams returns how many streams are open, greeted or not.
func (s *Server) Streams() int { return int(s.streams.Load()) }

// Idle tells whether nothing waits to be sent to a cluster, nor is being put
// there.
func (s *Server) Idle(cluster string) bool {
	l := s.links.current(cluster)
	return l != nil && !l.resyncing.Load() && l.out.waiting() == 0
}

// Stalls tells whether the operator of a cluster keeps a message waiting.
func (s *Server) Stalls(cluster string) bool {
	l := s.links.current(cluster)
	return l.sending.Load() != 0 && l.out.waiting() > 1<<10
}

// EndStalled is what the watch does that much later.
func (s *Server) EndStalled(later time.Duration) { s.endStalled(s.clock().Add(later)) }
