package processtest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tonnage/tonnage/internal/freeport"
	"github.com/tonnage/tonnage/internal/processtest"
)

func TestMain(m *testing.M) { os.Exit(processtest.Main(m)) }

// A process is started, looked at, killed, started again, and stopped.
func TestProcess(t *testing.T) {
	p := processtest.Start(t, "provider", "--listen="+freeport.Take(t), "--metrics-addr="+freeport.Take(t),
		"--data-dir="+filepath.Join(t.TempDir(), "provider"), "--seed-machines=3")
	ready := func() bool { return p.Get("/metrics") != "" }
	processtest.Eventually(t, 30*time.Second, "the provider answers", ready)
	if got := p.Metric("go_info"); got != 1 {
		t.Errorf("go_info is %v, want 1", got)
	}
	if now, peak := p.ResidentBytes(), p.PeakBytes(); now < 1<<20 || peak < now/2 {
		t.Errorf("resident %d, peak %d bytes", now, peak)
	}
	before := p.PID()
	p.Restart()
	processtest.Eventually(t, 30*time.Second, "the provider answers again", ready)
	if p.PID() == before || p.Ended() {
		t.Errorf("pid %d before, %d after the restart; ended: %v", before, p.PID(), p.Ended())
	}
	if err := p.Stop(); err != nil || !p.Ended() {
		t.Errorf("stop: %v, ended: %v", err, p.Ended())
	}
}

func TestRunReturnsExitCodeAndOutput(t *testing.T) {
	if code, out, _ := processtest.Run(t, "version"); code != 0 || !strings.Contains(out, "tonnage") {
		t.Errorf("version: %d, %q", code, out)
	}
	if code, _, faults := processtest.Run(t, "no-such-command"); code == 0 || faults == "" {
		t.Errorf("no-such-command: %d, %q", code, faults)
	}
}
