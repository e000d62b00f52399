package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// ticksPerSecond is the unit of /proc/stat, USER_HZ, which is 100 on every
	// platform that Go supports.
	ticksPerSecond = 100
	// busyShareMin is the share of all cores that others use on a busy machine.
	busyShareMin = 0.25

	quietFactor = 1.5 // times its budget that a stage may take
	busyFactor  = 3.0 // the same on a busy machine
	// slack is what every stage may take beyond its budget: a short stage is not
	// failed by a slow start.
	slack = 15 * time.Second
)

// usage is the processor time used up to a moment.
type usage struct {
	at    time.Time
	all   time.Duration // by everything on the machine; 0 = not known
	ours  time.Duration // by this process and its ended descendants
	valid bool
}

// usageNow reads the counters of the kernel.
func usageNow() usage {
	u := usage{at: time.Now()}
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return u
	}
	if u.all, err = processorTime(string(text)); err != nil {
		return u
	}
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var r syscall.Rusage
		if err := syscall.Getrusage(who, &r); err != nil {
			return u
		}
		u.ours += time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	u.valid = true
	return u
}

// processorTime is the time that all processors were not idle, by /proc/stat:
// user, nice, system, irq, softirq and steal. Time of guests is part of user.
func processorTime(stat string) (time.Duration, error) {
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, fmt.Errorf("/proc/stat begins with %q, not with the sum of all processors", line)
	}
	var ticks int64
	for _, i := range []int{1, 2, 3, 6, 7, 8} {
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/stat: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond, nil
}

// others is how many cores processes other than ours used on average between two
// moments; false when it is not known.
func others(from, to usage) (float64, bool) {
	wall := to.at.Sub(from.at)
	if !from.valid || !to.valid || wall <= 0 {
		return 0, false
	}
	used := (to.all - from.all) - (to.ours - from.ours)
	return max(0, used.Seconds()/wall.Seconds()), true
}

// loadAverage is the load average of the last minute; 0 when it cannot be read.
func loadAverage() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), " ")
	load, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0
	}
	return load
}

// busy says whether others used so much of the machine that a stage may take
// longer.
func busy(othersCores float64, known bool, load float64, cores int) bool {
	if !known {
		return load > float64(cores)*(1+busyShareMin)
	}
	return othersCores > busyShareMin*float64(cores)
}

// allowed is how long a stage may take.
func allowed(budget time.Duration, isBusy bool) time.Duration {
	factor := quietFactor
	if isBusy {
		factor = busyFactor
	}
	return max(time.Duration(factor*float64(budget)), budget+slack)
}

func cores() int { return runtime.NumCPU() }
