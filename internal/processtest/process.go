package processtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	// logShownBytes is how much of a process's output is logged when its test has
	// failed.
	logShownBytes = 16 << 10
	// stopMax is how long a process may take to end after SIGTERM.
	stopMax = 20 * time.Second
	// eventuallyEvery is how often [Eventually] looks.
	eventuallyEvery = 50 * time.Millisecond
)

// Process is one command of the binary. It can be killed and started again.
type Process struct {
	t       testing.TB
	args    []string
	env     []string // beside that of this process
	under   []string // a command that runs it
	metrics string   // host:port of its HTTP endpoints; "" = none

	output buffer
	cmd    *exec.Cmd
	ended  chan error
}

// Start runs a command until the test is over. [Process.Get] and
// [Process.Metric] read the address that --metrics-addr=HOST:PORT, or --listen of
// the command "up", names.
func Start(t testing.TB, args ...string) *Process {
	t.Helper()
	p := New(t, args...)
	p.Start()
	return p
}

// New is [Start] without starting the process.
func New(t testing.TB, args ...string) *Process {
	t.Helper()
	flag := "--metrics-addr="
	if args[0] == "up" {
		flag = "--listen="
	}
	p := &Process{t: t, args: args}
	for _, a := range args {
		if at, ok := strings.CutPrefix(a, flag); ok && at != "0" {
			p.metrics = at
		}
	}
	t.Cleanup(func() {
		_ = p.Stop() // a test that minds how it ends calls Stop itself
		text := p.Log()
		if strings.Contains(text, "DATA RACE") {
			t.Errorf("%s has a data race", args[0])
		}
		if t.Failed() {
			t.Logf("the end of the output of %s:\n%s", strings.Join(args, " "), text[max(0, len(text)-logShownBytes):])
		}
	})
	return p
}

// Setenv adds a variable, such as NAME=VALUE, to the environment of the process from its next
// start on.
func (p *Process) Setenv(variable string) { p.env = append(p.env, variable) }

// Under has the process run by a command from its next start on, such as a tracer that stays
// behind it; by none without one.
func (p *Process) Under(command ...string) { p.under = command }

// Start starts the process; it must not be running.
func (p *Process) Start() {
	p.t.Helper()
	command := slices.Concat(p.under, []string{Binary(p.t)}, p.args)
	p.cmd = exec.Command(command[0], command[1:]...)
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Env = &p.output, &p.output, append(environment(), p.env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.ended = make(chan error, 1)
	go func(cmd *exec.Cmd, ended chan error) { ended <- cmd.Wait() }(p.cmd, p.ended)
}

// environment is that of this process without proxies.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(strings.ToLower(v), "=")
		return strings.HasSuffix(name, "_proxy")
	})
}

// Kill ends the process with SIGKILL, as a power cut would.
func (p *Process) Kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	_ = p.cmd.Process.Kill()
	p.ended <- <-p.ended
}

// Restart kills and starts the process.
func (p *Process) Restart() {
	p.t.Helper()
	p.Kill()
	p.Start()
}

// Stop ends the process with SIGTERM and returns how it ended. A process that
// does not end within 20 s is killed, and the error says so.
func (p *Process) Stop() error {
	if p.cmd == nil {
		return nil
	}
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-p.ended:
		p.ended <- err
		return err
	case <-time.After(stopMax):
		p.Kill()
		return fmt.Errorf("%s does not end within %v", p.args[0], stopMax)
	}
}

// Ended reports whether the process has ended by itself or was ended.
func (p *Process) Ended() bool {
	select {
	case err := <-p.ended:
		p.ended <- err
		return true
	default:
		return false
	}
}

// Signal sends a signal, as SIGSTOP and SIGCONT.
func (p *Process) Signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// PID returns the number of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Log returns what the process, and those before it, have printed.
func (p *Process) Log() string { return p.output.String() }

// PeakBytes returns the most memory that was resident since the process began
// or [Process.ResetPeak] was called (VmHWM).
func (p *Process) PeakBytes() int64 { return p.status("VmHWM") }

// ResidentBytes returns how much memory is resident (VmRSS).
func (p *Process) ResidentBytes() int64 { return p.status("VmRSS") }

// ResetPeak makes PeakBytes begin with what is resident now (proc(5), clear_refs).
func (p *Process) ResetPeak() {
	p.t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.PID()), []byte("5"), 0); err != nil {
		p.t.Fatal(err)
	}
}

func (p *Process) status(field string) int64 {
	p.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		p.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		value, ok := strings.CutPrefix(line, field+":")
		if !ok {
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			p.t.Fatal(err)
		}
		return kib << 10
	}
	p.t.Fatalf("%s has no %s", p.args[0], field)
	return 0
}

// Run runs a command to its end and returns its exit code and what it printed.
// It is killed after a minute.
func Run(t testing.TB, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, Binary(t), args...)
	var out, faults bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Env = &out, &faults, environment()
	if err := cmd.Run(); err != nil {
		if _, ok := errors.AsType[*exec.ExitError](err); !ok || ctx.Err() != nil {
			t.Fatalf("%s: %v: %s", strings.Join(args, " "), err, faults.String())
		}
	}
	return cmd.ProcessState.ExitCode(), out.String(), faults.String()
}

// Eventually waits until done returns true, and returns how long that took. The
// test ends when it is not so within the limit.
func Eventually(t testing.TB, limit time.Duration, what string, done func() bool) time.Duration {
	t.Helper()
	start := time.Now()
	tick := time.NewTicker(eventuallyEvery)
	defer tick.Stop()
	for !done() {
		if time.Since(start) > limit {
			t.Fatalf("not within %v: %s", limit, what)
		}
		<-tick.C
	}
	return time.Since(start)
}

// buffer is output that is read while it is written.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
