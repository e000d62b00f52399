package web

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const testLimit = 10 * time.Second // a test that waits longer has failed

func get(t *testing.T, s *Site, path string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:8080"+path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	r.RemoteAddr = "127.0.0.1:50000"
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func TestEveryPathAnswers(t *testing.T) {
	registry := prometheus.NewRegistry()
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "bigfleet_test_total"})
	registry.MustRegister(counter)
	var unready error
	s := New(Config{Feed: newFeed(), Metrics: registry, Ready: func() error { return unready }, Profiles: true})
	for _, c := range []struct {
		path, kind, has string
		code            int
	}{
		{"/", "text/html; charset=utf-8", "<title>Tonnage", 200},
		{"/app.js", "text/javascript; charset=utf-8", "import", 200},
		{"/style.css", "text/css; charset=utf-8", ":root", 200},
		{"/favicon.svg", "image/svg+xml", "<svg", 200},
		{"/api/state", "application/json", `"frame":null`, 200},
		{"/metrics", "", "bigfleet_test_total 0", 200},
		{"/healthz", "", "ok", 200},
		{"/readyz", "", "ready", 200},
		{"/debug/pprof/", "", "goroutine", 200},
		{"/debug/pprof/cmdline", "", "", 200},
		{"/nothing", "", "", 404},
		{"/assets/", "", "", 404},
		{"/doc.go", "", "", 404},
	} {
		w := get(t, s, c.path)
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.has) {
			t.Errorf("%s: code %d, body %.80q; want %d and %q", c.path, w.Code, w.Body, c.code, c.has)
		}
		if c.kind != "" && w.Header().Get("Content-Type") != c.kind {
			t.Errorf("%s: type %q, want %q", c.path, w.Header().Get("Content-Type"), c.kind)
		}
		if !strings.Contains(w.Header().Get("Content-Security-Policy"), "default-src 'none'") || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: the security headers are missing: %v", c.path, w.Header())
		}
	}
	unready = errors.New("the first reconcile has not succeeded yet")
	if w := get(t, s, "/readyz"); w.Code != 503 || !strings.Contains(w.Body.String(), "first reconcile") {
		t.Errorf("/readyz while not ready: %d %q", w.Code, w.Body)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/api/state", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST /api/state: %d, want 405", w.Code)
	}
}

func TestThePageAsksForNothingFromElsewhere(t *testing.T) {
	entries, err := assets.ReadDir("assets")
	if err != nil {
		t.Fatal(err)
	}
	address := regexp.MustCompile(`https?://[^\s'"]+`)
	s := New(Config{Feed: newFeed()})
	for _, e := range entries {
		body, err := assets.ReadFile("assets/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range address.FindAllString(string(body), -1) {
			if found != "http://www.w3.org/2000/svg" { // a name, never fetched
				t.Errorf("%s names %s", e.Name(), found)
			}
		}
		if strings.Contains(string(body), "innerHTML") || strings.Contains(string(body), " style=\"") {
			t.Errorf("%s sets markup or styles that the policy refuses", e.Name())
		}
	}
	imports := regexp.MustCompile(`from '\./([a-z]+\.js)'`)
	for _, e := range entries {
		body, _ := assets.ReadFile("assets/" + e.Name())
		for _, m := range imports.FindAllStringSubmatch(string(body), -1) {
			if w := get(t, s, "/"+m[1]); w.Code != 200 {
				t.Errorf("%s imports %s, which is not served", e.Name(), m[1])
			}
		}
	}
}

func TestAnUnchangedFileIsNotSentTwice(t *testing.T) {
	s := New(Config{Feed: newFeed()})
	tag := get(t, s, "/app.js").Header().Get("ETag")
	if w := get(t, s, "/app.js", "If-None-Match", tag); tag == "" || w.Code != http.StatusNotModified || w.Body.Len() > 0 {
		t.Errorf("tag %q: code %d, %d bytes; want 304 and none", tag, w.Code, w.Body.Len())
	}
}

func TestStateIsCompressedWhereTheClientCan(t *testing.T) {
	f := newFeed()
	fill(f, 1, 100)
	s := New(Config{Feed: f})
	plain := get(t, s, "/api/state").Body.Bytes()
	w := get(t, s, "/api/state", "Accept-Encoding", "gzip, br")
	z, err := gzip.NewReader(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	var got struct{ History []row }
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.History) != 100 || got.History[99].Machines[4] != 100 {
		t.Errorf("the history has %d points", len(got.History))
	}
	if w.Header().Get("Content-Encoding") != "gzip" || len(plain) == 0 {
		t.Errorf("headers %v, %d plain bytes", w.Header(), len(plain))
	}
}

