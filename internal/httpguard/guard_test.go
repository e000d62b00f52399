package httpguard

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const secret = "0123456789abcdef0123456789abcdef"

// tokenFile writes a token and returns the file.
func tokenFile(t *testing.T, token string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func openToken(t *testing.T, path string) *Token {
	t.Helper()
	token, err := OpenToken(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// caller is where a request comes from and what it shows.
type caller struct {
	peer, host string
	uri        string // of a verified certificate; "none" = TLS without one
	header     []string
}

const (
	local = "127.0.0.1:50000"
	far   = "198.51.100.7:50000"
	here1 = "localhost:8080"
)

// ask returns the answer of a guarded route of a class.
func ask(g *Guard, c class, who caller) *httptest.ResponseRecorder {
	method := http.MethodGet
	if c == change {
		method = http.MethodPost
	}
	r := httptest.NewRequest(method, "http://"+who.host+"/x", nil)
	r.RemoteAddr = who.peer
	for i := 0; i+1 < len(who.header); i += 2 {
		r.Header.Add(who.header[i], who.header[i+1])
	}
	at := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 9), Port: 8780}
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(at)))
	if who.uri != "" {
		r.TLS = &tls.ConnectionState{}
		if u, err := url.Parse(who.uri); err == nil && who.uri != "none" {
			leaf := &x509.Certificate{URIs: []*url.URL{u}}
			r.TLS.PeerCertificates = []*x509.Certificate{leaf}
			r.TLS.VerifiedChains = [][]*x509.Certificate{{leaf}}
		}
	}
	w := httptest.NewRecorder()
	g.wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }), c).ServeHTTP(w, r)
	return w
}

