package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// endPatience is how long a command may take to end after an interrupt.
const endPatience = 30 * time.Second

// command prepares a command of the checkout that ends when the context does.
func command(ctx context.Context, root string, out io.Writer, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = root
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = endPatience
	return cmd
}

// result is what came of a stage.
type result struct {
	stage  stage
	took   time.Duration
	load   float64 // load average at its end
	others float64 // cores that others used
	known  bool    // whether others is
	cores  int     // of the machine
	err    error
	said   string // the end of its output, when it failed
}

// status is one word, or two.
func (r result) status() string {
	switch {
	case r.err != nil:
		return "FAILED"
	case r.took > allowed(r.stage.budget, r.busy()):
		return "TOO SLOW"
	case r.busy() && r.took > allowed(r.stage.budget, false):
		return "ok (busy)"
	}
	return "ok"
}

func (r result) busy() bool { return busy(r.others, r.known, r.load, r.cores) }

func (r result) ok() bool { return strings.HasPrefix(r.status(), "ok") }

// runner runs stages one after the other.
type runner struct {
	root string
	out  *printer
	// make runs a target of the Makefile; tests replace it.
	make func(ctx context.Context, target string) error
}

// run runs all stages and returns what came of each. A cancelled context ends
// the current stage and leaves the rest out.
func (r *runner) run(ctx context.Context, list []stage) []result {
	var results []result
	for i, s := range list {
		if ctx.Err() != nil {
			break
		}
		fmt.Fprintf(r.out, "\n=== %d of %d: %s (make %s, budget %.0f s)\n", i+1, len(list), s.name, s.target, s.budget.Seconds())
		r.out.forget()
		began := usageNow()
		stop := r.out.watch(func() string {
			return fmt.Sprintf("    %s: %.0f s, running %s", s.name, time.Since(began.at).Seconds(), working(os.Getpid()))
		})
		err := r.make(ctx, s.target)
		stop()
		ended := usageNow()
		x := result{stage: s, took: ended.at.Sub(began.at), load: loadAverage(), cores: cores(), err: err}
		x.others, x.known = others(began, ended)
		if err != nil {
			x.said = r.out.kept()
		}
		results = append(results, x)
		fmt.Fprintf(r.out, "--- %s: %s in %.0f s\n", s.name, x.status(), x.took.Seconds())
	}
	return results
}

// report prints what stages said that failed, so that it stands at the end, then the
// table that closes a suite, and says whether all is well.
func report(out io.Writer, results []result, planned int) error {
	const row = "%-32s %8s %8s %8s %8s  %s\n"
	for _, r := range results {
		if r.err != nil {
			fmt.Fprintf(out, "\n=== %s failed (%v); the end of its output:\n%s\n", r.stage.name, r.err, strings.TrimRight(r.said, "\n"))
		}
	}
	fmt.Fprintf(out, "\n"+row, "stage", "seconds", "budget", "load", "others", "status")
	var failed []string
	var took, budget time.Duration
	for _, r := range results {
		other := "?"
		if r.known {
			other = fmt.Sprintf("%.1f", r.others)
		}
		fmt.Fprintf(out, row, r.stage.name, seconds(r.took), seconds(r.stage.budget), fmt.Sprintf("%.1f", r.load), other, r.status())
		took, budget = took+r.took, budget+r.stage.budget
		if !r.ok() {
			failed = append(failed, r.stage.name)
		}
	}
	fmt.Fprintf(out, row, "all", seconds(took), seconds(budget), "", "", fmt.Sprintf("%d of %d ok", len(results)-len(failed), planned))
	fmt.Fprintf(out, "budgets are seconds on two quiet cores; a stage fails at %.1f times its budget, at %.0f times when others use more than %.0f %% of the %d cores\n",
		quietFactor, busyFactor, 100*busyShareMin, cores())
	switch {
	case len(failed) > 0:
		return fmt.Errorf("failed: %s", strings.Join(failed, ", "))
	case len(results) < planned:
		return fmt.Errorf("interrupted after %d of %d stages", len(results), planned)
	}
	return nil
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.0f", d.Seconds()) }
