package attack_test

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tonnage/tonnage/internal/freeport"
	"github.com/tonnage/tonnage/internal/processtest"
)

// startLimit is how long a process may take until it answers.
const startLimit = 30 * time.Second

// request is what an attacker sends: to an address, under a name.
type request struct {
	method, at, path string
	host             string // "" = that of at
	header           []string
}

// send returns the answer's code and beginning. Redirects are not followed.
func send(t *testing.T, r request) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if r.method == "" {
		r.method = http.MethodGet
	}
	var body io.Reader
	if r.path == "/login" {
		body = strings.NewReader(url.Values{"token": {r.header[len(r.header)-1]}}.Encode())
		r.header = append(r.header[:len(r.header)-2:len(r.header)-2], "Content-Type", "application/x-www-form-urlencoded")
	}
	req, err := http.NewRequestWithContext(ctx, r.method, "http://"+r.at+r.path, body)
	if err != nil {
		t.Fatal(err)
	}
	if r.host != "" {
		req.Host = r.host
	}
	for i := 0; i+1 < len(r.header); i += 2 {
		req.Header.Set(r.header[i], r.header[i+1])
	}
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(res.Body, 1<<10)) // streams end with the context
	return res.StatusCode, string(text)
}

// ownAddress is an address of this machine that is not a loopback one: who asks
// there comes from elsewhere, as far as a process can see.
func ownAddress(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			return n.IP.String()
		}
	}
	t.Skip("this machine has no address but loopback ones")
	return ""
}

// everywhere turns an address of loopback into one of all interfaces.
func everywhere(t *testing.T, address string) (listen, port string) {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return "0.0.0.0:" + port, port
}

