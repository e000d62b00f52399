package attack_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tonnage/tonnage/internal/processtest"
)

// othersShareMax is how much of all processors others may use while times are judged.
// Beyond it a process that computes is kept waiting for many time slices, where one that
// seldom does is not: a ratio of the two then says what the machine does.
const othersShareMax = 0.25

// ticksPerSecond is the unit of processor time below /proc, the same on every Linux.
const ticksPerSecond = 100

// processors is what has been used of all processors, and by whom.
type processors struct {
	at        time.Time
	all, ours time.Duration
}

// processorsNow reads the kernel's counters; ours are this process and those given.
func processorsNow(t *testing.T, ours ...*processtest.Process) processors {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	now := processors{at: time.Now(), ours: time.Duration(u.Utime.Nano() + u.Stime.Nano())}
	for _, p := range ours {
		now.ours += ticksOf(t, fmt.Sprintf("/proc/%d/stat", p.PID()), ")", 11, 12) // user, system
	}
	now.all = ticksOf(t, "/proc/stat", "cpu ", 0, 1, 2, 5, 6, 7) // not idle: user, nice, system, irq, softirq, steal
	return now
}

// ticksOf adds up fields of the first line of a file, counted from behind a mark.
func ticksOf(t *testing.T, path, mark string, fields ...int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	words := strings.Fields(line[strings.LastIndex(line, mark)+len(mark):])
	ticks := 0
	for _, i := range fields {
		if i >= len(words) {
			t.Fatalf("%s has %d fields behind %q", path, len(words), mark)
		}
		n, err := strconv.Atoi(words[i])
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond
}

// othersSince returns how many processors others used on average since then.
func (p processors) othersSince(then processors) float64 {
	return (p.all - then.all - (p.ours - then.ours)).Seconds() / p.at.Sub(then.at).Seconds()
}