func TestTheTableOfWhoMayAskForWhat(t *testing.T) {
	none := New(Config{Remedy: "remedy"})
	token := New(Config{Remedy: "remedy", Token: openToken(t, tokenFile(t, secret+"\n")), Hosts: []string{"fleet.example"}})
	bearer := []string{"Authorization", "Bearer " + secret}
	for _, c := range []struct {
		what                  string
		g                     *Guard
		who                   caller
		read, inspect, change int
	}{
		{"this machine", none, caller{peer: local, host: here1}, 200, 200, 200},
		{"this machine, IPv6", none, caller{peer: "[::1]:5", host: "[::1]:8080"}, 200, 200, 200},
		{"this machine, IPv4 in IPv6", none, caller{peer: "[::ffff:127.0.0.1]:5", host: "127.0.0.1"}, 200, 200, 200},
		{"this machine, nil guard", nil, caller{peer: local, host: here1}, 200, 200, 200},
		{"elsewhere, nil guard", nil, caller{peer: far, host: here1}, 403, 403, 403},
		{"elsewhere", none, caller{peer: far, host: here1}, 403, 403, 403},
		{"elsewhere, by the address", none, caller{peer: far, host: "192.0.2.9:8780"}, 403, 403, 403},
		{"no peer", none, caller{peer: "@", host: here1}, 403, 403, 403},
		{"rebound name", none, caller{peer: local, host: "evil.example:8080"}, 403, 403, 403},
		{"rebound name that looks local", none, caller{peer: local, host: "127.0.0.1.evil.example"}, 403, 403, 403},
		{"name below localhost", none, caller{peer: local, host: "evil.localhost"}, 403, 403, 403},
		{"unspecified address", none, caller{peer: local, host: "0.0.0.0:8080"}, 403, 403, 403},
		{"address of another machine", none, caller{peer: local, host: "192.0.2.10"}, 403, 403, 403},
		{"address that it arrived at", none, caller{peer: local, host: "192.0.2.9:8780"}, 200, 200, 200},
		{"upper case and a dot", none, caller{peer: local, host: "LocalHost.:8080"}, 200, 200, 200},
		{"passed on", none, caller{peer: local, host: here1, header: []string{"X-Forwarded-For", "203.0.113.9"}}, 403, 403, 403},
		{"passed on, new header", none, caller{peer: local, host: here1, header: []string{"Forwarded", "for=203.0.113.9"}}, 403, 403, 403},
		{"foreign page", none, caller{peer: local, host: here1, header: []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"}}, 403, 403, 403},
		{"page of another port", none, caller{peer: local, host: here1, header: []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors"}}, 403, 403, 403},
		{"link on a foreign page", none, caller{peer: local, host: here1, header: []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}}, 200, 403, 403},
		{"frame of a foreign page", none, caller{peer: local, host: here1, header: []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}}, 403, 403, 403},
		{"own page", none, caller{peer: local, host: here1, header: []string{"Sec-Fetch-Site", "same-origin", "Origin", "http://" + here1}}, 200, 200, 200},
		{"foreign Origin alone", none, caller{peer: local, host: here1, header: []string{"Origin", "https://evil.example"}}, 200, 200, 403},
		{"a token where there is none", none, caller{peer: local, host: here1, header: bearer}, 401, 401, 401},

		{"this machine, no token shown", token, caller{peer: local, host: here1}, 200, 200, 401},
		{"allowed name", token, caller{peer: local, host: "fleet.example:443"}, 200, 200, 401},
		{"elsewhere, no token shown", token, caller{peer: far, host: "fleet.example"}, 401, 401, 401},
		{"token from elsewhere", token, caller{peer: far, host: "fleet.example", header: bearer}, 200, 200, 200},
		{"token under any name", token, caller{peer: far, host: "pod.svc:8780", header: bearer}, 200, 200, 200},
		{"token, foreign page", token, caller{peer: far, host: "fleet.example", header: append(bearer, "Origin", "https://evil.example")}, 200, 200, 403},
		{"wrong token from this machine", token, caller{peer: local, host: here1, header: []string{"Authorization", "Bearer " + secret[1:] + "0"}}, 401, 401, 401},
		{"token as a password", token, caller{peer: far, host: here1, header: []string{"Authorization", "Basic " + secret}}, 401, 401, 401},
		{"empty token", token, caller{peer: far, host: here1, header: []string{"Authorization", "Bearer "}}, 401, 401, 401},

		{"admin", none, caller{peer: far, host: "pod:1", uri: "bigfleet://admin"}, 200, 200, 200},
		{"admin, foreign page", none, caller{peer: far, host: "pod:1", uri: "bigfleet://admin", header: []string{"Origin", "https://evil.example"}}, 200, 200, 403},
		{"readonly", none, caller{peer: far, host: "192.0.2.9", uri: "bigfleet://readonly"}, 200, 403, 403},
		{"tenant", none, caller{peer: far, host: "192.0.2.9", uri: "bigfleet://cluster/c"}, 403, 403, 403},
		{"shard", none, caller{peer: far, host: "192.0.2.9", uri: "bigfleet://shard/s"}, 403, 403, 403},
		{"TLS without a certificate", none, caller{peer: far, host: "192.0.2.9", uri: "none"}, 403, 403, 403},
		{"this machine over TLS", none, caller{peer: local, host: here1, uri: "none"}, 200, 200, 403},
		{"this machine over TLS as readonly", none, caller{peer: local, host: here1, uri: "bigfleet://readonly"}, 200, 200, 403},
	} {
		for class, want := range map[class]int{read: c.read, inspect: c.inspect, change: c.change} {
			w := ask(c.g, class, c.who)
			if w.Code != want {
				t.Errorf("%s, class %d: %d %q, want %d", c.what, class, w.Code, w.Body, want)
			}
			if strings.Contains(w.Body.String(), secret) {
				t.Errorf("%s: the answer holds the token", c.what)
			}
		}
	}
}

func TestRefusalsNameTheRemedy(t *testing.T) {
	g := New(Config{Remedy: "start it with --token-file"})
	for want, who := range map[string]caller{
		"--allowed-hosts evil.example": {peer: local, host: "evil.example:8080"},
		"start it with --token-file":   {peer: far, host: here1},
		"X-Forwarded-For":              {peer: local, host: here1, header: []string{"X-Forwarded-For", "203.0.113.9"}},
	} {
		if text := ask(g, read, who).Body.String(); !strings.Contains(text, want) {
			t.Errorf("the answer %q does not say %q", text, want)
		}
	}
}

func TestATokenFileIsReadAgainWhenItChanges(t *testing.T) {
	path := tokenFile(t, secret)
	token := openToken(t, path)
	replace := func(text string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	old := token.session(time.Now())
	next := strings.Repeat("n", TokenBytesMin)
	replace(next)
	if token.is(secret) || !token.is(next) {
		t.Error("the old token holds, or the new one does not")
	}
	if token.holds(old, time.Now()) {
		t.Error("a session of the old token goes on")
	}
	replace("short")
	if !token.is(next) || token.is("short") {
		t.Error("a file that holds no token takes the last one away, or counts")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if !token.is(next) || token.is("") {
		t.Error("without the file, the last token does not hold, or none does")
	}
	replace(secret)
	if !token.is(secret) {
		t.Error("the file that came back is not read")
	}
}

func TestBadTokenFilesAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "at least 32",
		strings.Repeat("x", TokenBytesMin-1): "31 bytes",
		strings.Repeat("x", TokenBytesMax+1): "at most 4096",
		secret + "\n" + secret:               "one line",
		strings.Repeat("x", TokenBytesMin) + "é": "printable ASCII",
	} {
		_, err := OpenToken(tokenFile(t, text), nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a token of %d bytes: %v, want %q", len(text), err, want)
		}
		if err != nil && text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("the error holds the token: %v", err)
		}
	}
	if _, err := OpenToken(filepath.Join(t.TempDir(), "none"), nil); err == nil {
		t.Error("a file that is not there is a token")
	}
}

// post sends the form of the login page.
func post(g *Guard, host, token string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "http://"+host+LoginPath, strings.NewReader(url.Values{"token": {token}}.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.RemoteAddr = far
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	g.Login().ServeHTTP(w, r)
	return w
}

func TestLogin(t *testing.T) {
	g := New(Config{Token: openToken(t, tokenFile(t, secret)), Hosts: []string{"fleet.example"}})
	form := ask(g, read, caller{peer: far, host: "fleet.example", header: []string{"Accept", "text/html"}})
	if form.Code != http.StatusUnauthorized || !strings.Contains(form.Body.String(), `action="/login"`) || form.Header().Get("Referrer-Policy") != "same-origin" {
		t.Fatalf("a browser gets %d %q", form.Code, form.Body)
	}
	if w := post(g, "fleet.example", "wrong"); w.Code != http.StatusUnauthorized || w.Header().Get("Set-Cookie") != "" {
		t.Errorf("a wrong token: %d %v", w.Code, w.Header())
	}
	if w := post(g, "evil.example", secret); w.Code != http.StatusForbidden {
		t.Errorf("under another name: %d, want 403", w.Code)
	}
	if w := post(g, "fleet.example", secret, "Origin", "https://evil.example"); w.Code != http.StatusForbidden {
		t.Errorf("from a foreign page: %d, want 403", w.Code)
	}
	if w := post(g, "fleet.example", strings.Repeat("x", loginBytesMax)); w.Code != http.StatusBadRequest {
		t.Errorf("a form that is too long: %d, want 400", w.Code)
	}
	w := post(g, "fleet.example", secret+"\n")
	cookies := w.Result().Cookies()
	if w.Code != http.StatusSeeOther || len(cookies) != 1 || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteStrictMode || strings.Contains(cookies[0].Value, secret) {
		t.Fatalf("login: %d %v", w.Code, w.Header())
	}
	with := []string{"Cookie", cookieName(httptest.NewRequest(http.MethodGet, "/", nil)) + "-8780=" + cookies[0].Value}
	if w := ask(g, read, caller{peer: far, host: "fleet.example", header: with}); w.Code != 200 {
		t.Errorf("with the cookie: %d %s", w.Code, w.Body)
	}
	for _, c := range []class{inspect, change} {
		if w := ask(g, c, caller{peer: far, host: "fleet.example", header: with}); w.Code != http.StatusUnauthorized {
			t.Errorf("the cookie gives class %d: %d, want 401", c, w.Code)
		}
	}
	if w := post(New(Config{}), here1, secret); w.Code != http.StatusNotFound {
		t.Errorf("without a token there is a login: %d", w.Code)
	}
}

func TestASessionEndsAndCannotBeMade(t *testing.T) {
	token := openToken(t, tokenFile(t, secret))
	now := time.Unix(1_800_000_000, 0)
	session := token.session(now)
	ends, mac, _ := strings.Cut(session, ".")
	if !token.holds(session, now.Add(sessionLife-time.Second)) {
		t.Error("it ends early")
	}
	for what, s := range map[string]string{"ended": session, "later end": ends[:len(ends)-1] + "9." + mac, "no seal": ends + ".", "no end": "." + mac, "nothing": "", "seal of nothing": "9999999999." + mac} {
		at := now
		if what == "ended" {
			at = now.Add(sessionLife)
		}
		if s != session || what == "ended" {
			if token.holds(s, at) {
				t.Errorf("%s: it holds", what)
			}
		}
	}
}

func TestParseHosts(t *testing.T) {
	got, err := ParseHosts(" Fleet.Example., 10.0.0.7,[fd00::2] ,")
	if err != nil || strings.Join(got, " ") != "fleet.example 10.0.0.7 fd00::2" {
		t.Errorf("%q, %v", got, err)
	}
	for _, bad := range []string{"*", "http://fleet.example", "fleet.example:8080", "a b", "a/b", strings.Repeat("a", 254), strings.Repeat("a,", hostsMax+1)} {
		if _, err := ParseHosts(bad); err == nil || !strings.Contains(err.Error(), "--allowed-hosts") {
			t.Errorf("%.30q: %v", bad, err)
		}
	}
}

func TestLoopback(t *testing.T) {
	for ip, want := range map[string]bool{"127.0.0.1": true, "::1": true, "0.0.0.0": false, "::": false, "10.0.0.1": false} {
		if got := Loopback(&net.TCPAddr{IP: net.ParseIP(ip), Port: 1}); got != want {
			t.Errorf("Loopback(%s) = %v, want %v", ip, got, want)
		}
	}
	if Loopback(&net.UnixAddr{Name: "x"}) {
		t.Error("a socket file counts as loopback")
	}
}