// TestEveryRouteOfThePageIsGuarded: of all routes only metrics and probes are
// open to peers elsewhere and under names of somebody else.
func TestEveryRouteOfThePageIsGuarded(t *testing.T) {
	retired := 0
	s := New(Config{
		Feed: newFeed(), Metrics: prometheus.NewRegistry(), Profiles: true,
		World:  func(_ context.Context, out io.Writer) error { _, err := io.WriteString(out, "{}"); return err },
		Plan:   func(_ uint64, out io.Writer) (bool, error) { _, err := io.WriteString(out, "<svg/>"); return true, err },
		Retire: func(string) error { retired++; return nil },
	})
	ask := func(method, path, peer, host string, header ...string) int {
		r := httptest.NewRequest(method, "http://"+host+path, nil)
		r.RemoteAddr = peer
		for i := 0; i+1 < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Code
	}
	const local, far, name, other = "127.0.0.1:50000", "198.51.100.7:50000", "127.0.0.1:8080", "evil.example:8080"
	for _, path := range []string{"/", "/app.js", "/api/state", "/api/world", "/plans/1", "/debug/pprof/", "/debug/pprof/cmdline", "POST " + RetirePath + "?machine=m"} {
		method := http.MethodGet
		if rest, ok := strings.CutPrefix(path, "POST "); ok {
			method, path = http.MethodPost, rest
		}
		for _, c := range []struct {
			what, peer, host string
			header           []string
			want             int
		}{
			{"from this machine", local, name, nil, 200},
			{"from elsewhere", far, name, nil, 403},
			{"under another's name", local, other, nil, 403},
			{"through a proxy", local, name, []string{"X-Forwarded-For", "203.0.113.9"}, 403},
			{"from a foreign page", local, name, []string{"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"}, 403},
		} {
			if got := ask(method, path, c.peer, c.host, c.header...); got != c.want {
				t.Errorf("%s %s %s: %d, want %d", method, path, c.what, got, c.want)
			}
		}
	}
	if retired != 1 {
		t.Errorf("%d machines were retired, want 1", retired)
	}
	if got := ask(http.MethodPost, RetirePath, local, name, "Origin", "https://evil.example"); got != 403 {
		t.Errorf("a change with a foreign Origin alone: %d, want 403", got)
	}
	if got := ask(http.MethodGet, "/events", far, name); got != 403 {
		t.Errorf("/events from elsewhere: %d, want 403", got)
	}
	for _, path := range []string{"/metrics", "/healthz", "/readyz"} {
		if got := ask(http.MethodGet, path, far, "10.0.0.7:8780"); got != 200 {
			t.Errorf("%s from elsewhere: %d, want 200", path, got)
		}
	}
}

// site serves on a free port; stop ends it and returns what Serve returned.
func site(t *testing.T, s *Site) (url string, stop func() error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), testLimit)
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l, nil) }()
	t.Cleanup(cancel)
	return "http://" + l.Addr().String(), func() error { cancel(); return <-done }
}

// lines reads a stream's lines until one has the prefix.
func lines(t *testing.T, in *bufio.Scanner, prefix string) string {
	t.Helper()
	for in.Scan() {
		if strings.HasPrefix(in.Text(), prefix) {
			return in.Text()
		}
	}
	t.Fatalf("the stream ended before a line %q: %v", prefix, in.Err())
	return ""
}

func TestAStreamBringsEachCycleAndEndsWithTheProcess(t *testing.T) {
	f := newFeed()
	f.Publish(Frame{Cycle: 7, At: 1000, Needs: 3})
	s := New(Config{Feed: f})
	s.heartbeat = time.Millisecond
	url, stop := site(t, s)
	answer, err := http.Get(url + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	h := answer.Header
	if !strings.HasPrefix(h.Get("Content-Type"), "text/event-stream") || h.Get("Cache-Control") != "no-store" || h.Get("X-Accel-Buffering") != "no" {
		t.Errorf("headers %v", h)
	}
	in := bufio.NewScanner(answer.Body)
	in.Buffer(nil, 1<<20)
	if got := lines(t, in, "retry:"); got != "retry: 2000" {
		t.Errorf("got %q", got)
	}
	if got := lines(t, in, "id:"); got != "id: 7" {
		t.Errorf("got %q, want the newest cycle at once", got)
	}
	var e struct{ Frame Frame }
	if err := json.Unmarshal([]byte(strings.TrimPrefix(lines(t, in, "data:"), "data: ")), &e); err != nil || e.Frame.Needs != 3 {
		t.Errorf("the event is %+v: %v", e, err)
	}
	lines(t, in, ": still here")
	f.Publish(Frame{Cycle: 8, At: 2000})
	if got := lines(t, in, "id:"); got != "id: 8" {
		t.Errorf("got %q, want cycle 8", got)
	}
	started := time.Now()
	if err := stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(started); took > stopTimeout {
		t.Errorf("stopping took %v with a stream open, want less than %v", took, stopTimeout)
	}
	lines(t, in, "event: bye")
}

func TestOneStreamTooManyIsToldToComeBack(t *testing.T) {
	f := newFeed()
	for range ClientsMax {
		if _, err := f.subscribe(); err != nil {
			t.Fatal(err)
		}
	}
	w := get(t, New(Config{Feed: f}), "/events")
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("got %d %v", w.Code, w.Header())
	}
}

func TestAClientThatLeavesIsForgotten(t *testing.T) {
	f := newFeed()
	url, stop := site(t, New(Config{Feed: f}))
	ctx, leave := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	leave()
	answer.Body.Close()
	if err := stop(); err != nil { // returns when every request has ended
		t.Error(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.clients) != 0 {
		t.Errorf("%d clients are still held", len(f.clients))
	}
}
