package main

import (
	"bytes"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/internal/freeport"
)

// TestCoordinatorNamesTheFlag: what the caller mends ends it at once with exit
// code 2, and the flag that mends it.
func TestCoordinatorNamesTheFlag(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	used := t.TempDir()
	other, err := openDataDir(used)
	if err != nil {
		t.Fatal(err)
	}
	defer other.close()
	for name, c := range map[string]struct {
		args []string
		says []string
	}{
		"a folder in use":              {[]string{"--data-dir", used}, []string{"--data-dir " + used + " is in use by another tonnage; stop it, or name another folder"}},
		"a folder that cannot be made": {[]string{"--data-dir", "/proc/x"}, []string{"--data-dir /proc/x cannot be written"}},
		"a folder without state":       {[]string{"--bootstrap=false"}, []string{"--data-dir", "holds no state; start a new group with --bootstrap"}},
		"--listen":                     {[]string{"--listen", taken.Addr().String()}, []string{"--listen " + taken.Addr().String() + ": the port is in use; choose another, as in --listen 127.0.0.1:0"}},
		"--metrics-addr":               {[]string{"--metrics-addr", taken.Addr().String()}, []string{"--metrics-addr " + taken.Addr().String() + ": the port is in use; choose another"}},
		"--raft-bind":                  {[]string{"--raft-bind", taken.Addr().String()}, []string{"--raft-bind " + taken.Addr().String() + ": the port is in use; choose another\n"}},
		"an etcd without a port":       {[]string{"--bootstrap=false", "--etcd-endpoints", "10.0.0.1:2379,foo"}, []string{"--etcd-endpoints must be host:port", `got "foo"`}},
		"several": {[]string{"--id", "a=b", "--log-level", "loud", "--tls-cert", "x.pem", "--rebalance", "perhaps"},
			[]string{"--id must be", "--log-level must be", "--tls-cert without --tls-key", "--rebalance"}},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"coordinator", "--bootstrap", "--listen", "127.0.0.1:0", "--metrics-addr", "0",
				"--raft-bind", freeport.Take(t), "--data-dir", filepath.Join(t.TempDir(), "new")}, c.args...)
			var errs bytes.Buffer
			code := run(t.Context(), args, streams{in: strings.NewReader(""), out: &errs, err: &errs})
			for _, want := range c.says {
				if code != exitBadInput || !strings.Contains(errs.String(), want) {
					t.Errorf("exit %d: %s; want %q", code, &errs, want)
				}
			}
		})
	}
}

// TestRestoreHeedsAReplicaThatRuns: its folder stays as it is.
func TestRestoreHeedsAReplicaThatRuns(t *testing.T) {
	dir := t.TempDir()
	replica, err := openDataDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer replica.close()
	got := call("", true, "ctl", "snapshot", "restore", "none.tar", "--data-dir", dir)
	if got.code != exitBadInput || !strings.Contains(got.err, "is in use by another tonnage; stop it") {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
}
