package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// startApply runs `tonnage demand apply` until the test ends.
func startApply(t *testing.T, shard string, args ...string) *syncBuffer {
	t.Helper()
	out := &syncBuffer{}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, append([]string{"demand", "apply", "--shard-addr", shard}, args...), streams{in: strings.NewReader(""), out: out, err: out})
	}()
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(out.String())
		}
		cancel()
		if code := <-ended; code != exitOK {
			t.Errorf("it ended with %d:\n%s", code, out)
		}
	})
	return out
}

func sessionsOf(r *shardRun) string {
	return regexp.MustCompile(`sessions on ([^,]+),`).FindStringSubmatch(r.out.String())[1]
}

// TestDemandOfAFileIsServed applies a file of needs to a real shard, without a cluster: the shard binds
// machines for them, follows an edit of the file, and takes machines back.
func TestDemandOfAFileIsServed(t *testing.T) {
	r := startShard(t, "--data-dir", t.TempDir(), "--cycle-interval", "20ms", "--seed-machines", "3", "--log-level", "warn")
	path := filepath.Join(t.TempDir(), "needs.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("needs:\n- {name: web, cluster: alpha, priority: 5, aggregate: {cpu: 1}}\n- {name: db, cluster: beta, priority: 7, interruptionPenalty: 64, aggregate: {cpu: 1}, requirements: [{key: absent, operator: DoesNotExist}]}\n")
	out := startApply(t, sessionsOf(r), "-f", path)
	says := func(pattern string) func() bool {
		return func() bool { return regexp.MustCompile(pattern).MatchString(out.String()) }
	}
	r.wait(says(`alpha: machine \S+ is Configured`))
	r.wait(says(`beta: machine \S+ is Configured`))
	got := call("", true, "ctl", "needs", "--shard-addr", sessionsOf(r), "-o", "json")
	if got.code != exitOK || strings.Count(got.out, `"satisfied": true`) != 2 {
		t.Errorf("ctl needs: exit %d: %s%s", got.code, got.out, got.err)
	}
	write("needs:\n- {name: db, cluster: beta, prority: 7}\n")
	r.wait(says(`needs.yaml:2:29: needs\[0\].prority: unknown key`))
	write("needs:\n- {name: db, cluster: beta, priority: 7, interruptionPenalty: 64, aggregate: {cpu: 1}, requirements: [{key: absent, operator: DoesNotExist}]}\n")
	r.wait(says(`alpha: gives back 1 machines`))
	if strings.Contains(out.String(), "beta: gives back") {
		t.Errorf("beta gives something back:\n%s", out)
	}
}

func TestDemandAppliedOnce(t *testing.T) {
	r := startShard(t, "--data-dir", t.TempDir(), "--cycle-interval", "20ms", "--seed-machines", "1", "--log-level", "warn")
	const needs = "needs:\n- {name: web, cluster: alpha, aggregate: {cpu: 1}}\n"
	if got := call(needs, true, "demand", "apply", "-f", "-", "--shard-addr", sessionsOf(r), "--once"); got.code != exitOK || !strings.Contains(got.out, "alpha: the shard has taken the demand") {
		t.Errorf("exit %d: %s%s", got.code, got.out, got.err)
	}
	got := call("", true, "ctl", "needs", "--shard-addr", sessionsOf(r), "-o", "json")
	if !strings.Contains(got.out, `"cluster": "alpha"`) {
		t.Errorf("ctl needs: %s%s", got.out, got.err)
	}
	began := time.Now()
	if got := call(needs, true, "demand", "apply", "-f", "-", "--shard-addr", "127.0.0.1:1", "--once", "--timeout", "300ms"); got.code != exitInternal || !strings.Contains(got.err, "has not acknowledged the demand within 300ms") {
		t.Errorf("without a shard: exit %d after %v: %s", got.code, time.Since(began), got.err)
	}
}

func TestDemandThatTheWireCannotSay(t *testing.T) {
	for text, want := range map[string]string{
		"needs:\n- {name: a, cluster: c, aggregate: {cpu: 4}, minAggregate: {cpu: 2}}\n":                                    "need a: minAggregate has no form on the wire",
		"needs:\n- {name: a, cluster: c, aggregate: {cpu: 4}, requirements: [{key: gen, operator: Gt, values: [\"3\"]}]}\n": "need a: the operator Gt has no form on the wire",
		"needs: []\n":                      "the file has no needs",
		"needs:\n- {name: a}\n":            "stdin:2:3: needs[0].cluster: is missing",
		"needs: [{name: a, cluster: c}]\n": "",
	} {
		args := []string{"demand", "apply", "-f", "-", "--shard-addr", "127.0.0.1:1", "--once", "--timeout", "10ms"}
		got := call(text, true, args...)
		if want == "" {
			want = "has not acknowledged"
		} else if got.code != exitBadInput {
			t.Errorf("%s: exit %d", text, got.code)
		}
		if !strings.Contains(got.err, want) {
			t.Errorf("%s: %s, want %s", text, got.err, want)
		}
	}
	if got := call("", true, "demand", "apply"); got.code != exitBadInput || !strings.Contains(got.err, "no file given") {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
}
