package main

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// startUp runs `tonnage up` with arguments that name a fleet until the test ends,
// and returns the address of its page when demand is there.
func startUp(t *testing.T, dir string, args ...string) (url string, events io.Reader) {
	t.Helper()
	out := &output{lines: make(chan string, 64)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan int, 1)
	args = append([]string{"up", "--listen", "127.0.0.1:0", "--data-dir", dir, "--cycle", "20ms", "--provider-latency", "10ms-30ms"}, args...)
	go func() { done <- run(ctx, args, streams{in: strings.NewReader(""), out: out, err: t.Output()}) }()
	for url == "" {
		select {
		case line := <-out.lines:
			url = regexp.MustCompile(`http://[0-9.:]+`).FindString(line)
		case code := <-done:
			cancel()
			t.Fatalf("it ended with %d", code)
		}
	}
	stream, err := http.Get(url + "/events")
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		stream.Body.Close()
		if code := <-done; code != exitOK {
			t.Errorf("up ended with %d", code)
		}
	})
	waitFor(t, stream.Body, regexp.MustCompile(`"needs":(\d\d+),"satisfied":\d\d`))
	return url, stream.Body
}

// TestUpObeysTheSwitch: as a shard of its own does, also when there are several.
func TestUpObeysTheSwitch(t *testing.T) {
	for name, args := range map[string][]string{"one shard": {"--rung", "tiny"}, "two shards": {"--rung", "tiny", "--shards", "2"}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			_, events := startUp(t, dir, args...)
			for _, c := range []struct{ command, mode string }{{"pause", "paused"}, {"resume", ""}} {
				if got := call("", true, "ctl", c.command, "--data-dir", dir); got.code != exitOK {
					t.Fatalf("ctl %s: exit %d: %s", c.command, got.code, got.err)
				}
				waitFor(t, events, regexp.MustCompile(`"mode":"`+c.mode+`"`))
			}
		})
	}
}

// TestExamplesWorkAgainstUp: what the help shows for the address of the page is
// answered by `make run`.
func TestExamplesWorkAgainstUp(t *testing.T) {
	url, _ := startUp(t, t.TempDir(), "--scenario", "contended")
	tried := 0
	var try func(*cobra.Command)
	try = func(cmd *cobra.Command) {
		for line := range strings.Lines(cmd.Example) {
			if !strings.Contains(line, "http://"+upListenDefault) {
				continue
			}
			tried++
			args := strings.Fields(strings.ReplaceAll(line, "http://"+upListenDefault, url))[1:]
			if got := call("", true, args...); got.code != exitOK || got.out == "" {
				t.Errorf("%s: exit %d: %s", strings.TrimSpace(line), got.code, got.err)
			}
		}
		for _, sub := range cmd.Commands() {
			try(sub)
		}
	}
	try(newRoot(streams{}))
	if tried < 4 {
		t.Errorf("only %d examples name the page", tried)
	}
}
