package kubee2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tonnage/tonnage/operator/kubetest"
)

const (
	// tick is how often what should come to pass is looked for.
	tick = 100 * time.Millisecond
	// logTail is how much of a process's log is shown when a run fails, bytes.
	logTail = 2500
	// stopPatience is how long a process may take to end in good order.
	stopPatience = 20 * time.Second
	// restartAfter is when a process that ended by itself is started again.
	restartAfter = time.Second
)

// programs are where the binaries are.
type programs struct {
	kubernetes string // folder of what tools/k8s builds
	ours       string // folder of what cmd builds
}

// findPrograms builds ours and finds those of Kubernetes.
func findPrograms(t *testing.T) programs {
	t.Helper()
	out, err := exec.Command(kubetest.Root("tools", "k8s", "build"), "--print").Output()
	if err != nil {
		t.Fatalf("tools/k8s/build --print: %v", err)
	}
	p := programs{kubernetes: string(out[:len(out)-1]), ours: *binaries}
	if _, err := os.Stat(filepath.Join(p.kubernetes, "kube-scheduler")); err != nil {
		t.Fatalf("there is no Kubernetes in %s; make k8s-tools builds it", p.kubernetes)
	}
	if p.ours == "" {
		p.ours = t.TempDir()
		build := exec.Command("go", "build", "-o", p.ours+"/", "./cmd/...")
		build.Dir = kubetest.Root()
		if text, err := build.CombinedOutput(); err != nil {
			t.Fatalf("go build: %v: %s", err, text)
		}
	}
	return p
}

// process is a program that can be killed and started again.
type process struct {
	t    *testing.T
	name string
	path string
	args []string
	log  string // its file

	mu    sync.Mutex
	cmd   *exec.Cmd
	ended chan struct{}
	// again has it started again when it ends by itself, as the kubelet does with
	// a container: an operator that cannot hold its lease ends.
	again bool
	meant bool // that it ends
}

// start runs a program until the test is over. The last to be started is the
// first to be stopped.
func start(t *testing.T, dir, name, path string, args ...string) *process {
	t.Helper()
	return startAgain(t, false, dir, name, path, args...)
}

// startAgain is start, of a program that is started again when it ends by itself.
func startAgain(t *testing.T, again bool, dir, name, path string, args ...string) *process {
	t.Helper()
	p := &process{again: again, t: t, name: name, path: path, args: args, log: filepath.Join(dir, name+".log")}
	p.start()
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			text, _ := os.ReadFile(p.log)
			t.Logf("the end of the log of %s:\n%s", name, text[max(0, len(text)-logTail):])
		}
	})
	return p
}

func (p *process) start() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.startLocked()
}

func (p *process) startLocked() {
	p.t.Helper()
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		p.t.Fatal(err)
	}
	defer log.Close()
	p.cmd = exec.Command(p.path, p.args...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
	ended := make(chan struct{})
	p.ended = ended
	p.meant = false
	go func(cmd *exec.Cmd) {
		_ = cmd.Wait()
		close(ended)
		p.revive(cmd)
	}(p.cmd)
}

// revive starts it again after a while, unless it was to end, or was started meanwhile: whoever kills it may do that before
// its end is known here.
func (p *process) revive(ended *exec.Cmd) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.again || p.meant || p.cmd != ended {
		return
	}
	time.AfterFunc(restartAfter, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.meant && p.cmd == ended {
			p.startLocked()
		}
	})
}

// end notes that it is to end.
func (p *process) end() (cmd *exec.Cmd, ended chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.meant = true
	return p.cmd, p.ended
}

// kill ends it at once, as a power cut would.
func (p *process) kill() {
	cmd, ended := p.end()
	_ = cmd.Process.Kill()
	<-ended
}

// stop ends it in good order, or kills it.
func (p *process) stop() {
	cmd, ended := p.end()
	_ = cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-ended:
	case <-time.After(stopPatience):
		p.kill()
	}
}

// eventually waits until done says "", and returns how long that took. What done
// says otherwise is why it is not done yet.
func eventually(t *testing.T, limit time.Duration, what string, done func() string) time.Duration {
	t.Helper()
	begun := time.Now()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		why := done()
		took := time.Since(begun)
		if why == "" {
			return took
		}
		if took > limit {
			t.Fatalf("not within %v: %s: %s", limit, what, why)
		}
		<-ticker.C
	}
}

// brief is a context for one request.
func brief() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 10*time.Second)
}

// verdict joins what is wrong.
func verdict(faults []string) string {
	if len(faults) == 0 {
		return ""
	}
	return fmt.Sprintf("%d faults, the first: %s", len(faults), faults[0])
}
