package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/tonnage/tonnage/internal/freeport"
	"github.com/tonnage/tonnage/internal/processtest"
)

// TestTheProviderPassesItsCheck: `tonnage provider check` finds no fault in `tonnage provider`,
// both as processes, with a kill -9 for the restart and a file of faults for the rest.
func TestTheProviderPassesItsCheck(t *testing.T) {
	dir, at := t.TempDir(), freeport.Take(t)
	faults, please := filepath.Join(dir, "faults.yaml"), filepath.Join(dir, "restart")
	provider := processtest.Start(t, "provider", "--listen="+at, "--metrics-addr=0", "--data-dir="+filepath.Join(dir, "provider"), "--latency=25ms",
		"--faults-file="+faults, "--seed-machines=2", "--seed-speculative=5")
	done := make(chan struct{})
	var restarts sync.WaitGroup
	defer restarts.Wait()
	defer close(done)
	restarts.Go(func() { // what the command of the check asks for
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			if _, err := os.Stat(please); err == nil {
				provider.Restart()
				_ = os.Remove(please)
			}
		}
	})
	processtest.Eventually(t, 20*time.Second, "the provider answers", func() bool {
		code, _, _ := processtest.Run(t, "provider", "check", "--addr="+at, "--dry-run")
		return code == 0
	})
	const looked = "sleep 0.6" // the file is looked at five times a second
	code, out, said := processtest.Run(t, "provider", "check", "--addr="+at, "--yes", "--max-machines=6", "--output=json",
		fmt.Sprintf("--restart-command=touch %s; while [ -e %s ]; do sleep 0.02; done", please, please),
		fmt.Sprintf(`--vanish-command=echo "vanish: [$TONNAGE_MACHINE]" > %s; %s`, faults, looked),
		fmt.Sprintf(`--fail-command=for c in Create Configure; do echo "- {kind: late, on: $c, machine: $TONNAGE_MACHINE, times: 1}"; done | sed "1i faults:" > %s; %s`, faults, looked))
	var report struct {
		Results []struct{ ID, Status, Expected, Seen, Reason string }
		Passed  int
		Left    []struct{ Asked bool }
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("exit %d: %v: %s", code, err, said)
	}
	for _, r := range report.Results {
		if r.Status != "passed" {
			t.Logf("%s %s: expected %s, saw %s%s", r.ID, r.Status, r.Expected, r.Seen, r.Reason)
		}
	}
	if code != 0 || report.Passed < len(report.Results)*9/10 || len(report.Left) != 2 {
		t.Errorf("exit %d, %d of %d passed, %d machines left", code, report.Passed, len(report.Results), len(report.Left))
	}
}
