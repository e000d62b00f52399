package pin

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tonnage/tonnage/internal/topology"
)

// where returns the CPU and the node that the calling thread runs on.
func where(t *testing.T) (cpu, node int) {
	t.Helper()
	var c, n uint32
	if _, _, errno := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&c)), uintptr(unsafe.Pointer(&n)), 0); errno != 0 {
		t.Fatalf("getcpu: %v", errno)
	}
	return int(c), int(n)
}

// mask returns the CPUs that a thread of this process may run on, "" when it
// has ended.
func mask(thread int) string {
	status, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/status", thread))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(status), "Cpus_allowed_list:\t")
	list, _, _ := strings.Cut(rest, "\n")
	return list
}

func host(t *testing.T) *topology.Topology {
	t.Helper()
	m, err := topology.Host()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestWorkersRunWhereTheyBelong starts a worker for every place of the machine
// and lets each look where it is, again and again while all of them work.
func TestWorkersRunWhereTheyBelong(t *testing.T) {
	m := host(t)
	nodeOf := map[int]int{}
	for _, c := range m.CPUs {
		nodeOf[c.ID] = c.Node
	}
	places := m.Workers(m.Width())
	hook := Hook(places, func(worker int, err error) { t.Errorf("worker %d: %v", worker, err) })
	var ready, done sync.WaitGroup
	ready.Add(len(places))
	for worker, p := range places {
		done.Go(func() {
			hook(worker)
			ready.Done()
			ready.Wait()
			for range 1000 {
				if cpu, node := where(t); cpu != p.CPU || node != nodeOf[cpu] {
					t.Errorf("worker %d runs on CPU %d of node %d, its place is %v", worker, cpu, node, p)
					return
				}
				runtime.Gosched()
			}
		})
	}
	done.Wait()
}

// TestThreadEndsWithItsWorker: a thread with a narrow mask must serve nobody
// else, nor may a thread that was started meanwhile have it.
func TestThreadEndsWithItsWorker(t *testing.T) {
	m := host(t)
	if len(m.CPUs) < 2 {
		t.Skip("a second CPU is needed to tell a narrow mask from the process's own")
	}
	threads, end := make(chan int), make(chan struct{})
	defer close(end)
	work := func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() { // the first thread does not end; keep it from the next attempt
			threads <- 0
			<-end
			runtime.UnlockOSThread()
			return
		}
		Hook(m.Workers(1), nil)(0)
		var wg sync.WaitGroup
		for range 4 { // threads that start while a pinned one is around
			wg.Go(func() { runtime.LockOSThread(); _ = mask(unix.Gettid()); runtime.UnlockOSThread() })
		}
		wg.Wait()
		threads <- unix.Gettid()
	}
	thread := 0
	for thread == 0 {
		go work()
		thread = <-threads
	}
	for deadline := time.Now().Add(20 * time.Second); mask(thread) != ""; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("the worker has ended, its thread %d has not", thread)
		}
	}
	narrow := fmt.Sprint(m.CPUs[0].ID)
	tasks, err := filepath.Glob("/proc/self/task/*")
	if err != nil || len(tasks) == 0 {
		t.Fatalf("threads: %v, %v", tasks, err)
	}
	for _, task := range tasks {
		var other int
		_, err := fmt.Sscan(filepath.Base(task), &other)
		if err == nil && other != unix.Getpid() && mask(other) == narrow {
			t.Errorf("thread %d may run on CPU %s only", other, narrow)
		}
	}
}

func TestReleaseGivesTheMaskBack(t *testing.T) {
	runtime.LockOSThread() // to look at the same thread afterwards
	defer runtime.UnlockOSThread()
	before := mask(unix.Gettid())
	m := host(t)
	last := m.CPUs[len(m.CPUs)-1]
	release, err := To(topology.Place{CPU: last.ID, Node: last.Node})
	if err != nil {
		t.Fatal(err)
	}
	if got := mask(unix.Gettid()); got != fmt.Sprint(last.ID) {
		t.Errorf("pinned to CPU %d, the mask is %s", last.ID, got)
	}
	release()
	release() // again
	if got := mask(unix.Gettid()); got != before {
		t.Errorf("released, the mask is %s, was %s", got, before)
	}
}

func TestRefusals(t *testing.T) {
	for _, cpu := range []int{topology.NumberMax, topology.NumberMax + 1, -2} {
		release, err := To(topology.Place{CPU: cpu, Node: topology.AnyNode})
		if err == nil || release != nil || !strings.Contains(err.Error(), fmt.Sprintf("CPU %d", cpu)) {
			t.Errorf("CPU %d: %v", cpu, err)
		}
	}
	if _, err := To(topology.Place{CPU: topology.NumberMax}); !errors.Is(err, unix.EINVAL) {
		t.Errorf("a CPU that is not there: %v", err)
	}
	var told []int
	hook := Hook([]topology.Place{{CPU: topology.NoCPU}, {CPU: topology.NumberMax}}, func(worker int, _ error) { told = append(told, worker) })
	for worker := -1; worker < 4; worker++ {
		hook(worker)
	}
	if len(told) != 1 || told[0] != 1 {
		t.Errorf("workers %v were told of a refusal, want 1 only", told)
	}
	Hook([]topology.Place{{CPU: topology.NumberMax}}, nil)(0)
}

func BenchmarkWake(b *testing.B) {
	for _, pinned := range []bool{false, true} {
		b.Run(fmt.Sprintf("pinned=%v", pinned), func(b *testing.B) {
			m, err := topology.Host()
			if err != nil {
				b.Fatal(err)
			}
			ask, answer := make(chan struct{}), make(chan struct{})
			go func() {
				if pinned {
					Hook(m.Workers(1), nil)(0)
				}
				for range ask {
					answer <- struct{}{}
				}
			}()
			for b.Loop() {
				ask <- struct{}{}
				<-answer
			}
			close(ask)
		})
	}
}

// TestWorkAsideHasTheLowestPriority, and its thread serves nobody afterwards.
func TestWorkAsideHasTheLowestPriority(t *testing.T) {
	const kernelBase = 20 // the system call returns 20 − nice
	var during int
	var err error
	Aside(func() { during, err = unix.Getpriority(unix.PRIO_PROCESS, unix.Gettid()) })
	if err != nil || kernelBase-during != 19 {
		t.Errorf("aside the nice value is %d (%v), want 19", kernelBase-during, err)
	}
	for range 100 {
		done := make(chan int)
		go func() {
			now, _ := unix.Getpriority(unix.PRIO_PROCESS, unix.Gettid())
			done <- kernelBase - now
		}()
		if nice, own := <-done, ownNice(t); nice != own {
			t.Fatalf("afterwards a goroutine has the nice value %d, want the process's %d", nice, own)
		}
	}
}

func ownNice(t *testing.T) int {
	t.Helper()
	now, err := unix.Getpriority(unix.PRIO_PROCESS, os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	return 20 - now
}

func TestAPanicAsideIsTheCallers(t *testing.T) {
	defer func() {
		if r := recover(); r != "mine" {
			t.Errorf("recovered %v", r)
		}
	}()
	Aside(func() { panic("mine") })
}
