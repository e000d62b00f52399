package httpguard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/tonnage/tonnage/internal/mtls"
)

// The limits of a server.
const (
	// ConnectionsMax and ConnectionsPerAddressMax bound the connections that are
	// open at a time, in all and from one address (of IPv6: one /64). A connection
	// beyond them is closed at once.
	ConnectionsMax           = 512
	ConnectionsPerAddressMax = 64
	// HeaderBytesMax bounds the head of a request, BodyBytesMax its body.
	HeaderBytesMax = 16 << 10
	BodyBytesMax   = 64 << 10
	// headerTimeout is how long a head may take to arrive, and a TLS handshake;
	// bodyTimeout a body.
	headerTimeout = 5 * time.Second
	bodyTimeout   = 10 * time.Second
	// responseTimeout is how long an answer may take until the last of it is
	// written. Streams have a limit of their own for each event.
	responseTimeout = 5 * time.Minute
	// idleTimeout is how long a connection may wait for the next request.
	idleTimeout = 30 * time.Second
	// stopTimeoutDefault is how long requests may take to end when the process stops.
	stopTimeoutDefault = time.Second
)

// Options say how a server serves. The zero Options are plain HTTP.
type Options struct {
	// TLS has the server speak TLS and ask for client certificates, which need
	// not be shown; nil = plain HTTP.
	TLS *mtls.Material
	// Stopping is called when the server begins to stop, to end streams; may be
	// nil.
	Stopping func()
	// StopTimeout is how long requests may take to end then; 0 = one second.
	StopTimeout time.Duration
	// Log takes panics of handlers as errors, and connections that fail as debug;
	// nil = slog.Default().
	Log *slog.Logger
}

// Serve answers on a listener until the context ends, and returns nil then,
// after StopTimeout at most. It closes the listener.
func Serve(ctx context.Context, l net.Listener, h http.Handler, o Options) error {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	server := &http.Server{
		Handler: bounded(h), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: HeaderBytesMax,
		ErrorLog: log.New(serverLog{o.Log}, "", 0), Protocols: new(http.Protocols), DisableGeneralOptionsHandler: true,
	}
	server.Protocols.SetHTTP1(true)
	failed := make(chan error, 1)
	l = newLimited(l)
	if o.TLS != nil {
		server.TLSConfig = o.TLS.OptionalClientConfig()
		go func() { failed <- server.ServeTLS(l, "", "") }()
	} else {
		go func() { failed <- server.Serve(l) }()
	}
	select {
	case err := <-failed:
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	if o.Stopping != nil {
		o.Stopping()
	}
	if o.StopTimeout == 0 {
		o.StopTimeout = stopTimeoutDefault
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.StopTimeout)
	defer cancel()
	if err := server.Shutdown(stop); err != nil {
		if err = server.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			return err
		}
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// bounded limits what a request may send and how long it may take, and answers
// with headers that keep browsers from framing, sniffing and embedding.
func bounded(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		SetHeaders(w, r)
		control := http.NewResponseController(w)
		// A connection that cannot have deadlines is gone already.
		_ = control.SetWriteDeadline(time.Now().Add(responseTimeout))
		if r.Body != http.NoBody {
			_ = control.SetReadDeadline(time.Now().Add(bodyTimeout))
			r.Body = http.MaxBytesReader(w, r.Body, BodyBytesMax)
		}
		h.ServeHTTP(w, r)
	})
}

// SetHeaders sets the headers of every answer. The policy is that of an answer
// that is no page; a page sets its own.
func SetHeaders(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if r.TLS != nil || isLoopback(hostOf(r.Host)) { // elsewhere browsers ignore it, and complain
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
	}
}

// serverLog sorts what the library logs: a handler's panic is a fault of ours,
// all else is what a peer did, and a flood of that is not to fill the log.
type serverLog struct{ log *slog.Logger }

func (l serverLog) Write(line []byte) (int, error) {
	level := slog.LevelDebug
	if bytes.HasPrefix(line, []byte("http: panic")) {
		level = slog.LevelError
	}
	l.log.Log(context.Background(), level, "http server", "error", string(bytes.TrimSpace(line)))
	return len(line), nil
}

// limited is a listener that bounds how many connections are open.
type limited struct {
	net.Listener

	mu   sync.Mutex
	all  int
	from map[netip.Prefix]int
}

func newLimited(l net.Listener) *limited {
	return &limited{Listener: l, from: map[netip.Prefix]int{}}
}

// Accept returns the next connection that is within the limits, and closes
// those that are not.
func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		source := sourceOf(c.RemoteAddr())
		if l.take(source) {
			return &counted{Conn: c, done: sync.OnceFunc(func() { l.give(source) })}, nil
		}
		c.Close()
	}
}

// sourceOf returns the address that connections are counted by.
func sourceOf(a net.Addr) netip.Prefix {
	at, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Prefix{}
	}
	ip, bits := at.Addr().Unmap().WithZone(""), 64
	if ip.Is4() {
		bits = 32
	}
	return netip.PrefixFrom(ip, bits).Masked()
}

func (l *limited) take(source netip.Prefix) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all >= ConnectionsMax || l.from[source] >= ConnectionsPerAddressMax {
		return false
	}
	l.all++
	l.from[source]++
	return true
}

func (l *limited) give(source netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.from[source]--; l.from[source] == 0 {
		delete(l.from, source)
	}
}

// counted gives its place back when it is closed.
type counted struct {
	net.Conn
	done func()
}

func (c *counted) Close() error {
	c.done()
	return c.Conn.Close()
}
