package web

import (
	"compress/gzip"
	"context"
	"embed"
	"encoding/hex"
	"hash/fnv"
	"io"
	"io/fs"
	"mime"
	"net"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tonnage/tonnage/internal/httpguard"
	"github.com/tonnage/tonnage/internal/mtls"
)

//go:embed assets
var assets embed.FS

//go:embed openapi.json
var openAPI []byte

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
	World func(context.Context, io.Writer) error
	// Plan writes the picture of a plan, as SVG; ok is false when it is not, or no
	// longer, kept. nil = no such path. It may be called by several at a time.
	Plan func(number uint64, out io.Writer) (ok bool, err error)
	// Queries answer below QueryPath, by name.
	Queries map[string]Query
	// Retire forgets a Failed machine; nil = no such path. The error says why it
	// cannot.
	Retire func(machine string) error
	// Profiles serves /debug/pprof/.
	Profiles bool
	// Guard says who may have what; nil lets this machine in and nobody else.
	// Metrics and probes are open to all.
	Guard *httpguard.Guard
}

// Site is the handler of all paths: the page, its feed, metrics and health.
type Site struct {
	feed      *Feed
	mux       *http.ServeMux
	heartbeat time.Duration
}

// RetirePath is where a Failed machine is forgotten, by POST; the query names it.
const RetirePath = "/api/retire"

// OpenAPI returns the description of the API: an OpenAPI 3.1 document.
func OpenAPI() []byte { return openAPI }

// New returns the site.
func New(c Config) *Site {
	s := &Site{feed: c.Feed, mux: http.NewServeMux(), heartbeat: heartbeatGap}
	read := func(pattern string, h http.Handler) { s.mux.Handle(pattern, c.Guard.Read(h)) }
	// Paths without a version are those of earlier ones.
	both := func(old, now string, h http.Handler) { read("GET "+old, h); read("GET "+now, h) }
	both("/api/state", "/api/v1/state", http.HandlerFunc(s.state))
	both("/events", "/api/v1/events", http.HandlerFunc(s.events))
	if c.World != nil {
		both("/api/world", "/api/v1/world", worldOf(c.World))
	}
	if c.Plan != nil {
		read("GET /plans/{number}", planOf(c.Plan))
	}
	if len(c.Queries) > 0 {
		c.Feed.answers()
	}
	for name, ask := range c.Queries {
		read("GET "+QueryPath+name, queryOf(ask))
	}
	read("GET /api/v1/openapi.json", asset("openapi.json", openAPI))
	s.page(read)
	if c.Retire != nil {
		retire := c.Guard.Change(retireOf(c.Retire))
		s.mux.Handle("POST "+RetirePath, retire)
		s.mux.Handle("POST /api/v1/retire", retire)
	}
	if c.Profiles {
		s.mux.Handle("GET /debug/pprof/", c.Guard.Profiles())
	}
	s.mux.Handle("POST "+httpguard.LoginPath, c.Guard.Login())
	httpguard.HandleProbes(s.mux, c.Metrics, func(context.Context) error {
		if c.Ready == nil {
			return nil
		}
		return c.Ready()
	})
	return s
}

// pagePolicy lets the page have what comes from where it does, and nothing else.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// ServeHTTP answers with the headers that keep the page to itself: it loads
// nothing from elsewhere and cannot be framed.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	httpguard.SetHeaders(w, r)
	w.Header().Set("Content-Security-Policy", pagePolicy)
	s.mux.ServeHTTP(w, r)
}

// retireOf has a machine forgotten.
func retireOf(retire func(machine string) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := retire(r.URL.Query().Get("machine")); err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		io.WriteString(w, "retired\n")
	})
}

// page registers the embedded files, each with a tag of its content so that a
// browser asks again after an upgrade and only then.
func (s *Site) page(serve func(pattern string, h http.Handler)) {
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
		serve(pattern, asset(name, body))
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
	w.Header().Set("Cache-Control", "no-store")
	writePacked(w, r, s.feed.snapshot())
}

// writePacked writes JSON, compressed where the client can.
func writePacked(w http.ResponseWriter, r *http.Request, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
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

// stopTimeout is how long requests may take to end once the site stops.
const stopTimeout = 700 * time.Millisecond

// Serve answers on the listener until the context ends, then closes the
// streams and returns within stopTimeout. With material it speaks TLS.
func (s *Site) Serve(ctx context.Context, l net.Listener, material *mtls.Material) error {
	return httpguard.Serve(ctx, l, s, httpguard.Options{TLS: material, Stopping: s.feed.Close, StopTimeout: stopTimeout})
}
