package inbound

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// script is a connection's bytes, which come in pieces of at most chunk bytes.
type script struct {
	net.Conn // nil: nothing else is called
	data     []byte
	chunk    int
	closed   atomic.Bool
	closes   atomic.Int32
}

func (s *script) Read(p []byte) (int, error) {
	if len(s.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), s.chunk)], s.data)
	s.data = s.data[n:]
	return n, nil
}

func (s *script) Close() error {
	s.closed.Store(true)
	s.closes.Add(1)
	return nil
}

func (s *script) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1}
}

func newTestGate() *Gate { return New(Options{MessageBytesMax: MessageBytesMax}) }

// arriving returns a connection that reads the script.
func arriving(t testing.TB, g *Gate, data []byte, chunk int) (*conn, *script) {
	t.Helper()
	s := &script{data: data, chunk: chunk}
	c, err := g.arrive(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.identify(c, s, nil); err != nil {
		t.Fatal(err)
	}
	return c, s
}

func (g *Gate) admit(c *conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.prove(c)
}

// client writes what a client would.
type client struct {
	bytes.Buffer
	framer *http2.Framer
}

func newClient() *client {
	c := &client{}
	c.WriteString(http2.ClientPreface)
	c.framer = http2.NewFramer(&c.Buffer, nil)
	_ = c.framer.WriteSettings()
	return c
}

func (c *client) headers(stream uint32) {
	_ = c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: []byte("abc"), EndHeaders: true})
}

func prefix(length int) []byte { return binary.BigEndian.AppendUint32([]byte{0}, uint32(length)) }

// drain reads as gRPC does and opens each stream whose headers it meets.
func drain(c *conn, opened map[uint32]*stream) (out []byte, err error) {
	p := make([]byte, 1000)
	for {
		n, err := c.Read(p)
		out = append(out, p[:n]...)
		if err != nil {
			return out, err
		}
		if c.opened != 0 && opened[c.opened] == nil {
			if s, err := c.open(Rule{}); err == nil {
				opened[s.id] = s
			}
		}
	}
}

// However the bytes are cut, they arrive as they were sent, each stream is
// opened once, and what is held is what the messages announce.
func TestBytesPassUnchangedHoweverTheyAreCut(t *testing.T) {
	x := newClient()
	x.headers(1)
	_ = x.framer.WriteData(1, false, prefix(10))
	_ = x.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: []byte("abc")})
	_ = x.framer.WriteContinuation(3, true, []byte("def"))
	_ = x.framer.WriteDataPadded(3, false, append(prefix(3), 'x', 'y', 'z'), make([]byte, 7))
	_ = x.framer.WriteDataPadded(1, false, make([]byte, 4), make([]byte, 255))
	_ = x.framer.WriteData(1, false, nil)
	_ = x.framer.WritePing(false, [8]byte{})
	_ = x.framer.WriteData(1, false, append(make([]byte, 6), prefix(1000)...)) // ends one message and begins another
	_ = x.framer.WriteData(5, false, prefix(1<<30))                            // of no stream
	for chunk := 1; chunk < 80; chunk++ {
		g := newTestGate()
		c, _ := arriving(t, g, x.Bytes(), chunk)
		g.admit(c)
		streams := map[uint32]*stream{}
		out, err := drain(c, streams)
		if !errors.Is(err, io.EOF) || !bytes.Equal(out, x.Bytes()) {
			t.Fatalf("pieces of %d bytes: %d of %d bytes came, %v", chunk, len(out), x.Len(), err)
		}
		if len(streams) != 2 || streams[1] == nil || streams[3] == nil {
			t.Fatalf("pieces of %d bytes: streams %v, want 1 and 3", chunk, streams)
		}
		if want := int64(10 + 3 + 1000 + 3*messageOverheadBytes); c.held != want || g.held[small] != want {
			t.Fatalf("pieces of %d bytes: held %d and %d, want %d", chunk, c.held, g.held[small], want)
		}
		streams[1].taken()
		if want := int64(3 + 1000 + 2*messageOverheadBytes); g.held[small] != want {
			t.Fatalf("held %d after a message was taken, want %d", g.held[small], want)
		}
		streams[1].end()
		streams[3].end()
		_ = c.Close()
		idle(t, g)
	}
}

// idle checks that nothing is held any more.
func idle(t testing.TB, g *Gate) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.held != [kinds]int64{} || g.connections != 0 || g.unproven.Len() != 0 || len(g.partial) != 0 || len(g.addresses) != 0 {
		t.Fatalf("left over: held %v, %d connections, %d unproven, %d partial, %d addresses", g.held, g.connections, g.unproven.Len(), len(g.partial), len(g.addresses))
	}
}

