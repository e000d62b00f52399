package inbound

import (
	"errors"
	"slices"
	"time"
)

// The two kinds of room.
const (
	small = iota
	large
	kinds
)

var roomBytes = [kinds]int64{SmallBytesMax, LargeBytesMax}

// kindOf returns where a message that holds so many bytes finds room.
func kindOf(bytes int64) int {
	if bytes <= SmallMessageBytesMax+messageOverheadBytes {
		return small
	}
	return large
}

// party is a group of connections that share a budget: a certificate's
// identity, or an address when there is none. Its fields are guarded by the
// gate's lock.
type party struct {
	name        string
	connections int
	streams     int
	atOnce      map[string]int // calls under way of rules with a limit of their own, by method
	held        [kinds]int64
	share       [kinds]int64
	// Limits.
	connectionsMax, streamsMax int
}

// waiter is a message that waits for room.
type waiter struct {
	conn  *conn
	bytes int64
	ready chan struct{} // closed when it has room
}

var (
	errNoRoom = errors.New("no room for a message within the time that it may wait")
	errClosed = errors.New("the connection is closed")
)

// take takes room if there is any and nobody waits for it before; else the
// connection is in debt. The gate's lock is held.
func (g *Gate) take(c *conn, bytes int64) {
	k := kindOf(bytes)
	if len(g.waiters[k]) > 0 || !g.fits(c.party, k, bytes) {
		c.debt[k] += bytes
		return
	}
	g.add(c.party, k, bytes)
}

func (g *Gate) fits(of *party, kind int, bytes int64) bool {
	return g.held[kind]+bytes <= roomBytes[kind] && of.held[kind]+bytes <= of.share[kind]
}

func (g *Gate) add(of *party, kind int, bytes int64) {
	g.held[kind] += bytes
	of.held[kind] += bytes
}

// settle waits until a connection has room for all that it is in debt for.
func (g *Gate) settle(c *conn) error {
	for k := range kinds {
		g.mu.Lock()
		if c.debt[k] == 0 || c.left {
			g.mu.Unlock()
			continue
		}
		w := &waiter{conn: c, bytes: c.debt[k], ready: make(chan struct{})}
		g.waiters[k] = append(g.waiters[k], w)
		g.admitWaiters(k)
		g.mu.Unlock()
		if err := g.wait(w, k); err != nil {
			return err
		}
	}
	return nil
}

func (g *Gate) wait(w *waiter, kind int) error {
	select {
	case <-w.ready:
		return nil
	default:
	}
	tick := time.NewTicker(roomCheckEvery)
	defer tick.Stop()
	over := time.NewTimer(RoomSecondsMax * time.Second)
	defer over.Stop()
	for {
		select {
		case <-w.ready:
			return nil
		case <-w.conn.closed:
			return g.giveUp(w, kind, errClosed)
		case <-over.C:
			return g.giveUp(w, kind, errNoRoom)
		case <-tick.C:
			g.refuseCrowding(w, kind)
		}
	}
}

// giveUp takes a waiter out of the line; nil when it got room meanwhile.
func (g *Gate) giveUp(w *waiter, kind int, err error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.waiters[kind], w)
	if i < 0 {
		return nil
	}
	g.waiters[kind] = slices.Delete(g.waiters[kind], i, i+1)
	g.admitWaiters(kind)
	return err
}

// admitWaiters gives room to those that wait, in the order in which they came.
// One that waits for its party's own share delays nobody else. The gate's lock
// is held.
func (g *Gate) admitWaiters(kind int) {
	kept := g.waiters[kind][:0]
	full := false
	for _, w := range g.waiters[kind] {
		switch {
		case w.conn.left:
			continue
		case !full && g.fits(w.conn.party, kind, w.bytes):
			g.add(w.conn.party, kind, w.bytes)
			w.conn.debt[kind] -= w.bytes
			close(w.ready)
			continue
		case w.conn.party.held[kind]+w.bytes <= w.conn.party.share[kind]:
			full = true
		}
		kept = append(kept, w)
	}
	clear(g.waiters[kind][len(kept):])
	g.waiters[kind] = kept
}

// release gives room back.
func (g *Gate) release(c *conn, held [kinds]int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for k, bytes := range held {
		g.add(c.party, k, -bytes)
		if bytes > 0 && len(g.waiters[k]) > 0 {
			g.admitWaiters(k)
		}
	}
	if c.left {
		g.sweep(c)
	}
}

// refuseCrowding closes the connection of the message that takes longest to
// arrive, when it has had CrowdedSecondsMax: another one waits for its room.
// It does so once a second at most, since room is given back only when gRPC has
// ended the calls. One that waits for its party's own share closes only a
// connection of that party.
func (g *Gate) refuseCrowding(w *waiter, kind int) {
	var oldest *stream
	var began time.Time
	now := time.Now()
	g.mu.Lock()
	if now.Sub(g.crowded[kind]) < time.Second {
		g.mu.Unlock()
		return
	}
	own := w.conn.party.held[kind]+w.bytes > w.conn.party.share[kind]
	for s, at := range g.partial {
		if at.kind != kind || now.Sub(at.began) < CrowdedSecondsMax*time.Second || (own && s.conn.party != w.conn.party) {
			continue
		}
		if oldest == nil || at.began.Before(began) {
			oldest, began = s, at.began
		}
	}
	if oldest != nil {
		g.crowded[kind] = now
	}
	g.mu.Unlock()
	if oldest != nil {
		oldest.conn.refuse(reasonSlow, errCrowding)
	}
}
