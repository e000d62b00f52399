package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/simulated"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/web"
)

// says has a command answer about a running shard; the answer must hold all texts.
func says(t *testing.T, args []string, texts ...string) outcome {
	t.Helper()
	got := call("", true, args...)
	for _, want := range texts {
		if got.code != 0 || !strings.Contains(got.out, want) {
			t.Errorf("%v: exit %d: %s%s; want %q", args, got.code, got.out, got.err, want)
		}
	}
	return got
}

// TestExplainSaysWhatARunningShardHoldsBack: 40 machines are to be reclaimed and 140 to be
// bought, of which an interval does 2 and 100.
func TestExplainSaysWhatARunningShardHoldsBack(t *testing.T) {
	cpu := func(n int64) model.Resources { return model.NewResources(model.Amount{Name: "cpu", Value: n}) }
	fleet := simulated.Config{Now: int64(1000 * time.Second), Latencies: simulated.Latencies{Create: simulated.Latency{Min: time.Hour, Max: time.Hour}}}
	for i := range 180 {
		m := model.Machine{ID: fmt.Sprintf("q-%03d", i), State: model.Speculative, InstanceType: "t", Resources: cpu(4)}
		if i < 40 {
			m.ID, m.State, m.Cluster = fmt.Sprintf("b-%03d", i), model.Configured, "away"
		}
		fleet.Machines = append(fleet.Machines, m)
	}
	machines, err := simulated.New(fleet)
	if err != nil {
		t.Fatal(err)
	}
	cfg := shard.DefaultConfig()
	cfg.Concurrency, cfg.Quarantine = 0, false
	s, err := shard.New(cfg, shard.Deps{Provider: machines})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	page := httptest.NewServer(web.New(web.Config{Feed: web.NewFeed(web.Info{}), World: (&shardProcess{shard: s}).writeWorld}))
	t.Cleanup(page.Close)
	profile, err := model.NewProfile(model.ProfileSpec{Priority: 1})
	if err != nil {
		t.Fatal(err)
	}
	step := func(after time.Duration) {
		t.Helper()
		now := fleet.Now + int64(after)
		for cluster, rows := range map[string][]model.Need{"away": nil, "in": {{Profile: profile, Aggregate: cpu(4 * 140), MinUnit: cpu(4)}}} {
			if _, err := s.ApplyRollup(cluster, rows, now); err != nil {
				t.Fatal(err)
			}
		}
		machines.Advance(now)
		if _, err := s.Step(context.Background(), now); err != nil {
			t.Fatal(err)
		}
	}
	machine := func(id string) []string { return []string{"explain", "machine", "--shard", page.URL, id} }
	need := []string{"explain", "need", "--shard", page.URL, "in/0"}

	step(0)
	says(t, machine("b-000"), "Reclaim held back in the last cycle: the budget of Reclaims is empty in the first interval (10s) after a start\n")
	says(t, need, "140 Provisions held back in the last cycle: the budget of Provisions is empty in the first interval (10s) after a start\n")
	step(11 * time.Second)
	says(t, machine("b-039"), "  Reclaim, because phase3.excess\n", "  Reclaim held back in the last cycle: the cluster's budget of Reclaims for this interval (10s) is used up\n")
	says(t, need, "40 Provisions held back in the last cycle: the budget of Provisions for this interval (10s) is used up\n")
	if got := says(t, machine("b-000"), "machine b-000, Idle"); strings.Contains(got.out, "held back") {
		t.Errorf("what was carried out is said to be held back:\n%s", got.out)
	}
	var why struct {
		Needs map[string]struct {
			HeldBack []struct {
				Action, By string
				Actions    int
			}
		}
	}
	if err := json.Unmarshal([]byte(says(t, append(need, "-o", "json")).out), &why); err != nil || len(why.Needs["in/0"].HeldBack) != 1 || why.Needs["in/0"].HeldBack[0].Actions != 40 || why.Needs["in/0"].HeldBack[0].By != "provision-cap" {
		t.Errorf("as JSON: %v, %+v", err, why)
	}
	s.SetPaused(true)
	step(12 * time.Second)
	if got := says(t, machine("b-039"), "the shard carries nothing out (paused): it was started with --actuation-paused\n  remedy: `tonnage ctl resume", "  Reclaim, because phase3.excess\n"); strings.Contains(got.out, "held back") {
		t.Errorf("what the cycle before the pause held back is still told:\n%s", got.out)
	}
	s.SetPaused(false)
	step(30 * time.Second)
	step(50 * time.Second)
	if got := says(t, need, "need in/0 of cluster in"); strings.Contains(got.out, "held back") || strings.Contains(got.out, "nothing out") {
		t.Errorf("all was bought, and it says\n%s", got.out)
	}
}

// TestExplainSaysWhatStopsAShard: by the files in its data folder.
func TestExplainSaysWhatStopsAShard(t *testing.T) {
	dir := t.TempDir()
	r := startShard(t, "--data-dir", dir, "--cycle-interval", "10ms", "--seed-machines", "1", "--log-level", "warn")
	explain := []string{"explain", "machine", "--shard", "http://" + r.metrics, "idle-000000"}
	answers := func(want string) {
		t.Helper()
		r.wait(func() bool {
			got := call("", true, explain...)
			return got.code == 0 && strings.HasPrefix(got.out, want)
		})
	}
	answers("machine idle-000000, Idle")
	for _, x := range []struct{ file, says string }{
		{dryRunFile, "the shard carries nothing out (dry-run): there is a file dry-run in its data folder\n  remedy: remove the file dry-run"},
		{pauseFile, "the shard carries nothing out (paused): there is a file pause in its data folder\n  remedy: `tonnage ctl resume --data-dir DIR`"},
		{breakerFile, "the shard carries nothing out (breaker): it had tripped before this process began; the file breaker in its data folder says why\n  remedy: look for the cause, then `tonnage ctl resume --data-dir DIR`"},
	} {
		if err := os.WriteFile(filepath.Join(dir, x.file), []byte("why"), 0o600); err != nil {
			t.Fatal(err)
		}
		answers(x.says)
	}
	if got := call("", true, "ctl", "resume", "--data-dir", dir); got.code != 0 {
		t.Fatal(got.err)
	}
	answers("the shard carries nothing out (dry-run)")
	if err := os.Remove(filepath.Join(dir, dryRunFile)); err != nil {
		t.Fatal(err)
	}
	answers("machine idle-000000, Idle")
}
