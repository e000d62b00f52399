// Command guest is the first process of a virtual machine with two sockets, one
// node of memory each. It runs what make test-numa put beside it, prints what
// came of each step on a line that begins with "numa: ", and switches the
// machine off. tools/numa/run builds the machine and reads the lines.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tonnage/tonnage/internal/topology"
)

// machine is what tools/numa/run builds; a plan for it, four workers on both
// nodes, is part of what is tested.
const (
	cpus   = 4
	nodes  = 2
	places = "[{0 0} {2 1} {1 0} {3 1}]"
)

// step is one command. It fails when the command does, when a test of it is
// skipped (everything that tests look for is here), and when its output lacks
// what is wanted.
type step struct {
	Name string
	argv []string
	want []string
	// pinned says that threads of the command must be seen tied to CPUs of both
	// nodes.
	pinned bool
}

// result is what came of a step; it is printed as JSON.
type result struct {
	Step   string `json:"step"`
	OK     bool   `json:"ok"`
	Millis int64  `json:"millis"`
	// Pinned are the CPUs that single threads were seen tied to, RanOn those
	// that threads ran on.
	Pinned []int  `json:"pinned"`
	RanOn  []int  `json:"ranOn"`
	Fault  string `json:"fault,omitempty"`
}

var steps = []step{
	{Name: "topology", argv: []string{"/bin/topology.test", "-test.v", "-test.run=Host|Large|Place"}, want: []string{"node0: 0 1; node1: 2 3"}},
	{Name: "pin", argv: []string{"/bin/pin.test", "-test.v"}, pinned: true},
	{Name: "alloc", argv: []string{"/bin/alloc.test", "-test.v", "-test.run=Node|Mapped|Dropped|Close|Reserve|Overlap"}, want: []string{"nodes [0 1]"}},
	{Name: "alloc with checks", argv: []string{"/bin/alloc-invariants.test", "-test.v", "-test.run=Node|Guard|Behind"}, want: []string{"nodes [0 1]"}},
	{Name: "equality", argv: []string{"/bin/engine.test", "-test.v", "-test.run=EqualsReference", "-fleets=40"}},
	// The kernel hands on what it does not know of its command line.
	// Racing, since workers of a fleet this small are woken for nothing else.
	{Name: "bench", argv: []string{"/bin/tonnage", "bench", "--rung", os.Getenv("NUMA_RUNG"), "--cycles", "3", "--workers", fmt.Sprint(cpus), "--pin", "--acquire", "race", "--verify", "-o", "json"},
		want: []string{`"verified":"reference"`, fmt.Sprintf(`"workers":%d`, cpus)}, pinned: true},
}

func main() {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "guest is the first process of a virtual machine; make test-numa starts it there")
		os.Exit(2)
	}
	failed := 0
	if err := prepare(); err != nil {
		say("machine", result{Step: "machine", Fault: err.Error()})
		failed++
	} else {
		for _, s := range steps {
			r := s.run()
			say("step", r)
			if !r.OK {
				failed++
			}
		}
	}
	say("result", map[string]any{"ok": failed == 0, "nodes": nodes, "cpus": cpus, "steps": len(steps), "failed": failed})
	unix.Sync()
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF); err != nil {
		fmt.Println("numa: power off:", err)
	}
	select {} // the first process must not end
}

// say prints a line for the host.
func say(what string, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		text = []byte(err.Error())
	}
	fmt.Printf("numa: %s %s\n", what, text)
}

