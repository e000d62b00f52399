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
	"strconv"
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

// workedMillisMin is more than a worker works that is tied and never woken: that is 0.
const workedMillisMin = 20

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
	// working says that each of these CPUs must be seen at work for a thread that
	// is tied to it.
	working []int
}

// result is what came of a step; it is printed as JSON.
type result struct {
	Step   string `json:"step"`
	OK     bool   `json:"ok"`
	Millis int64  `json:"millis"`
	// Pinned are the CPUs that single threads were seen tied to, RanOn those
	// that threads ran on.
	Pinned []int `json:"pinned"`
	RanOn  []int `json:"ranOn"`
	// Worked is, by CPU, for how long the thread tied to it that worked most was
	// seen to have worked.
	Worked [cpus]int64 `json:"workedMillis"`
	Fault  string      `json:"fault,omitempty"`
}

var steps = []step{
	{Name: "topology", argv: []string{"/bin/topology.test", "-test.v", "-test.run=Host|Large|Place"}, want: []string{"node0: 0 1; node1: 2 3"}},
	{Name: "pin", argv: []string{"/bin/pin.test", "-test.v"}, pinned: true},
	{Name: "alloc", argv: []string{"/bin/alloc.test", "-test.v", "-test.run=Node|Mapped|Dropped|Close|Reserve|Overlap"}, want: []string{"nodes [0 1]"}},
	{Name: "alloc with checks", argv: []string{"/bin/alloc-invariants.test", "-test.v", "-test.run=Node|Guard|Behind"}, want: []string{"nodes [0 1]"}},
	{Name: "placement", argv: []string{"/bin/engine.test", "-test.v", "-test.run=Nodes|Arenas"}, want: []string{"arenas of workers lie on nodes [-1 1 0 1]"}, pinned: true},
	{Name: "equality", argv: []string{"/bin/engine.test", "-test.v", "-test.run=EqualsReference", "-fleets=40"}},
	// In order, workers of a fleet this small would not be woken.
	{Name: "verified", argv: bench("tiny", "--verify"), want: []string{`"verified":"reference"`}, pinned: true},
	// The kernel hands on what it does not know of its command line: what to measure,
	// and the checksum that the host has come to by one worker.
	{Name: "bench", argv: bench(os.Getenv("NUMA_RUNG")), want: []string{fmt.Sprintf(`"workers":%d`, cpus), fmt.Sprintf(`"planChecksum":%q`, os.Getenv("NUMA_CHECKSUM"))},
		pinned: true, working: []int{1, 2, 3}},
}

// bench is the command that measures a rung, with a worker for each CPU.
func bench(rung string, more ...string) []string {
	return append([]string{"/bin/tonnage", "bench", "--rung", rung, "--cycles", "10", "--workers", fmt.Sprint(cpus), "--pin", "-o", "json"}, more...)
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
		watched(&r)
	}
	r.Millis = time.Since(began).Milliseconds()
	if fault := s.judge(out.String(), &r, err); fault != "" {
		r.Fault = fault
		return r
	}
	r.OK = true
	return r
}

func (s *step) judge(out string, r *result, err error) string {
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
	if s.pinned && (!slices.ContainsFunc(r.Pinned, func(cpu int) bool { return cpu < cpus/nodes }) ||
		!slices.ContainsFunc(r.Pinned, func(cpu int) bool { return cpu >= cpus/nodes })) {
		return fmt.Sprintf("threads were seen tied to CPUs %v only", r.Pinned)
	}
	for _, cpu := range s.working {
		if r.Worked[cpu] < workedMillisMin {
			return fmt.Sprintf("the thread tied to CPU %d worked for %d ms, at least %d would show that it is woken", cpu, r.Worked[cpu], workedMillisMin)
		}
	}
	return ""
}

// sight is what was seen of the threads of a process.
type sight struct {
	pinned, ranOn [cpus]bool
	worked        [cpus]int64   // milliseconds
	before        map[int]int64 // by thread that is tied: milliseconds that it had worked by then
}

// watch looks at the threads of a process until the returned function is
// called, which notes what was seen.
func watch(pid int) (stop func(*result)) {
	const every = 5 * time.Millisecond
	seen := sight{before: map[int]int64{}}
	end, wg := make(chan struct{}), sync.WaitGroup{}
	wg.Go(func() {
		for {
			seen.look(pid)
			select {
			case <-end:
				return
			case <-time.After(every):
			}
		}
	})
	return func(r *result) {
		close(end)
		wg.Wait()
		for cpu := range cpus {
			if seen.pinned[cpu] {
				r.Pinned = append(r.Pinned, cpu)
			}
			if seen.ranOn[cpu] {
				r.RanOn = append(r.RanOn, cpu)
			}
		}
		r.Worked = seen.worked
	}
}

// Fields of a thread's stat, counted from the third, which is the first behind the
// name in parentheses. Times are in ticks of ten milliseconds, whatever the kernel's.
const (
	statUser, statSystem, statCPU = 11, 12, 36

	tickMillis = 10
)

// look notes the masks, the CPUs and the work of all threads of a process.
func (s *sight) look(pid int) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid)) // the pattern is sound
	for _, task := range tasks {
		status, err1 := os.ReadFile(task + "/status")
		stat, err2 := os.ReadFile(task + "/stat")
		thread, err3 := strconv.Atoi(filepath.Base(task))
		_, rest, _ := strings.Cut(string(stat), ") ")
		f := strings.Fields(rest)
		if err1 != nil || err2 != nil || err3 != nil || len(f) <= statCPU {
			continue // the thread has ended
		}
		if cpu, err := strconv.Atoi(f[statCPU]); err == nil && cpu < cpus {
			s.ranOn[cpu] = true
		}
		user, _ := strconv.ParseInt(f[statUser], 10, 64) // the kernel writes numbers
		system, _ := strconv.ParseInt(f[statSystem], 10, 64)
		millis := (user + system) * tickMillis
		for cpu := range cpus {
			if !strings.Contains(string(status), fmt.Sprintf("\nCpus_allowed_list:\t%d\n", cpu)) {
				continue
			}
			s.pinned[cpu] = true
			if _, known := s.before[thread]; !known {
				s.before[thread] = millis
			}
			s.worked[cpu] = max(s.worked[cpu], millis-s.before[thread])
		}
	}
}
