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

// Sends tells whether a message is on its way to the operator of a cluster.
func (s *Server) Sends(cluster string) bool { return s.links.current(cluster).sending.Load() != 0 }

// EndStalled is what the watch does that much later.
func (s *Server) EndStalled(later time.Duration) { s.endStalled(s.clock().Add(later)) }
