package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	begins = "<!-- stages: go -C tools run ./stages table -->\n"
	ends   = "<!-- end of stages -->\n"
)

// read returns a file of the checkout.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestDocsShowTheTable(t *testing.T) {
	_, rest, found := strings.Cut(read(t, "docs/testing.md"), begins)
	shown, _, closed := strings.Cut(rest, ends)
	if !found || !closed || shown != markdown() {
		t.Errorf("docs/testing.md shows\n%s\nand the stages are\n%s", shown, markdown())
	}
}

// TestStagesAreTargets: a stage without a target would fail only in a long run.
func TestStagesAreTargets(t *testing.T) {
	makefile := read(t, "Makefile")
	for _, s := range stages {
		if !regexp.MustCompile(`(?m)^([a-z-]+ )*` + s.target + `( [a-z-]+)*:`).MatchString(makefile) {
			t.Errorf("the Makefile has no target %s", s.target)
		}
	}
}

func TestBudgetsKeepThePromises(t *testing.T) {
	var all time.Duration
	names := map[string]bool{}
	for _, s := range stages {
		if slices.Contains(s.suites, suiteCI) {
			all += s.budget
		}
		if s.target == "test" && s.budget > testBudgetMax {
			t.Errorf("make test has a budget of %v, more than %v", s.budget, testBudgetMax)
		}
		if names[s.name] || s.budget <= 0 || len(s.suites) == 0 {
			t.Errorf("stage %q: the name is taken, or it has no budget or no suite", s.name)
		}
		names[s.name] = true
	}
	if all > ciBudgetMax {
		t.Errorf("all stages have budgets of %v, more than %v", all, ciBudgetMax)
	}
	if stages[0].target != "test" {
		t.Errorf("%q comes before the tests", stages[0].name)
	}
}

