package main

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/internal/mtls"
	"github.com/tonnage/tonnage/internal/mtls/mtlstest"
)

// pageOf returns where a shard's page is.
func (r *shardRun) pageOf() string {
	r.t.Helper()
	at := regexp.MustCompile(`page on (\S+)`)
	r.wait(func() bool { return at.MatchString(r.out.String()) })
	return at.FindStringSubmatch(r.out.String())[1]
}

func tlsArgs(f mtls.Files) []string {
	return []string{"--tls-cert", f.Cert, "--tls-key", f.Key, "--tls-ca", f.CA}
}

// TestToolsShowTheirCertificateToAPageOverTLS: of the certificates only those of
// an admin may change something, and of one that may only read the page answers.
func TestToolsShowTheirCertificateToAPageOverTLS(t *testing.T) {
	authority := mtlstest.NewAuthority(t)
	args := append([]string{"--page-addr", "127.0.0.1:0", "--data-dir", t.TempDir(), "--seed-machines", "2", "--log-level", "warn"}, tlsArgs(authority.Files(t, "bigfleet://shard/shard-0"))...)
	r := startShard(t, args...)
	page := r.pageOf()
	if !strings.HasPrefix(page, "https://") {
		t.Fatalf("the page is at %s", page)
	}
	r.wait(func() bool { code, _ := r.get("/readyz"); return code == http.StatusOK })
	if code, _ := r.get("/api/state"); code != http.StatusNotFound {
		t.Errorf("the page is at the metrics too: %d", code)
	}
	for uri, want := range map[string]string{
		"bigfleet://admin":     "Idle",                        // the shard says why it does not
		"bigfleet://readonly":  "the certificate of an admin", // the guard does
		"bigfleet://cluster/c": "a change needs the token",    // as for everybody on this machine
		"bigfleet://shard/s":   "does not let this in",        //
	} {
		show := tlsArgs(authority.Files(t, uri))
		got := call("", true, append([]string{"ctl", "retire", "--shard", page, "idle-000000"}, show...)...)
		if got.code != exitBadInput || !strings.Contains(got.err, want) {
			t.Errorf("retire by %s: exit %d, %q, want %q", uri, got.code, got.err, want)
		}
	}
	show := tlsArgs(authority.Files(t, "bigfleet://readonly"))
	for _, command := range [][]string{{"ctl", "machines", "--shard", page}, {"explain", "machine", "--shard", page, "idle-000000"}, {"what-if", "--shard", page, "--lose", "idle-000000"}, {"top", "--once", "--shard", page}, {"ctl", "pause-state", "--shard", page}} {
		if got := call("", true, append(command, show...)...); got.code != 0 {
			t.Errorf("%v: exit %d: %s", command, got.code, got.err)
		}
	}
	if got := call("", true, "ctl", "machines", "--shard", page); got.code == 0 || !strings.Contains(got.err, "certificate") {
		t.Errorf("without the authority's certificate: exit %d, %q", got.code, got.err)
	}
}

func TestToolsShowTheToken(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	secret := strings.Repeat("s3cret-", 6)
	if err := os.WriteFile(token, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := startShard(t, "--token-file", token, "--data-dir", t.TempDir(), "--seed-machines", "2", "--log-level", "warn")
	retire := []string{"ctl", "retire", "--shard", "http://" + r.metrics, "idle-000000"}
	if got := call("", true, retire...); got.code != exitBadInput || !strings.Contains(got.err, "--token-file FILE or TONNAGE_TOKEN") {
		t.Errorf("without the token: exit %d, %q", got.code, got.err)
	}
	r.wait(func() bool { code, _ := r.get("/readyz"); return code == http.StatusOK })
	if got := call("", true, append(retire, "--token-file", token)...); !strings.Contains(got.err, "Idle") {
		t.Errorf("with the token: exit %d, %q, want the shard's answer", got.code, got.err)
	}
	t.Setenv(tokenVariable, secret)
	for _, command := range [][]string{retire, {"ctl", "machines", "--shard", r.metrics}, {"explain", "machine", "--shard", r.metrics, "idle-000000"}, {"top", "--once", "--shard", r.metrics}} {
		if got := call("", true, command...); strings.Contains(got.err, "token") {
			t.Errorf("%v with the token in the environment: exit %d, %q", command, got.code, got.err)
		}
	}
	t.Setenv(tokenVariable, secret[1:])
	if got := call("", true, "ctl", "machines", "--shard", r.metrics); got.code != exitBadInput || !strings.Contains(got.err, "not that of this process") || strings.Contains(got.err, secret[1:]) {
		t.Errorf("with a wrong token: exit %d, %q", got.code, got.err)
	}
	t.Setenv(tokenVariable, "short")
	if got := call("", true, "ctl", "machines", "--shard", r.metrics); got.code != exitBadInput || !strings.Contains(got.err, "TONNAGE_TOKEN: the token has 5 bytes") {
		t.Errorf("with a short token: exit %d, %q", got.code, got.err)
	}
}

func TestBadAccessFlagsAreNamed(t *testing.T) {
	for _, command := range []string{"up", "shard"} {
		got := call("", false, command, "--token-file", filepath.Join(t.TempDir(), "none"), "--allowed-hosts", "http://x")
		if got.code != exitBadInput || !strings.Contains(got.err, "--token-file: ") || !strings.Contains(got.err, `--allowed-hosts: "http://x" is no host name`) {
			t.Errorf("%s: exit %d, %q", command, got.code, got.err)
		}
	}
}
