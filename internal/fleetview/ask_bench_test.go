package fleetview_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/fleetview"
	"github.com/tonnage/tonnage/internal/fleetview/viewtest"
	"github.com/tonnage/tonnage/internal/workload"
)

// othersMax is how many cores other programs use on a quiet machine.
const othersMax = 0.2

// BenchmarkCyclesBesideHelp is what asking what would help a Need costs the cycles of a shard with 50,000 machines. Two fleets
// run the same cycles, in turns of 50: one alone, the other beside somebody who asks without a pause. So each cycle is compared with itself,
// and the longest with the longest. A cycle's time counts from when it is due to run, so that waiting for the shard's lock is in it. On a machine
// that others use too, the time less what its thread waited for a processor says more (undisturbed), and the thread's processor time is changed least; quiet are
// those cycles beside which, and since the ones before them, other programs used less than othersMax cores, in both fleets. Between
// cycles that begin every 400 ms each part of a question finds room, and between those that begin every 100 ms the longest do not.
func BenchmarkCyclesBesideHelp(b *testing.B) {
	for _, gap := range []time.Duration{400 * time.Millisecond, 100 * time.Millisecond} {
		b.Run(fmt.Sprintf("every=%v", gap), func(b *testing.B) { cyclesBesideHelp(b, gap) })
	}
}

func cyclesBesideHelp(b *testing.B, gap time.Duration) {
	b.Helper()
	const turn, settle = 50, 4 // of a turn the first cycles are not timed: a question knows after two of them when the next one is due
	alone, beside := askedFleet(b), askedFleet(b)
	var answers []time.Duration
	tries, short := 0, false
	var failed error
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for round := 0; b.Loop(); round++ {
		for half := range 2 {
			x, asked := alone, (round+half)%2 == 1
			if asked {
				x = beside
			}
			ctx, cancel := context.WithCancel(b.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for asked && ctx.Err() == nil {
					began := time.Now()
					answer, err := x.View.Queries()["help"](ctx, url.Values{"need": {"asker/0"}})
					if failed = err; err == nil {
						answers = append(answers, time.Since(began))
						a := answer.(fleetview.HelpAnswer)
						tries, short = max(tries, a.Tries), short || a.Tries > 1 || a.Exhausted
					}
				}
			}()
			tick := time.NewTicker(gap)
			all, own := usedByAll(b), usedByOwn(b)
			since := time.Now()
			for cycle := range settle + turn {
				<-tick.C
				x.timed = cycle >= settle
				x.step()
				if !x.timed {
					continue
				}
				nowAll, nowOwn, now := usedByAll(b), usedByOwn(b), time.Now()
				x.others = append(x.others, float64(nowAll-all-(nowOwn-own))/float64(now.Sub(since)))
				all, own, since = nowAll, nowOwn, now
			}
			tick.Stop()
			cancel()
			<-ended
		}
	}
	runtime.ReadMemStats(&after)
	if tries > 0 && !short {
		b.Fatal("the Need is not short: nothing was tried")
	}
	if len(answers) == 0 { // a machine with too much else to do: the cycles ran beside questions all the same
		b.Logf("no question was answered: %v", failed)
		answers = append(answers, 0)
	}
	report := func(name string, list []time.Duration) {
		for _, percent := range []int{50, 90, 99} {
			b.ReportMetric(at(list, percent), fmt.Sprintf("p%d-%s-ms", percent, name))
		}
	}
	var quietAlone, quietBeside []time.Duration
	for i, cores := range beside.others {
		if max(cores, alone.others[i]) < othersMax {
			quietAlone, quietBeside = append(quietAlone, alone.took[i]), append(quietBeside, beside.took[i])
		}
	}
	if len(quietAlone) > 0 {
		report("quiet-alone", quietAlone)
		report("quiet-beside", quietBeside)
	}
	b.ReportMetric(float64(len(quietAlone)), "quiet-cycles")
	report("alone", alone.took)
	report("beside", beside.took)
	report("undisturbed-alone", alone.undisturbed)
	report("undisturbed-beside", beside.undisturbed)
	report("cpu-alone", alone.cpu)
	report("cpu-beside", beside.cpu)
	more := make([]time.Duration, len(beside.cpu))
	for i := range more {
		more[i] = beside.cpu[i] - alone.cpu[i]
	}
	report("cpu-more", more)
	b.ReportMetric(at(answers, 50), "p50-answer-ms")
	b.ReportMetric(at(answers, 100), "max-answer-ms")
	b.ReportMetric(float64(after.NumGC-before.NumGC), "GCs")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(len(answers))/(1<<20), "MiB/answer")
	b.ReportMetric(float64(tries), "decisions")
	b.ReportMetric(float64(len(beside.took)), "cycles")
	b.ReportMetric(float64(beside.Recorder.Overlaps()), "overlaps")
}

