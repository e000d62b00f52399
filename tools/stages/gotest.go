package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"time"
)

const (
	// lineBytesMax bounds one line of output of go test, which is one event.
	lineBytesMax = 16 << 20
	// failuresMax is how many failures the end of the output repeats.
	failuresMax = 8
	// slowestMax is how many packages the summary names.
	slowestMax = 5
)

// event is what go test -json prints on a line; see go doc test2json.
type event struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64
}

// tally follows a go test: what it prints, as go test itself without -v would
// print it, and what is done and running.
type tally struct {
	out      io.Writer
	packages int // in all; 0 = not known
	began    time.Time

	running map[string]time.Time // packages
	output  map[string]map[string]*bytes.Buffer
	took    map[string]float64 // seconds, of packages that have ended
	counts  struct{ passed, failed, without, tests, subtests, failedTests, skipped int }
	skips   map[string]int // reasons
	// failures are the ends of what failed tests said, and packages without one.
	failures []string
	failing  map[string]bool          // packages with a failed test
	built    map[string]*bytes.Buffer // what the compiler said, by what it compiled
}

func newTally(out io.Writer, packages int) *tally {
	return &tally{out: out, packages: packages, began: time.Now(), running: map[string]time.Time{},
		output: map[string]map[string]*bytes.Buffer{}, took: map[string]float64{}, skips: map[string]int{}, built: map[string]*bytes.Buffer{}, failing: map[string]bool{}}
}

// line takes one line of go test -json. What is no event is printed as it is.
func (t *tally) line(text []byte) {
	var e event
	if len(text) == 0 || text[0] != '{' || json.Unmarshal(text, &e) != nil {
		fmt.Fprintf(t.out, "%s\n", text)
		return
	}
	switch {
	case e.Action == "build-output":
		_, _ = io.WriteString(t.out, e.Output)
		if t.built[e.ImportPath] == nil {
			t.built[e.ImportPath] = &bytes.Buffer{}
		}
		t.built[e.ImportPath].WriteString(e.Output)
	case e.Action == "build-fail":
		if said := t.built[e.ImportPath]; said != nil {
			t.failures = append(t.failures, string(endOf(said.Bytes())))
		}
	case e.Action == "start":
		t.running[e.Package] = time.Now()
	case e.Action == "output" && strings.HasPrefix(e.Output, "=== "): // of go test -v
	case e.Action == "output":
		t.buffer(e.Package, e.Test).WriteString(e.Output)
	case e.Test != "":
		t.testEnds(e)
	case e.Action == "pass" || e.Action == "fail" || e.Action == "skip":
		t.packageEnds(e)
	}
}

func (t *tally) buffer(pkg, test string) *bytes.Buffer {
	of := t.output[pkg]
	if of == nil {
		of = map[string]*bytes.Buffer{}
		t.output[pkg] = of
	}
	if of[test] == nil {
		of[test] = &bytes.Buffer{}
	}
	return of[test]
}

func (t *tally) testEnds(e event) {
	top := !strings.Contains(e.Test, "/")
	switch e.Action {
	case "pass":
		if top {
			t.counts.tests++
		} else {
			t.counts.subtests++
		}
	case "skip":
		t.counts.skipped++
		t.skips[reason(t.buffer(e.Package, e.Test).String())]++
	case "fail":
		if top {
			t.counts.failedTests++
		}
		said := t.buffer(e.Package, e.Test).Bytes()
		_, _ = t.out.Write(said)
		t.failures = append(t.failures, e.Package+"\n"+string(endOf(said)))
		t.failing[e.Package] = true
	default:
		return // it goes on
	}
	delete(t.output[e.Package], e.Test)
}

// packageEnds prints the package's closing line, or all that a failed one said.
func (t *tally) packageEnds(e event) {
	delete(t.running, e.Package)
	t.took[e.Package] = e.Elapsed
	own := t.buffer(e.Package, "").String()
	switch e.Action {
	case "pass":
		t.counts.passed++
		fmt.Fprintln(t.out, last(own))
	case "skip":
		t.counts.without++
		fmt.Fprintln(t.out, last(own))
	case "fail":
		t.counts.failed++
		said := ""
		for _, test := range slices.Sorted(maps.Keys(t.output[e.Package])) {
			if test != "" { // it did not end
				said += t.output[e.Package][test].String()
			}
		}
		said += own
		_, _ = io.WriteString(t.out, said)
		if !t.failing[e.Package] {
			t.failures = append(t.failures, string(endOf([]byte(said))))
		}
	}
	delete(t.output, e.Package)
}

// last is the last line of a text.
func last(text string) string {
	text = strings.TrimRight(text, "\n")
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// reason is what a skipped test said: the last line that is not go test's own,
// without the place in the file.
func reason(output string) string {
	lines := strings.Split(strings.TrimRight(output, "\n"), "\n")
	for _, line := range slices.Backward(lines) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "---") || strings.HasPrefix(line, "===") {
			continue
		}
		if _, said, found := strings.Cut(line, ": "); found {
			return said
		}
		return line
	}
	return "no reason given"
}

