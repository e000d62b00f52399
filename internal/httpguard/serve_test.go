package httpguard

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tonnage/tonnage/internal/mtls"
	"github.com/tonnage/tonnage/internal/mtls/mtlstest"
)

// served is a server on a free port of loopback, until the test ends.
func served(t *testing.T, h http.Handler, o Options) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, l, h, o) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

func TestServeBoundsWhatARequestSends(t *testing.T) {
	read := make(chan error, 1)
	at := served(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		read <- err
	}), Options{})
	res, err := http.Post("http://"+at, "text/plain", strings.NewReader(strings.Repeat("x", BodyBytesMax+1)))
	if err == nil {
		res.Body.Close()
	}
	var tooLong *http.MaxBytesError
	if err := <-read; !errors.As(err, &tooLong) || tooLong.Limit != BodyBytesMax {
		t.Errorf("a body that is too long: %v", err)
	}
	req, err := http.NewRequest(http.MethodGet, "http://"+at, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Long", strings.Repeat("x", 2*HeaderBytesMax))
	if res, err = http.DefaultClient.Do(req); err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a head that is too long: %s", res.Status)
	}
}

func TestServeBoundsConnectionsOfAnAddress(t *testing.T) {
	at := served(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), Options{})
	// A connection that is over the limit is closed at once: it is read to its end.
	open := func(from string) (net.Conn, bool) {
		t.Helper()
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		c, err := d.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			return c, false
		}
		n, err := c.Read(make([]byte, 12))
		return c, err == nil && n == 12
	}
	var first net.Conn
	for i := range ConnectionsPerAddressMax {
		c, answered := open("127.0.0.1")
		if !answered {
			t.Fatalf("connection %d is not answered", i)
		}
		if first == nil {
			first = c
		}
	}
	if _, answered := open("127.0.0.1"); answered {
		t.Error("a connection beyond the limit is answered")
	}
	if _, answered := open("127.0.0.2"); !answered {
		t.Error("another address is not answered")
	}
	first.Close()
	for end := time.Now().Add(20 * time.Second); ; { // until the server has seen it
		if _, answered := open("127.0.0.1"); answered {
			return
		}
		if time.Now().After(end) {
			t.Fatal("the place of a closed connection is not given back")
		}
	}
}

func TestConnectionsAreCountedByAddressAndNetwork(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.1:1": "192.0.2.1/32", "[::ffff:192.0.2.1]:1": "192.0.2.1/32", "[2001:db8:1:2:3::4]:1": "2001:db8:1:2::/64", "[fe80::1%eth0]:1": "fe80::/64",
	} {
		a, err := net.ResolveTCPAddr("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if got := sourceOf(a).String(); got != want {
			t.Errorf("%s is counted as %s, want %s", address, got, want)
		}
	}
}

func TestServeOverTLSAsksForCertificates(t *testing.T) {
	authority := mtlstest.NewAuthority(t)
	load := func(uris ...string) *mtls.Material {
		t.Helper()
		m, err := mtls.Load(authority.Files(t, uris...), nil)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	token := New(Config{Token: openToken(t, tokenFile(t, secret))})
	at := served(t, token.Change(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})), Options{TLS: load("bigfleet://shard/s")})
	otherAdmin, err := mtls.Load(mtlstest.NewAuthority(t).Files(t, "bigfleet://admin"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what  string
		shows *mtls.Material
		token string
		want  int // 0 = no connection
	}{
		{"an admin", load("bigfleet://admin"), "", 200},
		{"a reader", load("bigfleet://readonly"), "", 401},
		{"a tenant", load("bigfleet://cluster/c"), "", 401},
		{"no certificate", nil, "", 401},
		{"no certificate and the token", nil, secret, 200},
		{"an admin of another authority", otherAdmin, "", 0},
	} {
		config := load("bigfleet://admin").ClientConfig()
		config.GetClientCertificate = nil
		if c.shows != nil {
			config.GetClientCertificate = c.shows.ClientConfig().GetClientCertificate
		}
		transport := &http.Transport{TLSClientConfig: config}
		req, err := http.NewRequest(http.MethodPost, "https://"+at, nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.token != "" {
			req.Header.Set("Authorization", "Bearer "+c.token)
		}
		got := 0
		if res, err := transport.RoundTrip(req); err == nil {
			got = res.StatusCode
			res.Body.Close()
		}
		transport.CloseIdleConnections()
		if got != c.want {
			t.Errorf("%s: %d, want %d", c.what, got, c.want)
		}
	}
}

func TestProbesAreOpenAndBounded(t *testing.T) {
	mux := http.NewServeMux()
	wrong := errors.New("not yet")
	HandleProbes(mux, nil, func(context.Context) error { return wrong })
	get := func(path string) (int, string) {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.RemoteAddr, r.Host = far, "10.0.0.7"
		mux.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	if code, text := get("/readyz"); code != 503 || !strings.Contains(text, "not yet") {
		t.Errorf("/readyz: %d %q", code, text)
	}
	wrong = nil
	for path, want := range map[string]int{"/readyz": 200, "/healthz": 200, "/metrics": 404} {
		if code, _ := get(path); code != want {
			t.Errorf("%s: %d, want %d", path, code, want)
		}
	}
}

func TestPanicsAreLoggedAndFloodsAreNot(t *testing.T) {
	var text bytes.Buffer
	l := serverLog{slog.New(slog.NewTextHandler(&text, nil))}
	for _, line := range []string{"http: TLS handshake error from 192.0.2.1:1: EOF\n", "http: panic serving 192.0.2.1:1: boom\n"} {
		if n, err := l.Write([]byte(line)); n != len(line) || err != nil {
			t.Fatal(n, err)
		}
	}
	if got := text.String(); !strings.Contains(got, "level=ERROR") || !strings.Contains(got, "boom") || strings.Contains(got, "handshake") {
		t.Errorf("logged %q", got)
	}
}
