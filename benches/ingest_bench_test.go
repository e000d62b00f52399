package benches

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/internal/workload"
	"github.com/tonnage/tonnage/shard/session"
)

// The way of a roll-up from wire bytes into the table.

var ingestRungs = []string{"50k", "500k-rows"}

// wire is the demand of a rung as its operators send it.
type wire struct {
	clusters []string
	messages [][]byte // by cluster
	rows     int
	bytes    int
	// best is the shortest time that each cluster's roll-up took, as long as
	// others left the machine alone for once.
	best []time.Duration
}

func encodeRung(b *testing.B, rung string) *wire {
	fleet := workload.Build(mustRung(b, rung), seed)
	w := &wire{clusters: fleet.Clusters()}
	for i, c := range w.clusters {
		rows := fleet.Needs(workload.Steady, i)
		m := session.AppendRollup(nil, c, workload.Epoch.UnixNano(), rows)
		w.messages, w.rows, w.bytes = append(w.messages, m), w.rows+len(rows), w.bytes+len(m)
	}
	return w
}

// BenchmarkIngest reports the demand of all clusters again and again: reading
// alone, with the installing of the same demand, and of demand of which every
// row changes.
func BenchmarkIngest(b *testing.B) {
	for _, rung := range ingestRungs {
		b.Run("rung="+rung, func(b *testing.B) {
			w := encodeRung(b, rung)
			b.Run("step=decode", func(b *testing.B) { w.ingest(b, func(*demand.Builder) error { return nil }) })
			same := demand.New()
			b.Run("step=report", func(b *testing.B) { w.ingest(b, same.Report) })
			b.Run("step=turn", w.turn)
		})
	}
}

// ingest reads every message and hands it on.
func (w *wire) ingest(b *testing.B, take func(*demand.Builder) error) {
	w.measure(b, func(i int) []byte { return w.messages[i] }, take, func() {})
}

// turn gives every cluster the demand of its neighbours in turn, so that nearly
// all rows change.
func (w *wire) turn(b *testing.B) {
	anonymous := make([][]byte, len(w.messages))
	for i, m := range w.messages {
		anonymous[i] = m[2+len(w.clusters[i]):] // the id is the first field
	}
	shift := 0
	w.measure(b, func(i int) []byte { return anonymous[(i+shift)%len(anonymous)] }, demand.New().Report, func() { shift++ })
}

// measure takes rounds of the roll-ups of all clusters.
func (w *wire) measure(b *testing.B, message func(cluster int) []byte, take func(*demand.Builder) error, between func()) {
	d, builder := session.NewDecoder(), demand.NewBuilder()
	round := func() {
		for i, c := range w.clusters {
			start := time.Now()
			if err := d.Decode(c, message(i), builder); err != nil {
				b.Fatal(err)
			}
			if err := take(builder); err != nil {
				b.Fatal(err)
			}
			w.best[i] = min(w.best[i], time.Since(start))
		}
		between()
	}
	w.best = slices.Repeat([]time.Duration{time.Hour}, len(w.clusters))
	round()
	b.ReportAllocs()
	start := threadTime(b)
	for b.Loop() {
		round()
	}
	w.report(b, threadTime(b)-start)
}

// threadTime returns the processor time that the benchmark's thread has taken,
// in nanoseconds: on a machine that others use too, the time of a clock says
// little about the work done.
func threadTime(b *testing.B) int64 {
	runtime.LockOSThread() // and it stays: the thread ends with the benchmark
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

func (w *wire) report(b *testing.B, cpu int64) {
	perItem(b, w.rows, "ns/need")
	perNeed := float64(cpu) / float64(b.N) / float64(w.rows)
	b.ReportMetric(perNeed, "cpu-ns/need")
	quiet := time.Duration(0)
	for _, d := range w.best {
		quiet += d
	}
	b.ReportMetric(float64(quiet)/float64(w.rows), "best-ns/need")
	b.ReportMetric(float64(w.bytes)/float64(w.rows), "wire-bytes/need")
}
