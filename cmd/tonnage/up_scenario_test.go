package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/internal/livefleet"
)

// liveUp is a `tonnage up` that runs until the test ends.
type liveUp struct {
	t      *testing.T
	out    *output
	url    string
	trials []string // command lines that it printed
}

func startLive(t *testing.T, args ...string) *liveUp {
	t.Helper()
	l := &liveUp{t: t, out: &output{lines: make(chan string, 256)}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan int, 1)
	args = append([]string{"up", "--listen", "127.0.0.1:0", "--data-dir", t.TempDir()}, args...)
	go func() { done <- run(ctx, args, streams{in: strings.NewReader(""), out: l.out, err: t.Output()}) }()
	t.Cleanup(func() {
		cancel()
		if code := <-done; code != exitOK {
			t.Errorf("up ended with %d", code)
		}
	})
	for len(l.trials) < trialsMax {
		line := l.line(done)
		if at := regexp.MustCompile(`^http://[0-9.:]+`).FindString(line); at != "" {
			l.url = at
		}
		if command, _, found := strings.Cut(line, "#"); found {
			l.trials = append(l.trials, strings.TrimSpace(command))
		}
	}
	return l
}

// line returns the next line that up prints.
func (l *liveUp) line(done chan int) string {
	l.t.Helper()
	select {
	case line := <-l.out.lines:
		return line
	case code := <-done:
		done <- code
		l.t.Fatalf("it ended with %d", code)
	}
	return ""
}

// until waits for a frame of the page.
func (l *liveUp) until(within time.Duration, good func(*topEvent) bool) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.url+"/events", http.NoBody)
	if err != nil {
		l.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		l.t.Fatal(err)
	}
	defer res.Body.Close()
	var last topEvent
	for event := range events(res.Body) {
		var e topEvent
		if json.Unmarshal(event, &e) != nil || e.Frame == nil {
			continue
		}
		if last = e; good(&e) {
			return
		}
	}
	l.t.Fatalf("not within %v; the last frame is %+v", within, last.Frame)
}

// events yields the data of server-sent events.
func events(in io.Reader) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		var rest []byte
		buffer := make([]byte, 64<<10)
		for {
			n, err := in.Read(buffer)
			if err != nil {
				return
			}
			rest = append(rest, buffer[:n]...)
			for {
				line, after, found := strings.Cut(string(rest), "\n")
				if !found {
					break
				}
				rest = []byte(after)
				if data, ok := strings.CutPrefix(line, "data: "); ok && !yield([]byte(data)) {
					return
				}
			}
		}
	}
}

// TestContendedOnThePage: what `make run` starts shows a preemption, a gang that waits and a Need that
// nothing matches within 20 s, and what it says to try answers.
func TestContendedOnThePage(t *testing.T) {
	l := startLive(t, "--scenario", "contended")
	preempted := false
	l.until(20*time.Second, func(e *topEvent) bool {
		f := e.Frame
		for i := range e.Recent {
			preempted = preempted || e.Recent[i].Kind == engine.Preempt.String()
		}
		reasons := map[string]int{}
		for _, r := range f.Reasons {
			reasons[r.Reason] = r.Count
		}
		return preempted && f.Clusters >= 5 && reasons["no_matching_supply"] > 0 && len(f.Unmet) >= 2
	})
	for _, command := range l.trials {
		got := call("", true, strings.Fields(command)[1:]...)
		if got.code != exitOK || got.out == "" {
			t.Errorf("%s: exit %d: %s", command, got.code, got.err)
		}
	}
}

// TestEditingTheFileWhileItRuns: a world runs, an edit adds a machine for the Need that is short, and
// a bad edit is said with its place.
func TestEditingTheFileWhileItRuns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "world.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const world = "needs:\n- {name: web, cluster: c1, aggregate: {cpu: 8}}\nmachines:\n- {id: m-1, state: Idle, resources: {cpu: 4}}\n"
	write(world)
	l := startLive(t, "-f", path, "--cycle", "20ms", "--provider-latency", "1ms")
	satisfied := func(want int, bound int) func(*topEvent) bool {
		return func(e *topEvent) bool {
			return e.Frame.Needs == 1 && e.Frame.Satisfied == want && e.Frame.Machines[4] == bound
		}
	}
	l.until(20*time.Second, satisfied(0, 1))
	for _, command := range l.trials {
		if got := call("", true, strings.Fields(command)[1:]...); got.code != exitOK || got.out == "" {
			t.Errorf("%s: exit %d: %s", command, got.code, got.err)
		}
	}
	write(world + "- {id: m-2, state: Idel, resources: {cpu: 4}}\n")
	var said string
	for !strings.Contains(said, "nothing is changed") {
		said += l.line(make(chan int, 1))
	}
	if !strings.Contains(said, path+`:5:20: machines[1].state: unknown state "Idel"; did you mean Idle?`) {
		t.Errorf("it says %q", said)
	}
	l.until(20*time.Second, satisfied(0, 1))
	write(world + "- {id: m-2, state: Idle, resources: {cpu: 4}}\n")
	l.until(20*time.Second, satisfied(1, 2))
	if got := call("", true, "explain", "need", "--shard", l.url, "web"); got.code != exitOK || !strings.Contains(got.out, "need web of cluster c1, rank 0: satisfied") {
		t.Errorf("explain says %d %s%s", got.code, got.out, got.err)
	}
}

func TestScenariosAreListed(t *testing.T) {
	for _, args := range [][]string{{"--list"}, {"--scenario", "list"}} {
		got := call("", true, append([]string{"up"}, args...)...)
		for name, about := range livefleet.Scenarios() {
			if got.code != exitOK || !regexp.MustCompile(`(?m)^`+name+` +`+about+`$`).MatchString(got.out) {
				t.Errorf("up %v: exit %d: %s", args, got.code, got.out)
			}
		}
	}
}

// TestDefaultsOfATrace: what arrived stays, ten hours a second; by the trace's own times it would be
// nearly idle for minutes.
func TestDefaultsOfATrace(t *testing.T) {
	var f upFlags
	cmd := &cobra.Command{}
	f.register(cmd)
	if err := cmd.ParseFlags([]string{"--trace", "x"}); err != nil {
		t.Fatal(err)
	}
	p, err := f.parse(cmd.Flags().Changed)
	if err != nil || !p.source.options.ArrivalsOnly || p.source.options.Speed != 36_000 {
		t.Errorf("%v: %+v", err, p.source.options)
	}
}