// prepare makes the machine one that tests can run on, and holds it to what it
// should be.
func prepare() error {
	for _, m := range []struct{ dir, kind string }{{"/proc", "proc"}, {"/sys", "sysfs"}, {"/dev", "devtmpfs"}, {"/tmp", "tmpfs"}} {
		if err := os.MkdirAll(m.dir, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.kind, m.dir, m.kind, 0, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m.dir, err)
		}
	}
	if err := os.Setenv("HOME", "/tmp"); err != nil {
		return err
	}
	m, err := topology.Host()
	if err != nil {
		return err
	}
	if len(m.CPUs) != cpus || len(m.Nodes) != nodes {
		return fmt.Errorf("%d CPUs on %d nodes, want %d on %d", len(m.CPUs), len(m.Nodes), cpus, nodes)
	}
	if got := fmt.Sprint(m.Workers(cpus)); got != places {
		return fmt.Errorf("workers go to %s, want %s", got, places)
	}
	return nil
}

// run runs the step, its output going to the console too.
func (s *step) run() result {
	r := result{Step: s.Name}
	fmt.Printf("numa: begin %s\n", s.Name)
	began := time.Now()
	var out bytes.Buffer
	cmd := exec.Command(s.argv[0], s.argv[1:]...)
	cmd.Stdout = io.MultiWriter(os.Stdout, &out)
	cmd.Stderr = cmd.Stdout
	err := cmd.Start()
	if err == nil {
		watched := watch(cmd.Process.Pid)
		err = cmd.Wait()
		r.Pinned, r.RanOn = watched()
	}
	r.Millis = time.Since(began).Milliseconds()
	if fault := s.judge(out.String(), r.Pinned, err); fault != "" {
		r.Fault = fault
		return r
	}
	r.OK = true
	return r
}

func (s *step) judge(out string, pinned []int, err error) string {
	if err != nil {
		return err.Error()
	}
	if _, skipped, found := strings.Cut(out, "--- SKIP: "); found {
		name, _, _ := strings.Cut(skipped, " ")
		return name + " was skipped, and nothing is missing here"
	}
	for _, want := range s.want {
		if !strings.Contains(out, want) {
			return fmt.Sprintf("the output lacks %q", want)
		}
	}
	if s.pinned && (!slices.ContainsFunc(pinned, func(cpu int) bool { return cpu < cpus/nodes }) ||
		!slices.ContainsFunc(pinned, func(cpu int) bool { return cpu >= cpus/nodes })) {
		return fmt.Sprintf("threads were seen tied to CPUs %v only", pinned)
	}
	return ""
}

// watch looks at the threads of a process until the returned function is
// called, which says which CPUs single threads were tied to, and which they ran
// on.
func watch(pid int) (stop func() (pinned, ranOn []int)) {
	const every = 5 * time.Millisecond
	var seen [2][cpus]bool
	end, wg := make(chan struct{}), sync.WaitGroup{}
	wg.Go(func() {
		for {
			look(pid, &seen[0], &seen[1])
			select {
			case <-end:
				return
			case <-time.After(every):
			}
		}
	})
	return func() (pinned, ranOn []int) {
		close(end)
		wg.Wait()
		for cpu := range cpus {
			if seen[0][cpu] {
				pinned = append(pinned, cpu)
			}
			if seen[1][cpu] {
				ranOn = append(ranOn, cpu)
			}
		}
		return pinned, ranOn
	}
}

// look notes the masks and the CPUs of all threads of a process.
func look(pid int, pinned, ranOn *[cpus]bool) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid)) // the pattern is sound
	for _, task := range tasks {
		status, err1 := os.ReadFile(task + "/status")
		stat, err2 := os.ReadFile(task + "/stat")
		if err1 != nil || err2 != nil {
			continue // the thread has ended
		}
		for cpu := range cpus {
			if strings.Contains(string(status), fmt.Sprintf("\nCpus_allowed_list:\t%d\n", cpu)) {
				pinned[cpu] = true
			}
		}
		// Behind the name, in parentheses, stand the fields from the third on; the 39th is the CPU.
		_, rest, _ := strings.Cut(string(stat), ") ")
		if f := strings.Fields(rest); len(f) > 36 && len(f[36]) == 1 && f[36][0]-'0' < cpus {
			ranOn[f[36][0]-'0'] = true
		}
	}
}