// A roll-up that follows its hello at once waits until the hello is accepted.
func TestMoreThanAnUnprovenConnectionMayHoldWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newClient()
		x.headers(1)
		_ = x.framer.WriteData(1, false, append(prefix(5), "hello"...))
		_ = x.framer.WriteData(1, false, prefix(UnprovenBytesMax))
		_ = x.framer.WritePing(false, [8]byte{})
		g := newTestGate()
		c, _ := arriving(t, g, x.Bytes(), 1<<20)
		read := make(chan int, 1)
		go func() {
			out, _ := drain(c, map[uint32]*stream{})
			read <- len(out)
		}()
		synctest.Wait()
		select {
		case <-read:
			t.Fatal("what follows was read before the connection is proven")
		default:
		}
		g.admit(c)
		if n := <-read; n != x.Len() {
			t.Fatalf("%d of %d bytes were read", n, x.Len())
		}
		_ = c.Close()
	})
}

func TestSilentConnectionsAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestGate()
		c, s := arriving(t, g, nil, 1)
		proven, open := arriving(t, g, nil, 1)
		g.admit(proven)
		<-time.After(UnprovenSecondsMax * time.Second)
		synctest.Wait()
		if !s.closed.Load() || open.closed.Load() || !c.left {
			t.Fatalf("closed: %v and the proven one %v, want true and false", s.closed.Load(), open.closed.Load())
		}
		_ = proven.Close()
		idle(t, g)
	})
}

// What lies below a refused connection, as the list of those that a deny-list
// ends, is closed when gRPC closes it.
func TestARefusedConnectionIsClosedBelow(t *testing.T) {
	g := newTestGate()
	c, raw := arriving(t, g, nil, 1)
	below := &script{}
	c.Conn = below
	c.refuse(reasonSlow, errLate)
	if raw.closes.Load() != 1 || below.closes.Load() != 0 {
		t.Fatal("refusing closes the connection itself, without waiting for TLS")
	}
	if _ = c.Close(); below.closes.Load() != 1 {
		t.Fatal("what lies below is not closed")
	}
	idle(t, g)
}

func TestTheOldestUnprovenConnectionMakesRoom(t *testing.T) {
	g := newTestGate()
	var all []*script
	for range UnprovenConnectionsMax + 10 {
		_, s := arriving(t, g, nil, 1)
		all = append(all, s)
	}
	for i, s := range all {
		if s.closed.Load() != (i < 10) {
			t.Fatalf("connection %d: closed is %v", i, s.closed.Load())
		}
	}
	if n := g.refusals.of(reasonUnproven); n != 10 {
		t.Errorf("%d counted, want 10", n)
	}
}

func TestAddressesHaveSoManyConnections(t *testing.T) {
	g := New(Options{MessageBytesMax: 1, Settings: Settings{ConnectionsPerAddress: 2}})
	first, _ := arriving(t, g, nil, 1)
	arriving(t, g, nil, 1)
	if _, err := g.arrive(&script{}); err == nil {
		t.Fatal("a third connection is accepted")
	}
	_ = first.Close()
	arriving(t, g, nil, 1)
	for a, want := range map[string]string{
		"10.1.2.3:5": "10.1.2.3", "[::ffff:10.1.2.3]:5": "10.1.2.3", "[2001:db8::1]:5": "2001:db8::/64", "[2001:db8::ffff]:5": "2001:db8::/64", "[fe80::1%eth0]:5": "fe80::/64",
	} {
		at, err := net.ResolveTCPAddr("tcp", a)
		if err != nil {
			t.Fatal(err)
		}
		if got := addressOf(at); got != want {
			t.Errorf("%s counts as %s, want %s", a, got, want)
		}
	}
}

func TestSomeCallsHaveALimitOfTheirOwn(t *testing.T) {
	g := newTestGate()
	c, _ := arriving(t, g, nil, 1)
	g.admit(c)
	rule := Rule{Method: "/x/List", AtOnce: 1}
	var all []*stream
	for i := range atOnceOfAddress {
		c.opened = uint32(2*i + 1)
		s, err := c.open(rule)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	c.opened = 1001
	if _, err := c.open(rule); err == nil {
		t.Fatal("one more is accepted")
	}
	if s, err := c.open(Rule{Method: "/x/Get"}); err != nil {
		t.Fatal(err)
	} else {
		s.end()
	}
	all[0].end()
	if s, err := c.open(rule); err != nil {
		t.Fatal(err)
	} else {
		s.end()
	}
	for _, s := range all {
		s.end()
	}
	_ = c.Close()
	idle(t, g)
}

// begin announces a message of so many bytes on a proven connection, and sends
// one byte of it.
func begin(t testing.TB, g *Gate, bytes int) (*conn, *script, chan error) {
	x := newClient()
	x.headers(1)
	_ = x.framer.WriteData(1, false, prefix(bytes))
	_ = x.framer.WriteData(1, false, []byte{1})
	c, s := arriving(t, g, x.Bytes(), 1<<20)
	g.admit(c)
	done := make(chan error, 1)
	go func() {
		_, err := drain(c, map[uint32]*stream{})
		done <- err
	}()
	return c, s, done
}

// endAll ends a connection's streams, as gRPC does.
func endAll(c *conn) {
	c.mu.Lock()
	open := slices.Collect(maps.Values(c.streams))
	c.mu.Unlock()
	for _, s := range open {
		s.end()
	}
}

func TestAMessageThatDoesNotArriveClosesItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestGate()
		c, s, _ := begin(t, g, 1<<20)
		<-time.After(MessageSecondsMax*time.Second - 1)
		synctest.Wait()
		if s.closed.Load() {
			t.Fatal("closed before its time")
		}
		<-time.After(1)
		synctest.Wait()
		if !s.closed.Load() || g.refusals.of(reasonSlow) != 1 {
			t.Fatal("not closed")
		}
		endAll(c)
		idle(t, g)
	})
}

