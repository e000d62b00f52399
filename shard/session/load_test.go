package session_test

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/inbound"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/session"
)

// The load; make load asks for more than the tests do.
var (
	loadSessions = flag.Int("sessions", 200, "sessions of the load test")
	loadRate     = flag.Int("rate", 500, "roll-ups a second, of all sessions together")
	loadRollups  = flag.Int("rollups", 1000, "roll-ups in all")
	loadRows     = flag.Int("rows", 100, "rows of a roll-up")
)

// raw sends messages that are encoded already, so that operators cost little
// beside the server that is looked at.
type raw struct{ encoding.CodecV2 }

func (c raw) Marshal(v any) (mem.BufferSlice, error) {
	if b, ok := v.([]byte); ok {
		return mem.BufferSlice{mem.SliceBuffer(b)}, nil
	}
	return c.CodecV2.Marshal(v)
}

// load is many operators.
type load struct {
	streams []grpc.BidiStreamingClient[pb.OperatorMessage, pb.ShardMessage]
	sent    []atomic.Int64 // when each session's roll-up was sent, 0 = it is acknowledged
	asked   int            // roll-ups that were sent
	took    chan time.Duration
	news    atomic.Int64
}

// frameOf is the message that carries a roll-up of so many rows, of twenty
// kinds.
func frameOf(t testing.TB, cluster string, rows int) []byte {
	t.Helper()
	needs := make([]model.Need, rows)
	for i := range needs {
		needs[i] = model.Need{
			Profile:   profile(t, fmt.Sprint("zone-", i%20)),
			Aggregate: model.NewResources(model.Amount{Name: "cpu", Value: int64(1000 * (i + 1))}, model.Amount{Name: "memory", Value: int64(i+1) << 30}),
			MinUnit:   model.NewResources(model.Amount{Name: "cpu", Value: 1000}, model.Amount{Name: "memory", Value: 1 << 30}),
		}
	}
	return sub(2, session.AppendRollup(nil, cluster, 1, needs))
}

// connect opens all sessions, each over a connection of its own.
func (l *load) connect(t testing.TB, f *fixture, n int) {
	t.Helper()
	l.streams, l.sent, l.took = make([]grpc.BidiStreamingClient[pb.OperatorMessage, pb.ShardMessage], n), make([]atomic.Int64, n), make(chan time.Duration, 1<<20)
	ctx, cancel := context.WithCancel(context.Background())
	var readers sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		readers.Wait()
	})
	codec := grpc.ForceCodecV2(raw{encoding.GetCodecV2(protocodec.Name)})
	for i := range n {
		conn := f.dial(t, nil)
		stream, err := pb.NewShardClient(conn).Session(ctx, codec)
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.SendMsg(hello(clusterOf(i))); err != nil {
			t.Fatal(err)
		}
		l.streams[i] = stream
		readers.Go(func() { l.read(i) })
	}
}

func clusterOf(i int) string { return fmt.Sprintf("cluster-%05d", i) }

// read takes what one operator is told.
func (l *load) read(i int) {
	for {
		m, err := l.streams[i].Recv()
		switch {
		case err != nil:
			return
		case m.GetAck().GetEcho() == "rollup":
			l.took <- time.Since(time.Unix(0, l.sent[i].Swap(0)))
		case m.GetNodeStateUpdate() != nil:
			l.news.Add(1)
		}
	}
}

// report sends roll-ups at a rate, of the sessions in turn, and returns how
// long each took to be acknowledged.
func (l *load) report(t testing.TB, rate, total int, frames [][]byte) []time.Duration {
	t.Helper()
	began := time.Now()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for next := 0; next < total; {
		due := min(total, int(time.Since(began).Seconds()*float64(rate))+1)
		for ; next < due; next++ {
			i := next % len(l.streams)
			if l.sent[i].Load() != 0 {
				continue // as an operator that waits for its acknowledgement
			}
			l.asked++
			l.sent[i].Store(time.Now().UnixNano())
			if err := l.streams[i].SendMsg(frames[i]); err != nil {
				t.Fatal(err)
			}
		}
		<-ticker.C
	}
	var took []time.Duration
	for i := range l.sent {
		until(t, "every roll-up is acknowledged", func() bool { return l.sent[i].Load() == 0 })
	}
	for len(l.took) > 0 {
		took = append(took, <-l.took)
	}
	slices.Sort(took)
	return took
}

func cpuTime(t testing.TB) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func memoryInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// tell has news of so many machines for the operators in turn.
func tell(f *fixture, news, operators int) {
	for i := range news {
		f.server.NodeState(shard.NodeState{
			Cluster: clusterOf(i % operators), Machine: fmt.Sprintf("machine-%04d", i), State: model.Configured, NodeName: fmt.Sprintf("node-%04d", i),
			Labels: map[string]string{model.KeyZone: "zone-1", model.KeyInstanceType: "m5.large"}, Resources: model.NewResources(model.Amount{Name: "cpu", Value: 4000}),
		})
	}
}

// Many sessions at once, roll-ups of all of them, and news to a thousand.
func TestLoad(t *testing.T) {
	if testing.Short() {
		*loadSessions, *loadRollups = min(*loadSessions, 50), min(*loadRollups, 200)
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if need := uint64(2**loadSessions + 100); limit.Cur < need {
		t.Fatalf("%d files may be open and %d are needed: raise the limit (ulimit -n)", limit.Cur, need)
	}
	f := serve(t, session.Deps{Inbound: inbound.Settings{ConnectionsPerAddress: 2 * *loadSessions}})
	empty := memoryInUse()
	var l load
	began := time.Now()
	l.connect(t, f, *loadSessions)
	until(t, "all sessions have begun", func() bool { return f.server.Count() == *loadSessions })
	t.Logf("%d sessions in %v; server and operators hold %d KiB each", *loadSessions, time.Since(began).Round(time.Millisecond),
		(memoryInUse()-empty)/uint64(*loadSessions)>>10)

	frames := make([][]byte, *loadSessions)
	for i := range frames {
		frames[i] = frameOf(t, clusterOf(i), *loadRows)
	}
	cpu, began := cpuTime(t), time.Now()
	took := l.report(t, *loadRate, *loadRollups, frames)
	wall := time.Since(began)
	if len(took) != l.asked || len(took) == 0 {
		t.Errorf("%d of %d roll-ups are acknowledged", len(took), l.asked)
	}
	t.Logf("%d roll-ups of %d rows in %v, %.0f a second, %.2f CPU; acknowledged after %v (median), %v (99 of 100), %v (last)", len(took), *loadRows,
		wall.Round(time.Millisecond), float64(len(took))/wall.Seconds(), (cpuTime(t)-cpu).Seconds()/wall.Seconds(),
		took[len(took)/2], took[len(took)*99/100], took[len(took)-1])

	const news = 1000
	for _, spread := range []int{1, min(news, *loadSessions)} {
		l.news.Store(0)
		runtime.GC() // or the garbage of roll-ups is collected in one of the rounds, by chance
		cpu, began = cpuTime(t), time.Now()
		tell(f, news, spread)
		queued, spent := time.Since(began), cpuTime(t)-cpu
		until(t, "all news has come", func() bool { return l.news.Load() == news })
		t.Logf("%d updates to %d operators: queued in %v (%v CPU), the last read after %v (%v CPU, operators included)", news, spread,
			queued.Round(time.Microsecond), spent.Round(time.Microsecond), time.Since(began).Round(time.Microsecond), (cpuTime(t) - cpu).Round(time.Microsecond))
	}
}
