package web

import (
	"compress/gzip"
	"context"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"mime"
	"net"
	"net/http"
	"net/http/pprof"
	"path"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

//go:embed assets
var assets embed.FS

// Config is what a Site is made of.
type Config struct {
	Feed *Feed
	// Metrics is served at /metrics; nil = no such path.
	Metrics prometheus.Gatherer
	// Ready returns why the process is not ready, nil when it is; a nil
	// function is always ready.
	Ready func() error
	// World writes what the next cycle would look at, as a file that what-if
	// reads; nil = no such path. One request at a time is served.
	World func(io.Writer) error
	// Plan writes the picture of a plan, as SVG; ok is false when it is not, or no
	// longer, kept. nil = no such path. It may be called by several at a time.
	Plan func(number uint64, out io.Writer) (ok bool, err error)
	// Pprof serves /debug/pprof/. It shows memory and code of the process: set
	// it only for a listener that Loopback accepts.
	Pprof bool
}

// Site is the handler of all paths: the page, its feed, metrics and health.
type Site struct {
	feed      *Feed
	ready     func() error
	mux       *http.ServeMux
	heartbeat time.Duration
}

// New returns the site.
func New(c Config) *Site {
	s := &Site{feed: c.Feed, ready: c.Ready, mux: http.NewServeMux(), heartbeat: heartbeatGap}
	s.mux.HandleFunc("GET /api/state", s.state)
	s.mux.HandleFunc("GET /events", s.events)
	s.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })
	s.mux.HandleFunc("GET /readyz", s.readyz)
	if c.Metrics != nil {
		s.mux.Handle("GET /metrics", promhttp.HandlerFor(c.Metrics, promhttp.HandlerOpts{}))
	}
	if c.World != nil {
		s.mux.Handle("GET /api/world", worldOf(c.World))
	}
	if c.Plan != nil {
		s.mux.Handle("GET /plans/{number}", planOf(c.Plan))
	}
	if c.Pprof {
		s.profiles()
	}
	s.page()
	return s
}

// ServeHTTP answers with the headers that keep the page to itself: it loads
// nothing from elsewhere and cannot be framed.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	s.mux.ServeHTTP(w, r)
}

// page registers the embedded files, each with a tag of its content so that a
// browser asks again after an upgrade and only then.
func (s *Site) page() {
	err := fs.WalkDir(assets, "assets", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := assets.ReadFile(name)
		if err != nil {
			return err
		}
		pattern := "GET /" + strings.TrimPrefix(name, "assets/")
		if path.Base(name) == "index.html" {
			pattern = "GET /{$}"
		}
		s.mux.Handle(pattern, asset(name, body))
		return nil
	})
	if err != nil {
		panic(err) // the files are part of the binary
	}
}

func asset(name string, body []byte) http.Handler {
	sum := fnv.New128a()
	sum.Write(body)
	tag := `"` + hex.EncodeToString(sum.Sum(nil)) + `"`
	kind := mime.TypeByExtension(path.Ext(name))
	if path.Ext(name) == ".js" {
		kind = "text/javascript; charset=utf-8" // hosts differ on this one
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Write(body)
	})
}

// state answers with the newest frame and the history, compressed where the
// client can: a day of history is half a megabyte otherwise.
func (s *Site) state(w http.ResponseWriter, r *http.Request) {
	body := s.feed.snapshot()
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Accept-Encoding")
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Write(body)
		return
	}
	h.Set("Content-Encoding", "gzip")
	z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // fails only on an unknown level
	z.Write(body)
	z.Close()
}

func (s *Site) readyz(w http.ResponseWriter, _ *http.Request) {
	if s.ready != nil {
		if err := s.ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
	}
	io.WriteString(w, "ready\n")
}

// profiles serves the runtime's profiles to requests that name this host: a
// page of another site that had its own name point here is refused.
func (s *Site) profiles() {
	local := func(h http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if !localName(r.Host) {
				http.Error(w, "profiles are served to localhost only", http.StatusForbidden)
				return
			}
			h(w, r)
		}
	}
	s.mux.HandleFunc("GET /debug/pprof/", local(pprof.Index))
	s.mux.HandleFunc("GET /debug/pprof/cmdline", local(pprof.Cmdline))
	s.mux.HandleFunc("GET /debug/pprof/profile", local(pprof.Profile))
	s.mux.HandleFunc("GET /debug/pprof/symbol", local(pprof.Symbol))
	s.mux.HandleFunc("GET /debug/pprof/trace", local(pprof.Trace))
}

func localName(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return ip != nil && ip.IsLoopback()
}

// Loopback reports whether only this machine can reach a listener's address.
func Loopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// shutdownLimit is how long requests may take to end once the site stops.
const shutdownLimit = 700 * time.Millisecond

// Serve answers on the listener until the context ends, then closes the
// streams and returns within shutdownLimit.
func (s *Site) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{Handler: s, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	s.feed.Close()
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownLimit)
	defer cancel()
	if err := server.Shutdown(limit); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return server.Close()
}
