package e2e

import (
	"path/filepath"
	"testing"
	"time"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/internal/freeport"
	"github.com/tonnage/tonnage/internal/processtest"
)

const (
	mistakeMachines = 200
	mistakeInterval = time.Second // between two cycles
	// mistakeShare is what of a cluster's machines an interval may take.
	mistakeShare = 20
	// mistakeLimit is how many machines go before the shard pauses itself.
	mistakeLimit = 50
)

// TestAMistakeTakesLittle: a cluster of 200 machines reports nothing by mistake, beside a
// neighbour that starts cycles all the time, and the shard has just been killed. Nothing
// is drained before the third such roll-up, a twentieth an interval from then on, and when a
// fifth has gone the shard pauses itself.
func TestAMistakeTakesLittle(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at, sessions := freeport.Take(t), freeport.Take(t)
	processtest.Start(t, "provider", "--listen="+at, "--metrics-addr=0", "--data-dir="+filepath.Join(dir, "provider"), "--latency=5ms", "--seed-machines=210")
	st := openStore(t, at)
	bound := func() (n int) {
		for _, m := range st.machines() {
			if m.State == pb.MachineState_MACHINE_STATE_CONFIGURED && m.Cluster == "quiet" {
				n++
			}
		}
		return n
	}
	shard := processtest.Start(t, "shard", "--provider-addr="+at, "--listen="+sessions, "--metrics-addr="+freeport.Take(t),
		"--data-dir="+filepath.Join(dir, "shard"), "--cycle-interval="+mistakeInterval.String(), "--cluster-rollup-interval=20ms", "--local-bootstrap")
	quiet := connect(t, sessions, mistakeInterval, []string{"quiet"}).clusters[0]
	quiet.demands(machinesNeed(mistakeMachines))
	processtest.Eventually(t, patience, "all machines are bound", func() bool { return bound() == mistakeMachines })
	loud := connect(t, sessions, 20*time.Millisecond, []string{"loud"})
	for i := range 4 { // each of its roll-ups is another, so that a cycle begins
		loud.clusters[0].demands(machinesNeed(1 + i%2))
	}
	shard.Kill()
	quiet.demands()
	shard.Restart()
	processtest.Eventually(t, patience, "the roll-up is held", func() bool { return shard.Metric("bigfleet_shard_rollup_quarantined", `cluster="quiet"`) > 0 })
	if n := bound(); n != mistakeMachines {
		t.Fatalf("%d machines are left when the first roll-ups without demand are held", n)
	}
	processtest.Eventually(t, patience, "the third is believed", func() bool { return bound() < mistakeMachines })
	began := time.Now()
	for shard.Metric("tonnage_shard_breaker_tripped") != 1 {
		lost := mistakeMachines - bound()
		took := time.Since(began) // after the listing: it may last into the next interval, and then shows what that one takes
		// A budget that is left from the interval before, and one for each that has begun since.
		if allowed := (2 + int(took/mistakeInterval)) * (mistakeMachines / mistakeShare); lost > allowed {
			t.Fatalf("%d machines are gone after %v, at most %d may be", lost, took.Round(time.Millisecond), allowed)
		}
		if took > patience {
			t.Fatalf("the shard does not pause itself; %d machines are left", bound())
		}
	}
	processtest.Eventually(t, patience, "what had begun has ended", st.atRest)
	if lost := mistakeMachines - bound(); lost > mistakeLimit {
		t.Errorf("%d machines are gone, at most %d may be before the shard pauses itself", lost, mistakeLimit)
	}
	st.check()
}

// atRest tells whether no machine is on its way.
func (s *store) atRest() bool {
	for state := range tally(s.machines()) {
		switch state {
		case pb.MachineState_MACHINE_STATE_CONFIGURED, pb.MachineState_MACHINE_STATE_IDLE, pb.MachineState_MACHINE_STATE_SPECULATIVE, pb.MachineState_MACHINE_STATE_FAILED:
		default:
			return false
		}
	}
	return true
}
