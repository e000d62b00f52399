package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// endsWithin is how long a process may take to end after SIGTERM.
const endsWithin = 5 * time.Second

// silent is an API server that takes connections and never answers; each is sent to the channel.
func silent(t *testing.T) (address string, met <-chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{}, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			select {
			case asked <- struct{}{}:
			default:
			}
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-ended })
	return l.Addr().String(), asked
}

// TestSIGTERMWhileAClusterDoesNotAnswer: a process ends at once, whether it waits for a cluster while it starts or observes it.
func TestSIGTERMWhileAClusterDoesNotAnswer(t *testing.T) {
	configs := map[string]string{
		"karpenter":   "{clusters: {blue: {kubeconfig: KUBECONFIG}}}",
		"cluster-api": "{kubeconfig: KUBECONFIG}",
	}
	for kind, config := range configs {
		for _, serves := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, serves: %t", kind, serves), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				address, met := silent(t)
				kubeconfig := filepath.Join(dir, "kubeconfig")
				put(t, dir, "kubeconfig", fmt.Sprintf(`{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: "http://%s"}}], contexts: [{name: c, context: {cluster: c, user: u}}], users: [{name: u, user: {}}], current-context: c}`, address))
				put(t, dir, "pools.yaml", fmt.Sprintf("drivers: [{name: d, kind: %s, config: %s}]\npools: []\n", kind, strings.ReplaceAll(config, "KUBECONFIG", strconv.Quote(kubeconfig))))
				var cmd *exec.Cmd
				if serves {
					cmd = spawn(t, dir, "127.0.0.1:0").cmd
				} else {
					cmd = command(t, dir, "127.0.0.1:0")
					if err := cmd.Start(); err != nil {
						t.Fatal(err)
					}
				}
				ended := make(chan error, 1)
				go func() { ended <- cmd.Wait() }()
				defer func() { _ = cmd.Process.Kill() }()
				said := func() string {
					log, _ := os.ReadFile(filepath.Join(dir, "log"))
					return string(log)
				}
				select {
				case <-met:
				case err := <-ended:
					t.Fatalf("it ended before it asked anybody: %v\n%s", err, said())
				}
				begun := time.Now()
				if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
				err := <-ended
				took := time.Since(begun)
				t.Logf("it ended %v after SIGTERM", took)
				if err != nil || took > endsWithin {
					t.Errorf("it is to end within %v, without an error: %v\n%s", endsWithin, err, said())
				}
			})
		}
	}
}
