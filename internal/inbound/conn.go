package inbound

import (
	"container/list"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tonnage/tonnage/internal/mtls"
)

// conn is one connection. gRPC reads from it what the peer sent, decrypted.
type conn struct {
	net.Conn
	raw    net.Conn // below TLS
	gate   *Gate
	remote *remote

	closed chan struct{} // closed when the connection is
	proof  chan struct{} // closed when it is proven
	once   sync.Once

	// Guarded by the gate's lock.
	id       mtls.Identity // nobody over plaintext
	secure   bool
	address  *party        // always counts the connection
	party    *party        // whose budget it uses: address, or the identity; set before the first Read
	unproven *list.Element // nil = it is proven
	left     bool          // it is closed and no longer counted
	timer    *time.Timer   // closes the connection while it is unproven
	debt     [kinds]int64  // what messages hold that have no room yet; settled before the next frame

	// Of the goroutine that reads.
	rest   []byte // was read and is not yet passed on
	buffer []byte // where rest lies
	err    error  // follows rest
	frames frames
	opened uint32 // the stream whose headers gRPC handles now; 0 = none

	mu       sync.Mutex
	streams  map[uint32]*stream
	held     int64 // by messages that arrive or have arrived
	owes     bool  // follow stops at the end of the frame; settled before the next
	deadline *time.Timer
}

// stream is one call.
type stream struct {
	conn *conn
	id   uint32
	// limited is the method of the rule that limits such calls; "" = none does.
	limited string

	// Guarded by the connection's lock.
	prefix   [5]byte // of the message that arrives
	have     int
	left     int64
	length   int64
	frames   int // DATA frames of the message
	holds    int64
	began    time.Time // when its first bytes were seen, or the server began to wait for it; 0 = neither was yet
	arrived  []int32   // what complete messages hold that the handler has not taken
	ended    bool
	oversize bool
}

// partial is a message that has begun and holds room.
type partial struct {
	kind  int
	began time.Time
}

var (
	errCrowding = fmt.Errorf("a message takes longer than %d s to arrive while another one waits for its room", CrowdedSecondsMax)
	errLate     = fmt.Errorf("a message takes longer than %d s to arrive", MessageSecondsMax)
	errFrames   = errors.New("a message comes in too many frames that are too short")
	errSilent   = fmt.Errorf("no hello or call was accepted within %d s", UnprovenSecondsMax)
	errReplaced = fmt.Errorf("more than %d connections without an accepted hello or call; the oldest one makes room", UnprovenConnectionsMax)
)

// remote is a peer's address that knows its connection: gRPC hands it to the
// tap handle.
type remote struct {
	net.Addr
	conn *conn
}

// RemoteAddr returns the peer's address.
func (c *conn) RemoteAddr() net.Addr { return c.remote }

// Read passes on what the peer sent, when there is room for it. It stops behind
// each block of headers: when it is called again, gRPC has handled the block,
// and the tap handle has seen the stream if it was a valid one. It waits for
// room only between two frames, so that gRPC has everything before.
func (c *conn) Read(p []byte) (int, error) {
	c.opened = 0
	if len(p) == 0 {
		return 0, nil
	}
	if c.frames.between() {
		if err := c.settle(); err != nil {
			return 0, err
		}
	}
	if len(c.rest) > 0 {
		n, err := c.follow(p[:copy(p, c.rest)])
		if c.rest = c.rest[n:]; len(c.rest) == 0 {
			c.buffer, c.rest = nil, nil
		}
		return n, err
	}
	if c.err != nil {
		return 0, c.err
	}
	var all int
	all, c.err = c.Conn.Read(p)
	if all == 0 {
		return 0, c.err
	}
	n, err := c.follow(p[:all])
	if n < all && err == nil {
		c.buffer = append(c.buffer[:0], p[n:all]...)
		c.rest = c.buffer
	}
	if err == nil && n == all {
		err = c.err
	}
	return n, err
}