func TestABusyMachineHasMoreTime(t *testing.T) {
	const budget = 100 * time.Second
	for _, c := range []struct {
		name         string
		others, load float64
		known        bool
		took         time.Duration
		want         string
	}{
		{"within its budget", 0, 9, true, 99 * time.Second, "ok"},
		{"slower, within the limit", 0, 9, true, 150 * time.Second, "ok"},
		{"too slow, though its own load is high", 0.5, 9, true, 151 * time.Second, "TOO SLOW"},
		{"slow beside others", 0.6, 2, true, 299 * time.Second, "ok (busy)"},
		{"too slow even so", 0.6, 2, true, 301 * time.Second, "TOO SLOW"},
		{"others not known, load low", 0, 2.5, false, 151 * time.Second, "TOO SLOW"},
		{"others not known, load high", 0, 2.6, false, 151 * time.Second, "ok (busy)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := result{stage: stage{budget: budget}, took: c.took, load: c.load, others: c.others, known: c.known, cores: 2}
			if got := r.status(); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestShortStagesHaveSlack(t *testing.T) {
	if got, want := allowed(time.Second, false), time.Second+slack; got != want {
		t.Errorf("a stage of a second may take %v, want %v", got, want)
	}
}

func TestOthersIsWhatIsNotOurs(t *testing.T) {
	at := time.Unix(1000, 0)
	from := usage{at: at, all: 100 * time.Second, ours: 10 * time.Second, valid: true}
	to := usage{at: at.Add(10 * time.Second), all: 118 * time.Second, ours: 23 * time.Second, valid: true}
	if got, known := others(from, to); !known || got != 0.5 {
		t.Errorf("others use %v cores (%v), want 0.5: 18 s in all, 13 of them ours, in 10 s", got, known)
	}
	if _, known := others(from, usage{at: to.at}); known {
		t.Error("known without counters")
	}
}

func TestProcessorTime(t *testing.T) {
	got, err := processorTime("cpu  100 20 3 9999 888 4 5 6 7 8\ncpu0 1 1 1 1 1 1 1 1 1 1\n")
	if want := 1380 * time.Millisecond; err != nil || got != want {
		t.Errorf("%v, %v, want %v: user, nice, system, irq, softirq and steal", got, err, want)
	}
	for _, bad := range []string{"", "cpu 1 2", "cpu0 1 2 3 4 5 6 7 8", "cpu 1 x 3 4 5 6 7 8"} {
		if _, err := processorTime(bad); err == nil {
			t.Errorf("no error for %q", bad)
		}
	}
}

// TestOwnWorkIsNotOthers burns time in a child: it is accounted as ours.
func TestOwnWorkIsNotOthers(t *testing.T) {
	if _, err := os.Stat("/proc/stat"); err != nil {
		t.Skip("no /proc/stat on this system")
	}
	before := usageNow()
	if err := exec.Command("sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done").Run(); err != nil {
		t.Fatal(err)
	}
	after := usageNow()
	if !before.valid || !after.valid || after.ours-before.ours < 20*time.Millisecond {
		t.Errorf("a child's loop counts as %v of our own", after.ours-before.ours)
	}
}

func TestEveryStageRuns(t *testing.T) {
	var out bytes.Buffer
	var ran []string
	printed := newPrinter(&out)
	r := runner{out: printed, make: func(_ context.Context, target string) error {
		ran = append(ran, target)
		_, err := fmt.Fprintf(printed, "early words of %s\n%s\nlast words of %s\n", target, strings.Repeat("x\n", endBytesMax), target)
		if target == "b" {
			err = errors.New("exit status 2")
		}
		return err
	}}
	list := []stage{{"first", "a", time.Minute, nil}, {"second", "b", time.Minute, nil}, {"third", "c", time.Minute, nil}}
	results := r.run(t.Context(), list)
	err := report(&out, results, len(list))
	if got := strings.Join(ran, " "); got != "a b c" {
		t.Errorf("ran %s, want a b c", got)
	}
	if err == nil || err.Error() != "failed: second" {
		t.Errorf("error %v, want failed: second", err)
	}
	_, end, _ := strings.Cut(out.String(), "=== second failed (exit status 2); the end of its output:\n")
	if !strings.Contains(end, "last words of b\n") || strings.Contains(end, "early words") || strings.Contains(end, "of a\n") || strings.Contains(end, "of c\n") {
		t.Errorf("what the failed stage said does not stand at the end:\n%s", end)
	}
	for _, want := range []string{`(?m)^second +0 +60 +[0-9.]+ +([0-9.]+|\?) +FAILED$`, `(?m)^all .* 2 of 3 ok$`} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("the table has no line %s:\n%s", want, &out)
		}
	}
}

func TestSlowStageFailsTheSuite(t *testing.T) {
	slow := result{stage: stage{"slow", "a", time.Minute, nil}, took: 4 * time.Minute, known: true, cores: 2}
	if err := report(&bytes.Buffer{}, []result{slow}, 1); err == nil {
		t.Error("four times the budget passes")
	}
}

func TestInterruptedSuiteFails(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	var out bytes.Buffer
	r := runner{out: newPrinter(&out), make: func(context.Context, string) error { stop(); return nil }}
	list := []stage{{"first", "a", time.Minute, nil}, {"second", "b", time.Minute, nil}}
	if err := report(&out, r.run(ctx, list), len(list)); err == nil || !strings.HasPrefix(err.Error(), "interrupted") {
		t.Errorf("error %v", err)
	}
}

func TestSilenceIsBroken(t *testing.T) {
	var out bytes.Buffer
	p := newPrinter(&out)
	at := p.last
	line := func() string { return "still here" }
	p.progress(at.Add(silenceMax-time.Millisecond), line)
	if out.Len() != 0 {
		t.Errorf("printed %q too early", &out)
	}
	if _, err := p.Write([]byte("half a line")); err != nil {
		t.Fatal(err)
	}
	p.progress(p.last.Add(silenceMax), line)
	if got, want := out.String(), "half a line\nstill here\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if silenceMax+tick >= 10*time.Second {
		t.Error("ten seconds may pass without a line")
	}
}

func TestWorkingNamesWhatRuns(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("no /proc on this system")
	}
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	got := working(os.Getpid())
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(got, "cat") {
		t.Errorf("running %q, want cat", got)
	}
}

func TestDescribe(t *testing.T) {
	for _, c := range []struct {
		command []string
		want    string
	}{
		{[]string{"/go/pkg/tool/compile", "-o", "x", "-p", "net/http", "-std"}, "compile net/http"},
		{[]string{"/go/pkg/tool/link", "-o", "/tmp/b001/a.out"}, "link"},
		{[]string{"/go/pkg/tool/link", "-o", "/tmp/b001/engine.test"}, "link engine.test"},
		{[]string{"/usr/bin/go", "mod", "download"}, "go mod"},
		{[]string{"compile", "-p"}, "compile"},
		{[]string{""}, ""},
		{[]string{"/tmp/chromium --type=gpu --no-sandbox"}, "chromium"},
	} {
		if got := describe(c.command); got != c.want {
			t.Errorf("%v is described as %q, want %q", c.command, got, c.want)
		}
	}
}
