package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestUpWithSeveralShards: one process with a coordinator and three shards, of
// which one has machines and no demand. The page shows all shards, what they are
// short of, and machines that change their shard; and it ends in good order.
func TestUpWithSeveralShards(t *testing.T) {
	out := &output{lines: make(chan string, 64)}
	dir := t.TempDir()
	f := upFlags{acquire: "fit", shards: 3, rung: "tiny", start: "cold", seed: 1, listen: "127.0.0.1:0", dataDir: dir, cycle: 50 * time.Millisecond, latency: "10ms-30ms", logLevel: "error", profileOver: time.Second}
	plan, err := f.parse(func(string) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	plan.reportGap, plan.rebalanceGap = 100*time.Millisecond, 300*time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- up(ctx, streams{out: out, err: io.Discard}, plan) }()
	url, coordinator := "", ""
	for url == "" || coordinator == "" {
		select {
		case line := <-out.lines:
			if url == "" {
				url = regexp.MustCompile(`http://[0-9.:]+`).FindString(line)
			}
			if at := regexp.MustCompile(`coordinator at ([0-9.:]+)`).FindStringSubmatch(line); at != nil {
				coordinator = at[1]
			}
		case err := <-done:
			t.Fatalf("it ended: %v", err)
		}
	}
	stream, err := http.Get(url + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	waitFor(t, stream.Body, regexp.MustCompile(`"unmet":\[\{"cluster"`))
	waitFor(t, stream.Body, regexp.MustCompile(`"region":\{"shards":\[\{"name":"shard-0".*"name":"shard-1".*"name":"shard-2".*"moves":\[\{"at":.*"phase":"settled".*"moved":[1-9]`))
	for _, c := range []struct {
		args []string
		want string
	}{{[]string{"list-shards"}, "shard-2"}, {[]string{"list-shards", "-o", "json"}, `"free": `}, {[]string{"rebalance", "--why"}, "settled"}} {
		if got := call("", true, append([]string{"ctl", "--coordinator", coordinator, "-o", "table"}, c.args...)...); got.code != 0 || !strings.Contains(got.out, c.want) {
			t.Errorf("ctl %v: exit %d: %s%s", c.args, got.code, got.out, got.err)
		}
	}
	began := time.Now()
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 2*stopLimit {
		t.Errorf("it took %v to stop", took)
	}
	if text := out.text.String(); !strings.Contains(text, "Stopped after") {
		t.Errorf("the output has no summary:\n%s", text)
	}
	if _, err := os.Stat(filepath.Join(dir, upCoordinator)); err != nil {
		t.Errorf("the coordinator's state is not where it should be: %v", err)
	}
}
