package e2e

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/internal/freeport"
	"github.com/tonnage/tonnage/internal/processtest"
)

var failingSyncs = flag.Int("failing-syncs", 0, "rounds in which the syncs of shard or provider fail from some time on; needs strace")

// failSyncs runs a process from its next start on so that syncs of a file fail with EIO, on each
// thread from the second on: the first one opens the file.
func failSyncs(p *processtest.Process, file string) {
	p.Under("strace", "-D", "-f", "-qq", "-o", "/dev/null", "-P", file, "-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:error=EIO:when=2+")
}

// TestSyncsThatFail: a disk whose syncs fail stops no shard, and makes no provider lie. Whatever
// was acknowledged before it is there when the processes have started again on a
// disk that is well: nothing is bought or bound for nobody, and nothing is taken away.
func TestSyncsThatFail(t *testing.T) {
	if *failingSyncs == 0 {
		t.Skip("needs strace: make soak-disk")
	}
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("seed %d", s)
	rng := rand.New(rand.NewPCG(s, 5))
	dir := t.TempDir()
	at, sessions := freeport.Take(t), freeport.Take(t)
	slots := 8*(*failingSyncs) + 20
	provider := processtest.Start(t, "provider", "--listen="+at, "--metrics-addr="+freeport.Take(t), "--data-dir="+filepath.Join(dir, "provider"), "--latency=5ms-50ms", fmt.Sprint("--seed-speculative=", slots))
	st := openStore(t, at)
	shard := processtest.Start(t, "shard", "--provider-addr="+at, "--listen="+sessions, "--metrics-addr="+freeport.Take(t), "--data-dir="+filepath.Join(dir, "shard"), "--cycle-interval=200ms")
	fleet := connect(t, sessions, time.Second, names("cluster", 4))
	wanted, bound := 0, func() int { return tally(st.machines())[pb.MachineState_MACHINE_STATE_CONFIGURED] }
	each := make([]int, len(fleet.clusters))
	unhealthy, stopped := 0, 0
	for round := range *failingSyncs {
		broken, whole, file := shard, provider, filepath.Join(dir, "shard", "journal")
		if round%2 == 1 {
			broken, whole, file = provider, shard, filepath.Join(dir, "provider", "provider.db")
		}
		failSyncs(broken, file)
		broken.Restart()
		for range 8 {
			i := rng.IntN(len(each))
			each[i]++
			wanted++
			fleet.clusters[i].demands(machinesNeed(each[i]))
		}
		<-time.After(time.Second + time.Duration(rng.Int64N(int64(time.Second))))
		if broken == shard && shard.Get("/metrics") != "" && shard.Metric("tonnage_shard_journal_healthy") == 0 {
			unhealthy++
		}
		if broken == provider && (provider.Ended() || bound() < wanted) {
			stopped++
		}
		broken.Under()
		broken.Restart()
		if rng.IntN(2) == 0 {
			whole.Restart()
		}
		processtest.Eventually(t, patience, fmt.Sprintf("round %d of seed %d: every cluster has what it wants", round, s), func() bool { return bound() == wanted && st.atRest() })
		if st.check(); t.Failed() {
			t.Fatalf("round %d of seed %d", round, s)
		}
	}
	n := tally(st.machines())
	if n[pb.MachineState_MACHINE_STATE_IDLE] != 0 || n[pb.MachineState_MACHINE_STATE_SPECULATIVE] != slots-wanted || fleet.reclaims.Load() != 0 {
		t.Errorf("seed %d: %d machines are Idle, %d slots are left of %d with %d bound, %d were taken away", s,
			n[pb.MachineState_MACHINE_STATE_IDLE], n[pb.MachineState_MACHINE_STATE_SPECULATIVE], slots, wanted, fleet.reclaims.Load())
	}
	if unhealthy == 0 || stopped == 0 && *failingSyncs > 1 {
		t.Errorf("seed %d: the journal was seen to fail %d times, the provider %d times: too little was tried", s, unhealthy, stopped)
	}
	t.Logf("%d rounds, the journal was seen to fail in %d, the provider in %d; %d machines bound", *failingSyncs, unhealthy, stopped, wanted)
}
