package operator_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/tonnage/tonnage/operator/kubetest"
)

var soakProcess = flag.Bool("soak-process", false, "the operator is a process of its own, with an election")

// binary builds the operator's.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "tonnage-operator-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "tonnage-operator")
	args := []string{"build", "-o", path}
	if soakTags != "" {
		args = append(args, "-tags", soakTags)
	}
	build := exec.Command("go", append(args, "./cmd/tonnage-operator")...)
	build.Dir = kubetest.Root()
	if text, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, text)
	}
	return path, nil
})

// leadProcess is lead with a process. One replica, with a lease: it ends when it cannot
// renew it.
func leadProcess(t *testing.T, cfg *rest.Config, shard string) *leader {
	t.Helper()
	path, err := binary()
	must(t, err)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, clientcmd.WriteToFile(kubeConfigOf(cfg), kubeconfig))
	log := filepath.Join(t.TempDir(), "operator.log")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	p := &processes{}
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			p.once(ctx, log, path, "--cluster-id=blue", "--shard-addr="+shard, "--kubeconfig="+kubeconfig, "--metrics-addr=0",
				"--rollup-interval="+period.String(), "--leader-election-namespace=default", "--qps=500", "--burst=1000")
			select {
			case <-time.After(again):
			case <-ctx.Done():
			}
		}
	}()
	stop := sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(func() {
		stop()
		text, _ := os.ReadFile(log)
		if strings.Contains(string(text), "panic") || strings.Contains(string(text), "fatal error") || t.Failed() {
			t.Errorf("the end of the operator's log: %s", text[max(0, len(text)-6000):])
		}
	})
	return &leader{stop: stop, report: func(t *testing.T) {
		p.mu.Lock()
		defer p.mu.Unlock()
		t.Logf("the operator's processes: %d were started, memory at most %d MiB", p.started, peakOf(p.pid, p.peak)>>10)
	}}
}

// processes are those of one operator, one after the other.
type processes struct {
	mu      sync.Mutex
	pid     int
	started int
	peak    int64 // KiB, of those that ended
}

// once runs one process until it ends, or ctx does.
func (p *processes) once(ctx context.Context, log, path string, args ...string) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	defer out.Close()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = patience
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if cmd.Start() != nil {
		return
	}
	p.mu.Lock()
	p.pid = cmd.Process.Pid
	p.started++
	p.mu.Unlock()
	_ = cmd.Wait()
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		p.mu.Lock()
		p.peak = max(p.peak, usage.Maxrss)
		p.mu.Unlock()
	}
}

// peakOf returns the most memory that a process that runs, or one before it, had, in KiB.
func peakOf(pid int, before int64) int64 {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return before
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var n int64
		if _, err := fmt.Sscanf(lines.Text(), "VmHWM: %d kB", &n); err == nil {
			return max(before, n)
		}
	}
	return before
}

// kubeConfigOf returns the file's content for a configuration.
func kubeConfigOf(cfg *rest.Config) clientcmdapi.Config {
	out := clientcmdapi.NewConfig()
	out.Clusters["c"] = &clientcmdapi.Cluster{Server: cfg.Host, CertificateAuthorityData: cfg.CAData}
	out.AuthInfos["u"] = &clientcmdapi.AuthInfo{ClientCertificateData: cfg.CertData, ClientKeyData: cfg.KeyData}
	out.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	out.CurrentContext = "x"
	return *out
}
