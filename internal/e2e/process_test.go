package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long a test waits for what should come to pass.
const patience = 60 * time.Second

// binary builds the command once.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "tonnage-e2e-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "tonnage")
	out, err := exec.Command("go", "build", "-o", path, "github.com/tonnage/tonnage/cmd/tonnage").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := binary(); err == nil {
		os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// process is one command of the binary, which can be killed and started again.
type process struct {
	t       *testing.T
	args    []string
	metrics string

	cmd   *exec.Cmd
	log   *os.File
	ended chan error
}

// start runs the command until the test is over. Its metrics are where args say.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{t: t, args: args}
	for _, a := range args {
		if at, ok := strings.CutPrefix(a, "--metrics-addr="); ok {
			p.metrics = at
		}
	}
	log, err := os.CreateTemp(t.TempDir(), args[0]+"-*.log")
	if err != nil {
		t.Fatal(err)
	}
	p.log = log
	p.start()
	t.Cleanup(func() {
		_ = p.stop() // who cares how it ends, asks
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("the end of the log of %s:\n%s", args[0], text[max(0, len(text)-4000):])
		}
		log.Close()
	})
	return p
}

func (p *process) start() {
	p.t.Helper()
	path, err := binary()
	if err != nil {
		p.t.Fatal(err)
	}
	p.cmd = exec.Command(path, p.args...)
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.ended = make(chan error, 1)
	go func(cmd *exec.Cmd, ended chan error) { ended <- cmd.Wait() }(p.cmd, p.ended)
}

// kill ends it at once, as a power cut would.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	p.ended <- <-p.ended
}

// restart kills and starts it.
func (p *process) restart() {
	p.t.Helper()
	p.kill()
	p.start()
}

// stop ends it in good order and returns how it ended.
func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-p.ended:
		p.ended <- err
		return err
	case <-time.After(20 * time.Second):
		p.kill()
		return fmt.Errorf("%s does not end", p.args[0])
	}
}

// processorTime returns how long the threads of a process have run.
func processorTime(pid int) (sum time.Duration) {
	names, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, name := range names {
		text, _ := os.ReadFile(name)
		ran, _, _ := strings.Cut(string(text), " ")
		nanos, _ := strconv.ParseInt(ran, 10, 64)
		sum += time.Duration(nanos)
	}
	return sum
}

// get reads a page of its metrics address, "" when it does not answer.
func (p *process) get(path string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.metrics+path, nil)
	if err != nil {
		return ""
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	var b bytes.Buffer
	if _, err := io.Copy(&b, res.Body); err != nil || res.StatusCode != http.StatusOK {
		return ""
	}
	return b.String()
}

// metric sums the series of a metric whose labels contain all of has.
func (p *process) metric(name string, has ...string) float64 {
	sum := 0.0
	line := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + `(\{[^}]*\})? (\S+)$`)
next:
	for _, m := range line.FindAllStringSubmatch(p.get("/metrics"), -1) {
		for _, h := range has {
			if !strings.Contains(m[1], h) {
				continue next
			}
		}
		v, _ := strconv.ParseFloat(m[2], 64)
		sum += v
	}
	return sum
}

// eventually waits until done says so, and returns how long that took.
func eventually(t *testing.T, limit time.Duration, what string, done func() bool) time.Duration {
	t.Helper()
	start := time.Now()
	for tick := time.NewTicker(100 * time.Millisecond); !done(); {
		if time.Since(start) > limit {
			tick.Stop()
			t.Fatalf("not within %v: %s", limit, what)
		}
		<-tick.C
	}
	return time.Since(start)
}