// settle waits until the connection has room for the messages that have begun.
func (c *conn) settle() error {
	c.mu.Lock()
	held, owes := c.held, c.owes
	c.mu.Unlock()
	if !owes {
		return nil
	}
	c.gate.mu.Lock()
	tooMuch := c.unproven != nil && held > UnprovenBytesMax
	c.gate.mu.Unlock()
	if tooMuch {
		// A roll-up may follow its hello before the hello is accepted.
		select {
		case <-c.proof:
		case <-c.closed:
			return net.ErrClosed
		}
	}
	if err := c.gate.settle(c); err != nil {
		c.refuse(reasonRoom, err)
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owes = false
	for _, s := range c.streams {
		if s.have > 0 && s.awaited() {
			c.begin(s) // waiting does not count
		}
	}
	return nil
}

// follow accounts for bytes that gRPC is about to get, and returns how many of
// them it may have: at least one, unless there is an error.
func (c *conn) follow(p []byte) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for n < len(p) {
		x := c.frames.next(p[n:])
		if x.data != 0 {
			if s := c.streams[x.data]; s != nil { // gRPC drops those of others
				if err := c.data(s, p[n:n+x.bytes], x.first); err != nil {
					return n, err
				}
			}
		}
		n += x.bytes
		if x.opens != 0 {
			c.opened = x.opens
			break
		}
		if c.frames.between() && c.owes {
			break // there is no room now; what came before may make some
		}
	}
	return n, nil
}

// data accounts for bytes of a stream's messages.
func (c *conn) data(s *stream, p []byte, firstOfFrame bool) error {
	if firstOfFrame {
		s.frames++
	}
	for len(p) > 0 {
		if s.have < len(s.prefix) {
			s.prefix[s.have] = p[0]
			s.have++
			p = p[1:]
			if s.have == len(s.prefix) {
				c.announce(s)
			}
		} else {
			k := min(s.left, int64(len(p)))
			s.left -= k
			p = p[k:]
		}
		if s.have == len(s.prefix) && s.left == 0 {
			s.complete()
		}
	}
	return c.look(s)
}

// announce takes room for the message whose prefix is complete.
func (c *conn) announce(s *stream) {
	s.length = int64(binary.BigEndian.Uint32(s.prefix[1:]))
	s.left, s.frames = s.length, 1
	s.holds = messageOverheadBytes + s.length
	if s.oversize = s.length > c.gate.messageMax; s.oversize {
		s.holds = messageOverheadBytes + windowBytes // gRPC refuses the call as soon as it looks
	}
	c.held += s.holds
	c.gate.mu.Lock()
	defer c.gate.mu.Unlock()
	c.gate.take(c, s.holds)
	c.owes = c.owes || c.debt != [kinds]int64{} || c.unproven != nil && c.held > UnprovenBytesMax
}

func heldBy(bytes int64) (held [kinds]int64) {
	held[kindOf(bytes)] = bytes
	return held
}

// complete notes that a message is there as a whole.
func (s *stream) complete() {
	s.arrived = append(s.arrived, int32(s.holds))
	s.have, s.left, s.holds, s.frames = 0, 0, 0, 0
	if !s.began.IsZero() {
		s.conn.gate.forget(s)
	}
	s.began = time.Time{}
}

// look starts the clock of a message that has begun, and refuses one that comes
// in crumbs.
func (c *conn) look(s *stream) error {
	if s.have == 0 {
		return nil
	}
	if int64(s.frames) > framesFree+(s.length-s.left)/bytesPerFrameMin {
		c.refuse(reasonFrames, errFrames)
		return errFrames
	}
	if s.began.IsZero() && s.awaited() && !c.owes {
		c.begin(s)
	}
	return nil
}

// awaited tells whether the server waits for the rest of the message that has
// begun, and for nothing before.
func (s *stream) awaited() bool { return len(s.arrived) == 0 && !s.oversize }

// begin starts the clock of a message that has begun and that the server waits
// for.
func (c *conn) begin(s *stream) {
	s.began = time.Now()
	if s.holds > 0 {
		c.gate.remember(s, partial{kindOf(s.holds), s.began})
	}
	if c.deadline == nil {
		c.deadline = time.AfterFunc(MessageSecondsMax*time.Second, c.late)
	}
}

// late closes the connection when one of its messages takes too long.
func (c *conn) late() {
	c.mu.Lock()
	defer c.mu.Unlock()
	var oldest time.Time
	for _, s := range c.streams {
		if !s.began.IsZero() && (oldest.IsZero() || s.began.Before(oldest)) {
			oldest = s.began
		}
	}
	c.deadline = nil
	if oldest.IsZero() {
		return
	}
	left := MessageSecondsMax*time.Second - time.Since(oldest)
	if left <= 0 {
		c.refuse(reasonSlow, errLate)
		return
	}
	c.deadline = time.AfterFunc(left, c.late)
}

