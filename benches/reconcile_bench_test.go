package benches

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/workload"
	providerwire "github.com/tonnage/tonnage/provider/wire"
	"github.com/tonnage/tonnage/shard"
	shardwire "github.com/tonnage/tonnage/shard/provider/wire"
	"github.com/tonnage/tonnage/shard/stamps"
)

// cpuClock is the processor time that the process has used, as a clock: what a
// shared machine leaves comparable. The collector's share is in it.
func cpuClock() time.Time {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return time.Time{}
	}
	return time.Unix(0, u.Utime.Nano()+u.Stime.Nano())
}

// listed is a provider that answers List with a message as it comes over the
// wire. The shard is paused, so there are no other calls.
type listed struct {
	shard.Provider
	list    shardwire.List
	message []byte
}

func (p *listed) List(context.Context, shard.ListRequest) (shard.ListResponse, error) {
	if err := p.list.Parse(p.message); err != nil {
		return shard.ListResponse{}, err
	}
	return p.list.Response(true), nil
}

// fleetRecords returns a rung's machines as a provider lists them.
func fleetRecords(fleet *workload.Fleet) []shard.Record {
	var encoder stamps.Encoder
	records := make([]shard.Record, 0, fleet.Rung().Machines())
	for m := range fleet.Machines(workload.Steady, workload.Epoch.UnixNano()) {
		rec := shard.Record{Machine: *m, Metadata: encoder.Encode(stamps.Echo{Assigned: m.Assigned})}
		rec.Machine.Assigned = model.Assignment{}
		records = append(records, rec)
	}
	return records
}

func message(records []shard.Record) []byte {
	var b []byte
	for i := range records {
		b = providerwire.AppendRecord(b, &records[i])
	}
	return providerwire.AppendRevision(b, []byte("1"))
}

// BenchmarkReconcile takes full listings over, from the bytes of the message to
// the columns of the machine table: the first one, of machines that nobody
// knows; the same machines again, in another encoding of the same; and with a
// new price for one machine in a hundred. Processor time by the machine; ns/op
// is of the whole cycle and means nothing.
func BenchmarkReconcile(b *testing.B) {
	for _, rung := range []string{"5k", "500k"} {
		records := fleetRecords(workload.Build(mustRung(b, rung), seed))
		first, again := message(records), message(records)
		rng := rand.New(rand.NewPCG(seed, seed))
		for range len(records) / 100 {
			records[rng.IntN(len(records))].Machine.PricePerHour += 0.01
		}
		changed := message(records)
		var s *shard.Shard
		p := &listed{}
		fresh := func() {
			cfg := shard.DefaultConfig()
			cfg.Paused = true
			var err error
			if s, err = shard.New(cfg, shard.Deps{Provider: p, Clock: cpuClock}); err != nil {
				b.Fatal(err)
			}
		}
		step := func(b *testing.B, message []byte) *shard.Cycle {
			p.message = message
			c, err := s.Step(b.Context(), workload.Epoch.UnixNano())
			if err != nil {
				b.Fatal(err)
			}
			return c
		}
		run := func(kind string, cycle func(b *testing.B) *shard.Cycle) {
			b.Run("rung="+rung+"/listing="+kind, func(b *testing.B) {
				least := int64(1) << 62
				total := int64(0)
				for b.Loop() {
					d := cycle(b).Durations.Reconcile
					least, total = min(least, d), total+d
				}
				b.ReportMetric(float64(least)/1e6, "least-cpu-ms/listing")
				b.ReportMetric(float64(total)/float64(b.N)/1e6, "cpu-ms/listing")
				b.ReportMetric(float64(least)/float64(len(records)), "cpu-ns/machine")
				b.ReportMetric(float64(len(p.message))/float64(len(records)), "bytes/machine")
			})
		}
		run("first", func(b *testing.B) *shard.Cycle {
			fresh()
			c := step(b, first)
			if c.Reconciled.Added != len(records) {
				b.Fatalf("%+v", c.Reconciled)
			}
			return c
		})
		even := false
		run("unchanged", func(b *testing.B) *shard.Cycle {
			even = !even
			c := step(b, map[bool][]byte{true: again, false: first}[even])
			if c.Reconciled.Changed != 0 {
				b.Fatalf("%+v", c.Reconciled)
			}
			return c
		})
		even = false
		run("one-percent", func(b *testing.B) *shard.Cycle {
			even = !even
			c := step(b, map[bool][]byte{true: changed, false: first}[even])
			if c.Reconciled.Changed < len(records)/200 {
				b.Fatalf("%+v", c.Reconciled)
			}
			return c
		})
	}
}
