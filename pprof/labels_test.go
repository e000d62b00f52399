package pprof

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"regexp"
	"runtime/pprof"
	"runtime/trace"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/engine/model"
)

// marksOf returns the labels of the goroutine that the test runs in.
func marksOf(t *testing.T) string {
	t.Helper()
	var out bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&out, 1); err != nil {
		t.Fatal(err)
	}
	for _, group := range strings.Split(out.String(), "\n\n") {
		if strings.Contains(group, "pprof.marksOf") {
			return regexp.MustCompile(`(?m)^# labels: (.*)$`).FindString(group)
		}
	}
	return ""
}

func TestMark(t *testing.T) {
	l := New(pprof.WithLabels(t.Context(), pprof.Labels("bench", "measured")), 2)
	defer pprof.SetGoroutineLabels(t.Context())
	for s := range model.NumStages {
		for worker, name := range map[int]string{0: "0", 1: "1", 7: "1"} {
			l.Mark(model.Stage(s), worker)
			want := fmt.Sprintf(`# labels: {"bench":"measured", "stage":%q, "worker":%q}`, model.Stage(s), name)
			if got := marksOf(t); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
	}
	l.Clear()
	if got := marksOf(t); got != `# labels: {"bench":"measured"}` {
		t.Errorf("cleared: %s", got)
	}
}

func TestManyWorkersShareTheLast(t *testing.T) {
	l := New(t.Context(), WorkersMax+100)
	defer pprof.SetGoroutineLabels(t.Context())
	l.Mark(model.StageRank, WorkersMax+50)
	if got := marksOf(t); !strings.Contains(got, `"worker":"255+"`) {
		t.Errorf("got %s", got)
	}
}

func TestNilMarksNothing(t *testing.T) {
	var l *Labels
	l.Mark(model.StageRank, 0)
	l.Clear()
	if got := marksOf(t); got != "" {
		t.Errorf("got %s", got)
	}
}

func TestMarkAllocatesNothing(t *testing.T) {
	l := New(t.Context(), 4)
	defer pprof.SetGoroutineLabels(t.Context())
	work := func() {
		l.Mark(model.StagePhase1, 3)
		l.Clear()
	}
	if n := testing.AllocsPerRun(100, work); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if err := trace.Start(io.Discard); err != nil {
		t.Skipf("another trace runs: %v", err)
	}
	defer trace.Stop()
	if n := testing.AllocsPerRun(100, work); n != 0 {
		t.Errorf("%v allocations while a trace runs", n)
	}
}

func BenchmarkMark(b *testing.B) {
	l := New(context.Background(), 4)
	defer pprof.SetGoroutineLabels(b.Context())
	b.ReportAllocs()
	for b.Loop() {
		l.Mark(model.StagePhase1, 3)
	}
}