func answers(t *testing.T, at string) {
	t.Helper()
	processtest.Eventually(t, startLimit, at+" answers", func() bool {
		res, err := http.Get("http://" + at + "/readyz")
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
}

// TestAForeignPageNeitherReadsNorChanges: the attacker has a web page, and an
// administrator opens it on the machine that a process runs on. Its scripts reach
// loopback, under the machine's names and, by DNS rebinding, under their own.
func TestAForeignPageNeitherReadsNorChanges(t *testing.T) {
	shard, up := freeport.Take(t), freeport.Take(t)
	processtest.Start(t, "shard", "--listen="+freeport.Take(t), "--metrics-addr="+shard, "--data-dir="+t.TempDir(), "--seed-machines=3", "--log-level=warn")
	processtest.Start(t, "up", "--listen="+up, "--data-dir="+t.TempDir())
	answers(t, shard)
	answers(t, up)
	const evil = "http://evil.example"
	retire := request{method: http.MethodPost, at: shard, path: "/api/retire?machine=idle-000000"}
	// The machine is not Failed: who gets as far as the shard is told so.
	if code, text := send(t, retire); code != http.StatusConflict {
		t.Fatalf("retire by this machine: %d %s", code, text)
	}
	for what, header := range map[string][]string{
		"a form":                 {"Origin", evil, "Content-Type", "text/plain"},
		"a form of a sandbox":    {"Origin", "null"},
		"a form, new browser":    {"Origin", evil, "Sec-Fetch-Site", "cross-site"},
		"a page of another port": {"Origin", "http://127.0.0.1:1", "Sec-Fetch-Site", "same-site"},
	} {
		r := retire
		r.header = header
		if code, text := send(t, r); code != http.StatusForbidden {
			t.Errorf("retire by %s: %d %s, want 403", what, code, text)
		}
	}
	_, port, _ := net.SplitHostPort(shard)
	r := retire
	r.host, r.header = "evil.example:"+port, []string{"Origin", evil + ":" + port, "Sec-Fetch-Site", "same-origin"}
	if code, text := send(t, r); code != http.StatusForbidden || !strings.Contains(text, "--allowed-hosts") {
		t.Errorf("retire under the attacker's name: %d %s, want 403 and --allowed-hosts", code, text)
	}
	for _, at := range []string{shard, up} {
		for _, path := range []string{"/", "/app.js", "/api/state", "/api/world", "/events", "/plans/1", "/debug/pprof/heap"} {
			if code, text := send(t, request{at: at, path: path, host: "evil.example:8080"}); code != http.StatusForbidden {
				t.Errorf("%s under the attacker's name: %d %.80q, want 403", path, code, text)
			}
			if code, _ := send(t, request{at: at, path: path, header: []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"}}); code != http.StatusForbidden {
				t.Errorf("%s embedded by the attacker's page: %d, want 403", path, code)
			}
		}
	}
}

// TestWhoReachesThePortsReadsMetricsOnly: the attacker reaches a shard's port for
// metrics from another machine, and has no token.
func TestWhoReachesThePortsReadsMetricsOnly(t *testing.T) {
	own := ownAddress(t)
	token := strings.Repeat("0123456789abcdef", 2)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, withToken := range []bool{false, true} {
		t.Run(fmt.Sprintf("token=%v", withToken), func(t *testing.T) {
			listen, port := everywhere(t, freeport.Take(t))
			args := []string{"shard", "--listen=" + freeport.Take(t), "--metrics-addr=" + listen, "--data-dir=" + t.TempDir(), "--seed-machines=3", "--log-level=warn"}
			refused := http.StatusForbidden
			if withToken {
				args, refused = append(args, "--token-file="+file), http.StatusUnauthorized
			}
			p := processtest.Start(t, args...)
			far, near := net.JoinHostPort(own, port), net.JoinHostPort("127.0.0.1", port)
			answers(t, far)
			for path, want := range map[string]int{
				"/metrics": 200, "/healthz": 200, "/readyz": 200,
				"/": refused, "/api/state": refused, "/api/world": refused, "/events": refused,
			} {
				if code, text := send(t, request{at: far, path: path}); code != want {
					t.Errorf("%s from elsewhere: %d %.80q, want %d", path, code, text, want)
				}
			}
			// Another name does not make an attacker one of this machine.
			if code, _ := send(t, request{at: far, path: "/api/world", host: "127.0.0.1"}); code != refused {
				t.Errorf("the world from elsewhere as 127.0.0.1: %d, want %d", code, refused)
			}
			if code, _ := send(t, request{at: near, path: "/api/world"}); code != 200 {
				t.Errorf("the world from this machine: %d, want 200", code)
			}
			if withToken {
				tokenDecides(t, far, near, token)
			}
			if strings.Contains(p.Log(), token) || strings.Contains(p.Get("/debug/pprof/cmdline"), token) {
				t.Error("the token is in the log or on the command line")
			}
		})
	}
}

// tokenDecides tries right and wrong tokens, as a tool and as a browser.
func tokenDecides(t *testing.T, far, near, token string) {
	t.Helper()
	retire := request{method: http.MethodPost, path: "/api/retire?machine=idle-000000"}
	for _, at := range []string{far, near} {
		for shown, want := range map[string][2]int{
			"": {200, http.StatusUnauthorized}, "Bearer " + token: {200, http.StatusConflict}, "Bearer " + token + "0": {401, 401}, "Bearer " + token[1:]: {401, 401},
		} {
			if shown == "" && at == far {
				want[0] = http.StatusUnauthorized
			}
			header := []string{"Authorization", shown}
			if shown == "" {
				header = nil
			}
			if code, _ := send(t, request{at: at, path: "/api/state", header: header}); code != want[0] {
				t.Errorf("%s: state with %q: %d, want %d", at, shown, code, want[0])
			}
			r := retire
			r.at, r.header = at, header
			if code, _ := send(t, r); code != want[1] {
				t.Errorf("%s: retire with %q: %d, want %d", at, shown, code, want[1])
			}
		}
	}
	for shown, want := range map[string]int{token: http.StatusSeeOther, token[1:]: http.StatusUnauthorized} {
		if code, _ := send(t, request{method: http.MethodPost, at: far, path: "/login", header: []string{"token", shown}}); code != want {
			t.Errorf("login: %d, want %d", code, want)
		}
	}
}

// TestAPageIsNotOpenedToOthersByMistake: an address that others reach needs a
// token or certificates, and the error says so.
func TestAPageIsNotOpenedToOthersByMistake(t *testing.T) {
	for _, args := range [][]string{
		{"up", "--listen=0.0.0.0:0", "--duration=1s", "--data-dir=" + t.TempDir()},
		{"up", "--listen=[::]:0", "--duration=1s", "--data-dir=" + t.TempDir()},
		{"shard", "--listen=127.0.0.1:0", "--metrics-addr=0", "--page-addr=0.0.0.0:0", "--data-dir=" + t.TempDir()},
	} {
		code, _, faults := processtest.Run(t, args...)
		if code != 2 || !strings.Contains(faults, "--token-file FILE") || !strings.Contains(faults, "127.0.0.1") {
			t.Errorf("%v: exit %d, %s", args, code, faults)
		}
	}
}

// TestOtherUsersOfTheMachineReadNoFiles: the attacker is another user of the
// machine, and the processes run with a umask of 0.
func TestOtherUsersOfTheMachineReadNoFiles(t *testing.T) {
	root := t.TempDir()
	dir := func(name string) string { return filepath.Join(root, name) }
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	provider := freeport.Take(t)
	processes := []*processtest.Process{
		processtest.Start(t, "provider", "--listen="+provider, "--metrics-addr="+freeport.Take(t), "--data-dir="+dir("provider"), "--seed-machines=3"),
		processtest.Start(t, "shard", "--provider-addr="+provider, "--listen="+freeport.Take(t), "--metrics-addr="+freeport.Take(t), "--data-dir="+dir("shard"),
			"--audit-log="+dir("shard/audit.jsonl"), "--profile-dir="+dir("traces"), "--profile-over=1ns", "--cycle-interval=50ms"),
		processtest.Start(t, "up", "--listen="+freeport.Take(t), "--data-dir="+dir("up"), "--shards=2"),
		processtest.Start(t, "coordinator", "--bootstrap", "--listen="+freeport.Take(t), "--metrics-addr="+freeport.Take(t), "--raft-bind="+freeport.Take(t),
			"--data-dir="+dir("coordinator"), "--snapshot-export-dir="+dir("snapshots"), "--snapshot-export-interval=100ms"),
	}
	for _, p := range processes {
		processtest.Eventually(t, startLimit, "all are ready", func() bool { return p.Get("/readyz") != "" })
	}
	for what, pattern := range map[string]string{
		"a trace": "traces/*.trace", "an audit log": "shard/audit.jsonl", "a journal": "shard/journal", "an epoch": "shard/epoch",
		"a provider's file": "provider/provider.db", "a snapshot": "snapshots/*/state",
	} {
		processtest.Eventually(t, startLimit, what, func() bool {
			found, err := filepath.Glob(dir(pattern))
			return err == nil && len(found) > 0
		})
	}
	for _, p := range processes {
		if err := p.Stop(); err != nil { // the summary of up comes at the end
			t.Error(err)
		}
	}
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root || d.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		files++
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v: others may use it", path, info.Mode())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 15 {
		t.Errorf("%d files and folders were looked at", files)
	}
}
