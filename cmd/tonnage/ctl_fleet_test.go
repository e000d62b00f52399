package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/web"
)

func TestCtlMachines(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(goodWorld)) }))
	defer server.Close()
	for _, c := range []struct {
		args []string
		has  []string
		not  string
	}{
		{nil, []string{"m-1", "Idle", "m-2", "Configured", "c2"}, "Failed"},
		{[]string{"--state", "Idle"}, []string{"m-1"}, "m-2"},
		{[]string{"--cluster", "c2"}, []string{"m-2"}, "m-1"},
	} {
		got := call("", true, append([]string{"ctl", "machines", "--shard", server.URL}, c.args...)...)
		for _, want := range c.has {
			if got.code != 0 || !strings.Contains(got.out, want) || strings.Contains(got.out, c.not) {
				t.Errorf("%v: exit %d: %s %s; want %s and no %s", c.args, got.code, got.out, got.err, want, c.not)
			}
		}
	}
	if got := call("", true, "ctl", "machines", "--shard", server.URL, "--state", "idle"); got.code != exitBadInput || !strings.Contains(got.err, "one of Speculative") {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
}

func TestCtlPauseIsAFile(t *testing.T) {
	dir := t.TempDir()
	if got := call("", true, "ctl", "pause", "--data-dir", dir); got.code != 0 {
		t.Fatal(got.err)
	}
	if _, err := os.Stat(filepath.Join(dir, pauseFile)); err != nil {
		t.Error(err)
	}
	for range 2 { // once more does no harm
		if got := call("", true, "ctl", "resume", "--data-dir", dir); got.code != 0 {
			t.Fatal(got.err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, pauseFile)); !os.IsNotExist(err) {
		t.Error("the switch is still there")
	}
	if got := call("", true, "ctl", "pause", "--data-dir", filepath.Join(dir, "none")); got.code != exitBadInput || !strings.Contains(got.err, "is no folder") {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
}

func TestCtlPauseState(t *testing.T) {
	feed := web.NewFeed(web.Info{})
	feed.Publish(web.Frame{Cycle: 1, Mode: web.ModePaused})
	server := httptest.NewServer(web.New(web.Config{Feed: feed}))
	defer server.Close()
	if got := call("", true, "ctl", "pause-state", "--shard", server.URL); got.code != 0 || got.out != "paused\n" {
		t.Errorf("exit %d: %q %s", got.code, got.out, got.err)
	}
}

func TestCtlRetire(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method != http.MethodPost || r.URL.Path != web.RetirePath:
			http.NotFound(w, r)
		case r.URL.Query().Get("machine") != "m 1":
			http.Error(w, "only a Failed one can be retired", http.StatusConflict)
		}
	}))
	defer server.Close()
	if got := call("", true, "ctl", "retire", "--shard", server.URL, "m 1"); got.code != 0 || got.out != "m 1 is retired\n" {
		t.Errorf("exit %d: %q %s", got.code, got.out, got.err)
	}
	if got := call("", true, "ctl", "retire", "--shard", server.URL, "m-2"); got.code != exitBadInput || !strings.Contains(got.err, "only a Failed one") {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
	// The page of `tonnage up` has no such thing.
	up := httptest.NewServer(web.New(web.Config{Feed: web.NewFeed(web.Info{})}))
	defer up.Close()
	if got := call("", true, "ctl", "retire", "--shard", up.URL, "m-2"); got.code != exitBadInput || !strings.Contains(got.err, "--shard "+up.URL+": nobody there retires machines; give the address of the metrics of a `tonnage shard`") {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
}

const auditRecords = `{"timeUnixNanos":1000000,"cycle":3,"disposition":"executed","kind":"Bootstrap","machine":"m-1","cluster":"c1","need":{"cluster":"c1","rank":4,"priority":10},"reason":"phase1.idle","outcome":"success"}
{"timeUnixNanos":2000000,"cycle":4,"disposition":"paused","kind":"Reclaim","machine":"m-2","cluster":"c2","reason":"phase3.excess"}
`

func TestCtlAudit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	if err := os.WriteFile(path, []byte(auditRecords), 0o600); err != nil {
		t.Fatal(err)
	}
	got := call("", true, "ctl", "audit", "--audit-log", path)
	if got.code != 0 || !strings.Contains(got.out, "cycle 3 executed Bootstrap m-1 cluster c1 for c1 (rank 4, priority 10) because phase1.idle: success") || !strings.Contains(got.out, "cycle 4 paused Reclaim m-2") {
		t.Errorf("exit %d: %s %s", got.code, got.out, got.err)
	}
	if got := call("", false, "ctl", "audit", "--audit-log", path, "-n", "1"); got.code != 0 || got.out != strings.SplitAfter(auditRecords, "\n")[1] {
		t.Errorf("exit %d: %q %s", got.code, got.out, got.err)
	}
	// A shard that was killed has left part of a record.
	torn := strings.Replace(auditRecords, "\n", "\n{\"timeUn\n", 1)
	if err := os.WriteFile(path, []byte(torn), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := call("", false, "ctl", "audit", "--audit-log", path); got.code != 0 || got.out != auditRecords || !strings.Contains(got.err, "line 2 is no record, and is left out") {
		t.Errorf("exit %d: %q %s", got.code, got.out, got.err)
	}
}

func TestCtlAuditRefusesWhatIsNoLog(t *testing.T) {
	dir := t.TempDir()
	file := func(text string) string {
		path := filepath.Join(dir, fmt.Sprintf("file-%d", len(text)))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--audit-log", dir + "/none"}, "no such file"},
		{[]string{"--audit-log", dir}, "is a directory; name the file that --audit-log"},
		{[]string{"--audit-log", file("module x\n")}, "line 1 is no record of an audit log"},
		{[]string{"--audit-log", file("{\"level\":\"info\"}\n")}, "line 1 is no record of an audit log: it has no disposition"},
		{[]string{"--audit-log", file(""), "-n", "-5"}, "--lines cannot be negative, got -5"},
		{nil, "--audit-log is missing (see `tonnage ctl audit --help`)"},
	} {
		got := call("", true, append([]string{"ctl", "audit"}, c.args...)...)
		if got.code != exitBadInput || got.out != "" || !strings.Contains(got.err, c.says) {
			t.Errorf("%v: exit %d: %q %s; want %q", c.args, got.code, got.out, got.err, c.says)
		}
	}
}

// chunks hands over what is written, piece by piece.
type chunks chan string

func (c chunks) Write(p []byte) (int, error) {
	c <- string(p)
	return len(p), nil
}

// TestCtlAuditFollows: records that come later are shown, also when the log is
// rotated meanwhile.
func TestCtlAuditFollows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	out, done := make(chunks), make(chan error, 1)
	go func() { done <- (&auditTail{out: out, err: t.Output(), path: path, asJSON: true}).run(ctx, 9, true) }()
	add := func(text string) {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	add("{\"disposition\":\"executed\"}\n")
	if got := <-out; got != "{\"disposition\":\"executed\"}\n" {
		t.Errorf("got %q", got)
	}
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	add("{\"disposition\":\"paused\"}\n")
	if got := <-out; got != "{\"disposition\":\"paused\"}\n" {
		t.Errorf("got %q", got)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
