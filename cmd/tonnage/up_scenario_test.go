package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/internal/livefleet"
	"github.com/tonnage/tonnage/web"
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
	if title := (&sourceConfig{scenario: scenarioDefault}).title(); title != "Demo: scenario contended, simulated machines, repeats every 60 s" {
		t.Errorf("the page is headed by %q", title)
	}
	tenQuestions(t, l.url)
}

// tenQuestions runs every command of the page about them, and looks for what the page says that each shows: its
// first line, but for numbers, times and the width of columns.
func tenQuestions(t *testing.T, url string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/how-to/ten-questions.md")
	if err != nil {
		t.Fatal(err)
	}
	plain := func(text string) string {
		return strings.Join(strings.Fields(regexp.MustCompile("[0-9.,:]+").ReplaceAllString(text, "0")), " ")
	}
	all := regexp.MustCompile("<!-- live: tonnage (.*) -->\n```\n(.*)\n").FindAllStringSubmatch(string(page), -1)
	if len(all) != 10 {
		t.Errorf("the page has %d commands", len(all))
	}
	for _, m := range all {
		got := call("", true, append(strings.Fields(m[1]), "--shard", url)...)
		slow := strings.HasPrefix(m[1], "fleet cycles --over") && strings.HasPrefix(got.out, "CYCLE") // there was one on this machine
		if got.code != exitOK || !slow && !strings.Contains(plain(got.out), plain(m[2])) {
			t.Errorf("%s: exit %d: %s%s; want %q", m[1], got.code, got.out, got.err, m[2])
		}
		asJSON := call("", true, append(strings.Fields(m[1]), "--shard", url, "-o", "json")...)
		if asJSON.code != exitOK || !json.Valid([]byte(asJSON.out)) {
			t.Errorf("%s -o json: exit %d: %.300s%s", m[1], asJSON.code, asJSON.out, asJSON.err)
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

// TestATraceShowsABusyFleet: by the defaults more than 100 machines are bound within 40 s.
func TestATraceShowsABusyFleet(t *testing.T) {
	trace := filepath.FromSlash("../../../shared/data/openb")
	if _, err := os.Stat(trace); err != nil || testing.Short() {
		t.Skip("for whole runs, and where the recorded cluster is: ", err)
	}
	startLive(t, "--trace", trace).until(40*time.Second, func(e *topEvent) bool {
		return e.Frame.Machines[slices.Index(web.States[:], "Configured")] > 100
	})
}

// TestTheDefaultSource is a scenario; whatever names a source, or wants several shards, keeps the rung's default.
func TestTheDefaultSource(t *testing.T) {
	if got := call("", false, "up", "--listen", "127.0.0.1:0", "--data-dir", t.TempDir(), "--duration", "1ns"); got.code != exitOK || !strings.HasPrefix(got.out, "scenario contended ") {
		t.Errorf("without flags: %+v", got)
	}
	for _, args := range [][]string{{"--shards", "2"}, {"--start", "steady"}, {"--rung", "tiny"}} {
		got := call("", false, append([]string{"up", "--listen", "127.0.0.1:0", "--data-dir", t.TempDir(), "--duration", "1ns"}, args...)...)
		if got.code != exitOK || !strings.HasPrefix(got.out, "rung tiny") {
			t.Errorf("%v: %+v", args, got)
		}
	}
}
