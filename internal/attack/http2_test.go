package attack_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/tonnage/tonnage/internal/mtls"
)

// peerConn is one HTTP/2 connection of an attacker. It keeps to the windows that
// the server grants, since a server drops what is beyond them, and to nothing
// else.
type peerConn struct {
	conn   net.Conn
	framer *http2.Framer
	next   uint32 // the next stream
	head   bytes.Buffer
	hpack  *hpack.Encoder

	mu      sync.Mutex
	changed *sync.Cond
	initial int64
	window  int64
	streams map[uint32]int64
	ended   bool
}

// dial connects; nil when the server refuses. It is closed with ctx.
func dial(ctx context.Context, address string, secure *tls.Config) *peerConn {
	var d net.Dialer
	raw, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil
	}
	context.AfterFunc(ctx, func() { raw.Close() })
	conn := raw
	if secure != nil {
		over := tls.Client(conn, secure)
		if over.HandshakeContext(ctx) != nil {
			conn.Close()
			return nil
		}
		conn = over
	}
	p := &peerConn{conn: conn, framer: http2.NewFramer(conn, conn), next: 1, initial: 65535, window: 65535, streams: map[uint32]int64{}}
	p.changed = sync.NewCond(&p.mu)
	p.hpack = hpack.NewEncoder(&p.head)
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil || p.framer.WriteSettings() != nil {
		conn.Close()
		return nil
	}
	go p.listen()
	return p
}

// listen follows the server's windows, and answers nothing but settings.
func (p *peerConn) listen() {
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ended = true
		p.changed.Broadcast()
	}()
	for {
		frame, err := p.framer.ReadFrame()
		if err != nil {
			return
		}
		p.mu.Lock()
		switch x := frame.(type) {
		case *http2.SettingsFrame:
			if v, ok := x.Value(http2.SettingInitialWindowSize); ok {
				for id := range p.streams {
					p.streams[id] += int64(v) - p.initial
				}
				p.initial = int64(v)
			}
		case *http2.WindowUpdateFrame:
			if x.StreamID == 0 {
				p.window += int64(x.Increment)
			} else if _, ok := p.streams[x.StreamID]; ok {
				p.streams[x.StreamID] += int64(x.Increment)
			}
		case *http2.RSTStreamFrame:
			delete(p.streams, x.StreamID)
		}
		p.changed.Broadcast()
		p.mu.Unlock()
	}
}

// call opens a stream; 0 when the connection is over.
func (p *peerConn) call(method string, extra ...hpack.HeaderField) uint32 {
	p.head.Reset()
	for _, f := range append([]hpack.HeaderField{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: method}, {Name: ":authority", Value: "x"},
		{Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"},
	}, extra...) {
		_ = p.hpack.WriteField(f)
	}
	id := p.next
	p.next += 2
	p.mu.Lock()
	p.streams[id] = p.initial
	p.mu.Unlock()
	block := p.head.Bytes()
	first := block[:min(len(block), 16384)]
	err := p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: first, EndHeaders: len(first) == len(block)})
	for block = block[len(first):]; err == nil && len(block) > 0; {
		part := block[:min(len(block), 16384)]
		block = block[len(part):]
		err = p.framer.WriteContinuation(id, len(block) == 0, part)
	}
	if err != nil {
		return 0
	}
	return id
}

// take waits until the windows let n bytes at most go out; 0 when no more will.
func (p *peerConn) take(id uint32, n int64) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		w, open := p.streams[id]
		if p.ended || !open {
			return 0
		}
		if fits := min(n, w, p.window); fits > 0 {
			p.window -= fits
			p.streams[id] -= fits
			return fits
		}
		p.changed.Wait()
	}
}

// send sends bytes of a stream in frames of so many bytes, until all are sent
// or no more are let in.
func (p *peerConn) send(id uint32, data []byte, frame int) bool {
	for len(data) > 0 {
		n := p.take(id, int64(min(frame, len(data))))
		if n == 0 || p.framer.WriteData(id, false, data[:n]) != nil {
			return false
		}
		data = data[n:]
	}
	return true
}

// message is a gRPC message's prefix and its bytes.
func message(compressed bool, length int, body []byte) []byte {
	out := make([]byte, 5, 5+len(body))
	if compressed {
		out[0] = 1
	}
	binary.BigEndian.PutUint32(out[1:], uint32(length))
	return append(out, body...)
}

// shows is what an attacker shows with a certificate, nil for plaintext.
func shows(t testing.TB, files mtls.Files) *tls.Config {
	t.Helper()
	if files == (mtls.Files{}) {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(files.CA)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots, Certificates: []tls.Certificate{pair}, ServerName: "127.0.0.1", NextProtos: []string{"h2"}}
}

// attackFor is how long an attack lasts.
func attackFor() time.Duration {
	if *soak {
		return 45 * time.Second // longer than any limit in the servers
	}
	return 2 * time.Second
}