// timedFleet is a fleet whose cycles are timed.
type timedFleet struct {
	*viewtest.Fleet
	step                   func()
	timed                  bool            // the cycles that run now
	took, undisturbed, cpu []time.Duration // by cycle
	others                 []float64       // by cycle: cores that other programs used since the one before
}

// askedFleet is a fleet of 50,000 machines with a Need that is short, always the same.
func askedFleet(b *testing.B) *timedFleet {
	b.Helper()
	const machines, warm = 50_000, 30
	r, err := workload.ByName("50k")
	if err != nil {
		b.Fatal(err)
	}
	r.Clusters, r.Configured, r.Idle, r.Speculative = 50, machines*4/5, machines/5, 0
	f, step := viewtest.FromSource(b, workload.NewLive(workload.Build(r, 1), workload.Steady), machines, time.Unix(1_800_000_000, 0))
	for range warm {
		step()
	}
	f.Report("asker", []model.Need{shortNeed(b)})
	for range 3 {
		step()
	}
	x := &timedFleet{Fleet: f, step: step}
	f.Around = func(cycle func()) {
		waited, cpu, began := threadWaited(b), threadTime(b), time.Now()
		cycle()
		took := time.Since(began)
		if !x.timed {
			return
		}
		used := threadTime(b) - cpu // before anything is read that takes time itself
		x.took, x.cpu, x.undisturbed = append(x.took, took), append(x.cpu, used), append(x.undisturbed, took-threadWaited(b)+waited)
	}
	return x
}

// at returns a percentile in milliseconds.
func at(list []time.Duration, percent int) float64 {
	list = slices.Sorted(slices.Values(list))
	return float64(list[min(len(list)*percent/100, len(list)-1)].Microseconds()) / 1e3
}

// shortNeed is a Need that the fleet has too little for: of low priority, for more than idles.
func shortNeed(b *testing.B) model.Need {
	b.Helper()
	p, err := model.NewProfile(model.ProfileSpec{Priority: 1})
	if err != nil {
		b.Fatal(err)
	}
	cores := func(n int64) model.Resources { return model.NewResources(model.Amount{Name: "cpu", Value: 1000 * n}) }
	return model.Need{Cluster: "asker", Profile: p, Aggregate: cores(20_000_000), MinUnit: cores(4), Arrival: 1, ShortSince: 1}
}

// threadTime returns the processor time that the calling thread has used.
func threadTime(b *testing.B) time.Duration {
	b.Helper()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		b.Fatal(err)
	}
	return time.Duration(now.Nano())
}

// threadWaited returns for how long the calling thread has waited for a processor while it could have run.
func threadWaited(b *testing.B) time.Duration {
	b.Helper()
	text, err := os.ReadFile("/proc/thread-self/schedstat")
	if err != nil {
		b.Fatal(err)
	}
	var ran, waited int64
	if _, err := fmt.Sscan(string(text), &ran, &waited); err != nil {
		b.Fatal(err)
	}
	return time.Duration(waited)
}

// usedByAll returns the processor time that the machine has used, in steps of 10 ms.
func usedByAll(b *testing.B) time.Duration {
	b.Helper()
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		b.Fatal(err)
	}
	var user, nice, system, idle, iowait, irq, softirq, steal int64
	if _, err := fmt.Sscanf(string(text), "cpu %d %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &iowait, &irq, &softirq, &steal); err != nil {
		b.Fatal(err)
	}
	return time.Duration(user+nice+system+irq+softirq+steal) * 10 * time.Millisecond
}

// usedByOwn returns the processor time that this process has used.
func usedByOwn(b *testing.B) time.Duration {
	b.Helper()
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
