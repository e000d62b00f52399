package e2e

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// stopLimit is how long the process may take to end after a signal.
const stopLimit = 2 * time.Second

// tonnage is the built binary, running `up`.
type tonnage struct {
	url  string
	cmd  *exec.Cmd
	rest chan string // what it printed after its address
}

// build compiles the binary as a user would.
func build(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tonnage")
	cmd := exec.Command("go", "build", "-o", path, "./cmd/tonnage")
	cmd.Dir = root(t)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as it is released, also where tests need C for the race detector
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

// start runs `up` on a free port and waits for the address that it prints.
func start(t *testing.T, binary string, args ...string) *tonnage {
	t.Helper()
	args = append([]string{"up", "--listen", "127.0.0.1:0", "--data-dir", t.TempDir()}, args...)
	x := &tonnage{cmd: exec.Command(binary, args...), rest: make(chan string, 1)}
	out, err := x.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	x.cmd.Stderr = os.Stderr
	if err := x.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.cmd.Process.Kill() })
	in := bufio.NewReader(out)
	address := regexp.MustCompile(`http://[0-9.:]+`)
	for x.url == "" {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatalf("it ended before it printed its address: %v", err)
		}
		x.url = address.FindString(line)
	}
	go func() {
		rest, _ := io.ReadAll(in)
		x.rest <- string(rest)
	}()
	return x
}

// stop ends it with a signal and returns what it printed, and how long it took.
func (x *tonnage) stop(t *testing.T) (string, time.Duration) {
	t.Helper()
	began := time.Now()
	if err := x.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	rest := <-x.rest
	if err := x.cmd.Wait(); err != nil {
		t.Errorf("it ended with %v, want exit code 0", err)
	}
	return rest, time.Since(began)
}

func TestUpShowsMovingFiguresAndStopsWithinTwoSeconds(t *testing.T) {
	t.Parallel()
	findChromium(t)
	x := start(t, build(t), "--rung", "tiny", "--provider-latency", "1s-2s")
	p := open(t)
	p.size(1280, 900, "light")
	p.visit(x.url)
	p.until("a living page", drawn)
	p.until("the machines of the rung", `document.querySelector('#tile-machines .value').textContent.replace(/\D/g, '') > 300`)
	p.until("the needs to be satisfied", `parseFloat(document.querySelector('#tile-satisfied .value').textContent) > 90`)
	p.until("actions with their reasons", `document.querySelectorAll('#recent tbody tr').length > 5 && document.querySelector('#recent .second').textContent.length > 10`)
	p.must(`window.before = document.querySelector('main').innerText`, nil)
	p.until("the figures to move", `document.querySelector('main').innerText !== window.before`)
	p.until("some history", `document.querySelector('#tile-uptime .below').textContent.replace(/\D/g, '') >= 12`)
	for _, width := range []int{1280, 390} {
		for _, scheme := range []string{"light", "dark"} {
			p.size(width, 900, scheme)
			p.until("the page to settle", drawn)
			var over int
			if p.must(sideways, &over); over != 0 {
				t.Errorf("%d px, %s: the page scrolls sideways by %d px", width, scheme, over)
			}
			p.shot("up-"+map[int]string{1280: "1280", 390: "390"}[width]+"-"+scheme+".png", 0)
		}
	}
	p.quiet()
	endpoints(t, x.url)
	rest, took := x.stop(t)
	if took > stopLimit {
		t.Errorf("it took %v to stop with a page open, want at most %v", took, stopLimit)
	}
	for _, want := range []string{"Stopped after", "Bootstrap", "satisfied", "Configured"} {
		if !strings.Contains(rest, want) {
			t.Errorf("the summary does not say %q:\n%s", want, rest)
		}
	}
	p.until("the page to notice", `document.querySelector('#live').dataset.mood === 'bad'`)
}

// endpoints checks what stands beside the page.
func endpoints(t *testing.T, url string) {
	t.Helper()
	for path, want := range map[string]string{
		"/healthz": "ok", "/readyz": "ready", "/debug/pprof/": "goroutine",
		"/metrics": `bigfleet_shard_actions_total{kind="Bootstrap"}`,
	} {
		answer, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusOK || !bytes.Contains(body, []byte(want)) {
			t.Errorf("%s: %s, %v, without %q", path, answer.Status, err, want)
		}
	}
}
