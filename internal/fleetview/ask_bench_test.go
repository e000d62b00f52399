package fleetview_test

import (
	"context"
	"fmt"
	"net/url"
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

// BenchmarkCyclesBesideHelp is what asking what would help a Need costs the cycles of a shard with 50,000 machines: cycles run every
// 100 ms, in turns of 5 s with somebody who asks without a pause and without one. A cycle's time counts from when it is
// due to run, so that waiting for the shard's lock is in it.
func BenchmarkCyclesBesideHelp(b *testing.B) {
	const machines, gap, turn, warm = 50_000, 100 * time.Millisecond, 50, 30
	r, err := workload.ByName("50k")
	if err != nil {
		b.Fatal(err)
	}
	r.Clusters, r.Configured, r.Idle, r.Speculative = 50, machines*4/5, machines/5, 0
	f, step := viewtest.FromSource(b, workload.NewLive(workload.Build(r, 1), workload.Steady), machines, time.Now())
	for range warm {
		step()
	}
	f.Report("asker", []model.Need{short(b)})
	for range 3 {
		step()
	}
	const need = "asker/0"
	var with, without, answers []time.Duration
	var cpuWith, cpuWithout []time.Duration // of the thread that runs cycles: what neighbours on the machine leave alone
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	tries := 0
	var failed error
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for b.Loop() {
		for _, helping := range []bool{false, true} {
			ctx, cancel := context.WithCancel(b.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for helping && ctx.Err() == nil {
					began := time.Now()
					answer, err := f.View.Queries()["help"](ctx, url.Values{"need": {need}})
					if failed = err; err == nil {
						answers = append(answers, time.Since(began))
						tries = max(tries, answer.(fleetview.HelpAnswer).Tries)
					}
				}
			}()
			tick := time.NewTicker(gap)
			for range turn {
				<-tick.C
				began, cpu := time.Now(), threadTime(b)
				step()
				if took, used := time.Since(began), threadTime(b)-cpu; helping {
					with, cpuWith = append(with, took), append(cpuWith, used)
				} else {
					without, cpuWithout = append(without, took), append(cpuWithout, used)
				}
			}
			tick.Stop()
			cancel()
			<-ended
		}
	}
	at := func(list []time.Duration, percent int) float64 {
		slices.Sort(list)
		return float64(list[min(len(list)*percent/100, len(list)-1)].Microseconds()) / 1e3
	}
	if tries == 1 {
		b.Fatal("the Need is not short: nothing was tried")
	}
	if len(answers) == 0 {
		b.Fatalf("no question was answered: %v", failed)
	}
	for _, percent := range []int{50, 90, 99} {
		b.ReportMetric(at(cpuWithout, percent), fmt.Sprintf("p%d-cpu-alone-ms", percent))
		b.ReportMetric(at(cpuWith, percent), fmt.Sprintf("p%d-cpu-beside-ms", percent))
		b.ReportMetric(at(without, percent), fmt.Sprintf("p%d-alone-ms", percent))
		b.ReportMetric(at(with, percent), fmt.Sprintf("p%d-beside-ms", percent))
	}
	b.ReportMetric(at(answers, 50), "p50-answer-ms")
	b.ReportMetric(at(answers, 100), "max-answer-ms")
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.NumGC-before.NumGC), "GCs")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(len(answers))/(1<<20), "MiB/answer")
	b.ReportMetric(float64(tries), "decisions")
	b.ReportMetric(float64(len(with)), "cycles")
}

// short is a Need that the fleet has too little for: of low priority, for more than idles.
func short(b *testing.B) model.Need {
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