// open makes the stream whose headers gRPC handles. It is called by the tap
// handle, in the goroutine that reads.
func (c *conn) open(rule Rule) (*stream, error) {
	c.gate.mu.Lock()
	full := c.party.streams >= c.party.streamsMax
	if most := c.atOnce(rule); most > 0 && !full {
		if c.party.atOnce[rule.Method] >= most {
			c.gate.mu.Unlock()
			c.gate.refusals.note(c, reasonStreams, nil)
			return nil, status.Errorf(codes.ResourceExhausted, "%s has %d such calls under way, as many as it may: end some, or wait until they have", c.party.name, most)
		}
	}
	unproven := c.unproven != nil
	if !full {
		c.party.streams++
	}
	c.gate.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !full && unproven && len(c.streams) >= UnprovenStreamsMax {
		c.gate.mu.Lock()
		c.party.streams--
		c.gate.mu.Unlock()
		c.gate.refusals.note(c, reasonStreams, nil)
		return nil, status.Errorf(codes.ResourceExhausted, "at most %d calls may be under way on a connection before its first hello or call is accepted", UnprovenStreamsMax)
	}
	if full {
		c.gate.refusals.note(c, reasonStreams, nil)
		return nil, status.Errorf(codes.ResourceExhausted, "%s has %d calls under way, as many as it may: end some, or wait until they have", c.party.name, c.party.streamsMax)
	}
	s := &stream{conn: c, id: c.opened}
	if c.atOnce(rule) > 0 {
		s.limited = rule.Method
		c.gate.mu.Lock()
		if c.party.atOnce == nil {
			c.party.atOnce = map[string]int{}
		}
		c.party.atOnce[s.limited]++
		c.gate.mu.Unlock()
	}
	c.streams[s.id] = s
	return s, nil
}

// atOnce returns how many calls of a rule the connection's party may have under
// way; 0 = no limit.
func (c *conn) atOnce(rule Rule) int {
	if c.secure {
		return rule.AtOnce
	}
	return rule.AtOnce * atOnceOfAddress
}

// end forgets a stream and what its messages hold.
func (s *stream) end() {
	c := s.conn
	c.mu.Lock()
	var held [kinds]int64
	if !s.ended {
		s.ended = true
		delete(c.streams, s.id)
		held[kindOf(s.holds)] += s.holds
		for _, bytes := range s.arrived {
			held[kindOf(int64(bytes))] += int64(bytes)
		}
		c.held -= held[small] + held[large]
		if !s.began.IsZero() {
			c.gate.forget(s)
		}
		s.began = time.Time{}
		c.gate.mu.Lock()
		c.party.streams--
		if s.limited != "" {
			c.party.atOnce[s.limited]--
		}
		c.gate.mu.Unlock()
	}
	c.mu.Unlock()
	c.gate.release(c, held)
}

// taken gives back what the oldest message holds that has arrived.
func (s *stream) taken() {
	c := s.conn
	c.mu.Lock()
	if s.ended || len(s.arrived) == 0 {
		c.mu.Unlock()
		return
	}
	bytes := int64(s.arrived[0])
	if s.arrived = s.arrived[1:]; len(s.arrived) == 0 {
		s.arrived = nil
		if s.have > 0 && s.began.IsZero() && s.awaited() && !c.owes {
			c.begin(s) // it was not waited for until now
		}
	}
	c.held -= bytes
	c.mu.Unlock()
	c.gate.release(c, heldBy(bytes))
}

// refuse closes the connection for a reason.
func (c *conn) refuse(why reason, err error) {
	c.once.Do(func() {
		c.gate.refusals.note(c, why, err)
		close(c.closed)
		_ = c.raw.Close() // without TLS's farewell, for which it might have to wait
		c.gate.leave(c)
	})
}

// Close closes the connection. What lies below learns of it even if refuse was
// first: it may keep a list of open connections.
func (c *conn) Close() error {
	c.once.Do(func() {
		close(c.closed)
		c.gate.leave(c)
	})
	return c.Conn.Close()
}

// who returns whose connection it is, for the log.
func (c *conn) who() []any {
	c.gate.mu.Lock()
	defer c.gate.mu.Unlock()
	if c.secure {
		return []any{"peer", c.remote.String(), "identity", c.id.String()}
	}
	return []any{"peer", c.remote.String()}
}