// crowd returns how many large messages wait, and what the others hold.
func crowd(g *Gate) (wait int, held int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.waiters[large]), g.held[large]
}

// Large messages take turns, in the order in which they came; one that stalls
// gives way when others wait, and small ones never wait for large ones.
func TestRoomIsSharedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestGate()
		var all []*conn
		var closed []*script
		for range 4 {
			c, s, _ := begin(t, g, 22<<20)
			synctest.Wait()
			<-time.After(time.Millisecond) // the bubble's clock stands still, and the first is to be the oldest
			all, closed = append(all, c), append(closed, s)
		}
		_, _, tiny := begin(t, g, 1000)
		synctest.Wait()
		if wait, held := crowd(g); wait != 2 || held > LargeBytesMax {
			t.Fatalf("%d wait and %d bytes are held", wait, held)
		}
		select {
		case err := <-tiny:
			if !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
		default:
			t.Fatal("a small message waits for large ones")
		}
		<-time.After(CrowdedSecondsMax*time.Second + roomCheckEvery)
		synctest.Wait()
		if !closed[0].closed.Load() || closed[1].closed.Load() || closed[2].closed.Load() {
			t.Fatal("the message that stalls has not given way:", closed[0].closed.Load(), closed[1].closed.Load(), closed[2].closed.Load(), closed[3].closed.Load())
		}
		endAll(all[0])
		synctest.Wait()
		if wait, _ := crowd(g); wait > 1 {
			t.Fatalf("%d wait, want at most 1", wait)
		}
		for _, c := range all {
			_ = c.Close()
		}
		synctest.Wait()
		for _, c := range all {
			endAll(c)
		}
		if wait, held := crowd(g); wait != 0 || held != 0 {
			t.Fatalf("left over: %d bytes, %d wait", held, wait)
		}
	})
}

func TestCrumbsAreRefused(t *testing.T) {
	g := newTestGate()
	x := newClient()
	x.headers(1)
	_ = x.framer.WriteData(1, false, prefix(1<<20))
	for range framesFree + 10 {
		_ = x.framer.WriteData(1, false, []byte{1})
	}
	c, s := arriving(t, g, x.Bytes(), 1<<20)
	g.admit(c)
	if _, err := drain(c, map[uint32]*stream{}); !errors.Is(err, errFrames) || !s.closed.Load() {
		t.Fatalf("%v, closed %v", err, s.closed.Load())
	}
	// As many small messages are no crumbs.
	x = newClient()
	x.headers(1)
	for range 4 * framesFree {
		_ = x.framer.WriteData(1, false, append(prefix(1), 1))
	}
	c, _ = arriving(t, g, x.Bytes(), 1<<20)
	g.admit(c)
	if _, err := drain(c, map[uint32]*stream{}); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
}

// FuzzConn gives a connection whatever bytes there are, and takes and ends
// streams at random: they pass as they came, and nothing is held at the end.
func FuzzConn(f *testing.F) {
	x := newClient()
	x.headers(1)
	_ = x.framer.WriteDataPadded(1, false, append(prefix(100), make([]byte, 150)...), make([]byte, 10))
	x.headers(3)
	_ = x.framer.WriteData(3, true, prefix(1<<25))
	f.Add(x.Bytes(), uint64(1))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), uint64(2))
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 1))
		g := newTestGate()
		c, s := arriving(t, g, data, 1+random.IntN(64))
		g.admit(c)
		var out []byte
		p := make([]byte, 100)
		var open []*stream
		for {
			g.mu.Lock()
			owes := c.debt != [kinds]int64{}
			g.mu.Unlock()
			if owes { // what would wait is not waited for here
				break
			}
			n, err := c.Read(p[:1+random.IntN(len(p))])
			out = append(out, p[:n]...)
			if err != nil {
				break
			}
			if c.opened != 0 {
				if s, err := c.open(Rule{}); err == nil {
					open = append(open, s)
				}
			}
			if len(open) > 0 && random.IntN(4) == 0 {
				open[random.IntN(len(open))].taken()
			}
			if len(open) > 0 && random.IntN(16) == 0 {
				open[random.IntN(len(open))].end()
			}
		}
		if !bytes.HasPrefix(data, out) {
			t.Fatal("the bytes were changed")
		}
		_ = s
		_ = c.Close()
		for _, s := range open {
			s.end()
		}
		idle(t, g)
	})
}
