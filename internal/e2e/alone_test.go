package e2e

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/internal/freeport"
	"github.com/tonnage/tonnage/internal/processtest"
)

// silentPeer accepts connections, reads what comes, and says nothing.
func silentPeer(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			go func() {
				for b := make([]byte, 4096); ; {
					if _, err := c.Read(b); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// TestNobodyWaitsForTheCoordinator: a shard whose coordinator is dead, or takes connections and
// says nothing, makes as many cycles as one without a coordinator, and does the same.
func TestNobodyWaitsForTheCoordinator(t *testing.T) {
	t.Parallel()
	const (
		interval = 100 * time.Millisecond
		watched  = 3 * time.Second
		asked    = 8
	)
	for name, flags := range map[string][]string{
		"none":   nil,
		"dead":   {"--coordinator-addr=" + freeport.Take(t), "--coordinator-heartbeat-interval=200ms"},
		"silent": {"--coordinator-addr=" + silentPeer(t), "--coordinator-heartbeat-interval=200ms"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			at, sessions := freeport.Take(t), freeport.Take(t)
			processtest.Start(t, "provider", "--listen="+at, "--metrics-addr=0", "--data-dir="+filepath.Join(dir, "provider"), "--latency=5ms", "--seed-speculative=10")
			st := openStore(t, at)
			shard := processtest.Start(t, append([]string{"shard", "--provider-addr=" + at, "--listen=" + sessions, "--metrics-addr=" + freeport.Take(t),
				"--data-dir=" + filepath.Join(dir, "shard"), "--cycle-interval=" + interval.String()}, flags...)...)
			c := connect(t, sessions, time.Second, []string{"c"}).clusters[0]
			c.demands(machinesNeed(asked))
			bound := func() int { return tally(st.machines())[pb.MachineState_MACHINE_STATE_CONFIGURED] }
			processtest.Eventually(t, patience, "all machines are bound", func() bool { return bound() == asked })
			cycles := func() float64 { return shard.Metric("tonnage_shard_cycles_total") }
			before, began := cycles(), time.Now()
			processtest.Eventually(t, patience, "some time passes", func() bool { return time.Since(began) > watched })
			made, due := cycles()-before, float64(time.Since(began)/interval)
			if made < due/2 {
				t.Errorf("%v cycles were made in the time of %v", made, due)
			}
			for kind, want := range map[string]float64{"Provision": asked, "Bootstrap": asked, "Preempt": 0, "Reclaim": 0, "Delete": 0} {
				if got := shard.Metric("bigfleet_shard_actions_total", `kind="`+kind+`"`); got != want {
					t.Errorf("%v times %s, want %v", got, kind, want)
				}
			}
			st.check()
		})
	}
}