// progress is the line that is printed when nothing else is. compiled says what
// the go command does while no package is tested.
func (t *tally) progress(compiled string) string {
	done := t.counts.passed + t.counts.failed + t.counts.without
	line := fmt.Sprintf("    %.0f s, %d of %d packages done", time.Since(t.began).Seconds(), done, t.packages)
	if names := slices.Sorted(maps.Keys(t.running)); len(names) > 0 {
		for i, name := range names {
			names[i] = short(name)
		}
		line += ", testing " + some(names)
	}
	if compiled != "" {
		line += "; running " + compiled
	}
	return line
}

// short is a package's path within the module.
func short(pkg string) string {
	return strings.TrimPrefix(pkg, "github.com/tonnage/tonnage/")
}

// summary prints what came of all, and at its end once more what failed.
func (t *tally) summary() {
	c := t.counts
	for _, why := range slices.Sorted(maps.Keys(t.skips)) {
		fmt.Fprintf(t.out, "skipped %d: %s\n", t.skips[why], why)
	}
	names := slices.SortedFunc(maps.Keys(t.took), func(a, b string) int {
		switch {
		case t.took[a] > t.took[b]:
			return -1
		case t.took[a] < t.took[b]:
			return 1
		}
		return strings.Compare(a, b)
	})
	names = names[:min(len(names), slowestMax)]
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %.0f s", short(name), t.took[name])
	}
	fmt.Fprintf(t.out, "slowest packages: %s\n", strings.Join(names, ", "))
	fmt.Fprintf(t.out, "%d packages passed, %d failed, %d have no tests; %d tests and %d subtests passed, %d failed, %d skipped; %.0f s\n",
		c.passed, c.failed, c.without, c.tests, c.subtests, c.failedTests, c.skipped, time.Since(t.began).Seconds())
	if len(t.failures) == 0 {
		return
	}
	fmt.Fprintln(t.out, "what failed, once more:")
	for _, said := range t.failures[:min(len(t.failures), failuresMax)] {
		fmt.Fprintln(t.out, strings.TrimRight(said, "\n"))
	}
	if more := len(t.failures) - failuresMax; more > 0 {
		fmt.Fprintf(t.out, "and %d more\n", more)
	}
}

// goTest runs go test with more arguments and shows how it advances.
func goTest(ctx context.Context, root string, out *printer, args []string) error {
	stop := out.watch(func() string { return "    the go command lists the packages" })
	d, args := divisionOf(args)
	packages, left := packagesOf(ctx, root, args), 0
	shown := strings.Join(args, " ")
	if d.library != "" {
		all := len(packages)
		var err error
		if packages, err = d.choose(ctx, root, packages); err != nil {
			stop()
			return err
		}
		left = all - len(packages)
	}
	if len(packages) > 0 {
		packages = ordered(packages)
		args = append(flagsOf(args), packages...)
	}
	stop()
	fmt.Fprintf(out, "go test %s: %d packages\n", shown, len(packages))
	if left > 0 {
		fmt.Fprintf(out, "%d more packages %s %s and are left out\n", left, d.leaves(), d.library)
	}
	t := newTally(out, len(packages))
	read, write := io.Pipe()
	cmd := command(ctx, root, out, append([]string{"go", "test", "-json"}, args...)...)
	cmd.Stdout = write
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		write.Close()
		ended <- err
	}()
	// The tally is used by this goroutine only: lines come in by a channel.
	lines, failed := scan(read)
	tock := time.NewTicker(tick)
	defer tock.Stop()
	for open := true; open; {
		select {
		case line, more := <-lines:
			if open = more; open {
				t.line(line)
			}
		case now := <-tock.C:
			out.progress(now, func() string { return t.progress(working(cmd.Process.Pid)) })
		}
	}
	t.summary()
	return errors.Join(<-ended, <-failed, t.err())
}

// err is that of tests that failed; go test says so too, in other words.
func (t *tally) err() error {
	if t.counts.failed == 0 {
		return nil
	}
	return fmt.Errorf("%d packages failed", t.counts.failed)
}

// scan reads lines until the end. The error comes when the lines have ended.
func scan(from io.Reader) (lines <-chan []byte, failed <-chan error) {
	l, f := make(chan []byte), make(chan error, 1)
	go func() {
		defer close(l)
		s := bufio.NewScanner(from)
		s.Buffer(nil, lineBytesMax)
		for s.Scan() {
			l <- bytes.Clone(s.Bytes())
		}
		f <- s.Err()
		_, _ = io.Copy(io.Discard, from) // so that go test does not wait
	}()
	return l, f
}

// packagesOf lists the packages that the arguments name, in order; none when go list
// does not say. Arguments behind the first flag with a value may be taken for
// packages, so only patterns that begin with "./" count.
func packagesOf(ctx context.Context, root string, args []string) []string {
	list := []string{"-find"} // their imports are not looked for
	for _, a := range args {
		if isPattern(a) {
			list = append(list, a)
		}
	}
	text, err := goList(ctx, root, list)
	if err != nil {
		return nil
	}
	return strings.Fields(text)
}

func isPattern(arg string) bool { return strings.HasPrefix(arg, "./") }

// flagsOf are the arguments of go test that are no packages.
func flagsOf(args []string) []string { return slices.DeleteFunc(slices.Clone(args), isPattern) }

func goList(ctx context.Context, root string, args []string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"list"}, args...)...)
	cmd.Dir = root
	text, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("go list: %w\n%s", err, exit.Stderr)
	}
	return string(text), err
}
