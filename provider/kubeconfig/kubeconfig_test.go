package kubeconfig

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"
)

func text(server, token string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, certificate-authority: ca.pem}}]
users: [{name: u, user: {token: %q}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, server, token)
}

// A changed file is a new configuration; a broken one leaves the one before in force, and is logged once.
func TestTheFileIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "kubeconfig")
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var log bytes.Buffer
	s := New(path, "agent", slog.New(slog.NewTextHandler(&log, nil)))
	if _, _, err := s.Config(); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("without a file: %v", err)
	}
	write("kubeconfig", text("https://one", "t1"))
	if _, _, err := s.Config(); err == nil || !strings.Contains(err.Error(), "ca.pem") {
		t.Errorf("without the authorities: %v", err)
	}
	want := func(server, token string, changes uint64) {
		t.Helper()
		c, n, err := s.Config()
		if err != nil || c.Host != server || c.BearerToken != token || n != changes || c.UserAgent != "agent" {
			t.Errorf("got %+v, change %d, %v; want %s, %s, change %d", c, n, err, server, token, changes)
		}
	}
	write("ca.pem", "1")
	want("https://one", "t1", 1)
	want("https://one", "t1", 1)
	write("kubeconfig", text("https://one", "t2"))
	want("https://one", "t2", 2)
	write("ca.pem", "2")
	want("https://one", "t2", 3)
	for range 2 {
		write("kubeconfig", "clusters: {")
		want("https://one", "t2", 3)
	}
	if n := strings.Count(log.String(), "is not taken over"); n != 1 || !strings.Contains(log.String(), path) {
		t.Errorf("logged %d times:\n%s", n, log.String())
	}
	write("kubeconfig", strings.Replace(text("https://one", "t2"), "current-context: x", "current-context: y", 1))
	want("https://one", "t2", 3)
	write("kubeconfig", text("https://two", "t3"))
	want("https://two", "t3", 4)
	if c, _, _ := s.Config(); c.CAFile != filepath.Join(dir, "ca.pem") {
		t.Errorf("the path of the authorities is %q", c.CAFile)
	}
}

// An exec plugin of a kubeconfig is run, and run again when what it said has expired. The configuration stays the same one.
func TestExecPlugin(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var seen atomic.Value
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) { seen.Store(q.Header.Get("Authorization")) }))
	defer server.Close()
	plugin := write("plugin", `#!/bin/sh
printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%s","expirationTimestamp":"2001-01-01T00:00:00Z"}}' "$(cat "$(dirname "$0")/token")"
`)
	path := write("kubeconfig", fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}], users: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: %q, interactiveMode: Never}}}]}`, server.URL, plugin))
	s := New(path, "agent", nil)
	config, before, err := s.Config()
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{"first", "second"} {
		write("token", token)
		a, err := client.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		if got := seen.Load(); got != "Bearer "+token {
			t.Errorf("the plugin says %q, and the server is told %q", token, got)
		}
	}
	if _, after, err := s.Config(); err != nil || after != before {
		t.Errorf("the configuration is another one: %d, %d, %v", before, after, err)
	}
}

func TestOutsideOfACluster(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	if _, _, err := New("", "agent", nil).Config(); err == nil || !strings.Contains(err.Error(), "name a kubeconfig file") {
		t.Errorf("%v", err)
	}
}
