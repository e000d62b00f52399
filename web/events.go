package web

import (
	"fmt"
	"net/http"
	"time"
)

// The pace of a stream.
const (
	// frameGap is the least time between two events of one client: a loop that
	// cycles faster than the eye is thinned here, not queued.
	frameGap = 200 * time.Millisecond
	// heartbeatGap keeps proxies from closing a quiet stream and finds clients
	// that are gone.
	heartbeatGap = 15 * time.Second
	// writeLimit is how long one write may take before the client is dropped.
	writeLimit = 10 * time.Second
	// retryMillis is what the page waits before it connects again.
	retryMillis = 2000
)

// events streams one event per cycle until the client goes or the feed closes.
func (s *Site) events(w http.ResponseWriter, r *http.Request) {
	c, err := s.feed.subscribe()
	if err != nil {
		w.Header().Set("Retry-After", "5")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer s.feed.unsubscribe(c)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // proxies must pass each event on at once
	out := stream{w: w, control: http.NewResponseController(w)}
	if !out.send("retry: %d\n\n", retryMillis) {
		return
	}
	s.follow(r, c, &out)
}

// follow sends the newest frame whenever the bell has rung.
func (s *Site) follow(r *http.Request, c *client, out *stream) {
	heartbeat := time.NewTicker(s.heartbeat)
	defer heartbeat.Stop()
	pace := time.NewTimer(0)
	defer pace.Stop()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-s.feed.closed:
			out.send("event: bye\ndata: {}\n\n")
			return
		case <-heartbeat.C:
			if !out.send(": still here\n\n") {
				return
			}
			continue
		case <-c.bell:
		}
		if data, cycle := s.feed.newest(); data != nil && !out.send("id: %d\nevent: frame\ndata: %s\n\n", cycle, data) {
			return
		}
		pace.Reset(frameGap)
		select {
		case <-pace.C:
		case <-r.Context().Done():
			return
		case <-s.feed.closed:
			continue // says goodbye above
		}
	}
}

// stream writes events with a deadline for each.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

// send reports whether the client took the event.
func (o *stream) send(format string, args ...any) bool {
	// A writer without deadlines (in tests) is written to without one.
	_ = o.control.SetWriteDeadline(time.Now().Add(writeLimit))
	if _, err := fmt.Fprintf(o.w, format, args...); err != nil {
		return false
	}
	return o.control.Flush() == nil
}
