package pin

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/tonnage/tonnage/internal/topology"
)

func to(cpu int) (release func(), err error) {
	if cpu < 0 || cpu > topology.NumberMax {
		return nil, fmt.Errorf("pin: there is no CPU %d, only 0 to %d", cpu, topology.NumberMax)
	}
	runtime.LockOSThread()
	was, one := unix.NewCPUSet(topology.NumberMax+1), unix.NewCPUSet(topology.NumberMax+1)
	one.Set(cpu)
	err = unix.SchedGetaffinityDynamic(0, was)
	if err == nil {
		err = unix.SchedSetaffinityDynamic(0, one)
	}
	if err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("pin: CPU %d: %w; it must be online and in the process's mask (taskset -p PID shows it)", cpu, err)
	}
	released := false
	return func() {
		if released {
			return
		}
		released = true
		// A thread that keeps the narrow mask stays locked and ends with its goroutine.
		if unix.SchedSetaffinityDynamic(0, was) == nil {
			runtime.UnlockOSThread()
		}
	}, nil
}

// lowestPriority is the nice value of what runs when nothing else does.
const lowestPriority = 19

// lowerPriority gives the calling thread the lowest priority, which every process may do.
func lowerPriority() { _ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), lowestPriority) }
