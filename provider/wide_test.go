package provider

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/calls"
	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/pools"
	"github.com/tonnage/tonnage/provider/simulated/cloud"
	"github.com/tonnage/tonnage/shard"
)

// wide is a pool of 400 types in three zones and two capacity types.
func wide(machines int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "drivers: [{name: sim, kind: simulated, launchesPerMinute: 1000000, launchBurst: 100000}]\npools:\n- name: wide\n  driver: sim\n  machines: %d\n  zones: [a, b, c]\n  labels: {team: web, tier: gold}\n  types:\n", machines)
	for i := range 400 {
		fmt.Fprintf(&b, "  - {name: t%d.large, resources: {cpu: %d, memory: %dGi, pods: 110}, labels: {kubernetes.io/arch: amd64}, prices: [{capacityType: OnDemand, pricePerHour: %d}, {capacityType: Spot, pricePerHour: 1, interruptionProbability: 0.01}]}\n", i, i%64+1, i%64+1, i+2)
	}
	return b.String()
}

// openWide opens a provider of the wide pool, with so many machines made.
func openWide(b testing.TB, machines int) *Provider {
	b.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "wide-") //nolint:usetesting // where fsync costs nothing, if there is such a folder
	if err != nil {
		dir = b.TempDir()
	}
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "pools.yaml")
	if err := os.WriteFile(path, []byte(wide(1<<19)), 0o600); err != nil {
		b.Fatal(err)
	}
	start := time.Now()
	file, err := pools.Read(path)
	if err != nil {
		b.Fatal(err)
	}
	read := time.Since(start)
	start = time.Now()
	p, err := Open(Config{Dir: dir, Pools: file, Every: time.Hour, Least: time.Millisecond, Driver: func(*pools.Driver) (driver.Driver, error) {
		return cloud.Open(cloud.Config{File: filepath.Join(dir, "cloud.db")}, 1, nil)
	}})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
		if err := p.Close(); err != nil {
			b.Error(err)
		}
	})
	for p.Ready() != nil || p.Len() < 400*3*2*64 {
		<-time.After(time.Millisecond)
	}
	b.Logf("pools read in %v, %d slots there after %v", read, p.Len(), time.Since(start))
	var ids []string
	for i := range p.table.rows[:machines] {
		ids = append(ids, p.table.rows[i].id)
	}
	var all sync.WaitGroup // so that calls share transactions
	for part := range slices.Chunk(ids, max(1, len(ids)/32)) {
		all.Go(func() {
			for _, id := range part {
				if _, err := p.Do(ctx, &calls.Call{Op: shard.OpCreate, Machine: id}); err != nil {
					b.Error(err)
				}
			}
		})
	}
	all.Wait()
	for p.States()[model.Idle] < machines {
		<-time.After(10 * time.Millisecond)
	}
	return p
}

// BenchmarkWidePools: 2,400 offers with 64 free slots each, and 500 machines.
func BenchmarkWidePools(b *testing.B) {
	p := openWide(b, 500)
	msg, _, err := p.List(calls.ListFilter{})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("list", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, full, err := p.List(calls.ListFilter{}); err != nil || !full {
				b.Fatal(full, err)
			}
		}
		b.ReportMetric(float64(len(msg)), "bytes")
	})
	b.Run("nothing-changed", func(b *testing.B) {
		cursor := p.table.cursor(p.table.revision)
		for b.Loop() {
			if _, full, err := p.List(calls.ListFilter{Since: cursor}); err != nil || full {
				b.Fatal(full, err)
			}
		}
	})
	b.Run("round", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := p.round(b.Context(), p.hands["sim"]); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("out-of-stock", func(b *testing.B) { // and in stock again
		o := p.table.rows[0].offer
		for b.Loop() {
			err := p.submit(b.Context(), func() error {
				p.sellOut(o, "none left", p.cfg.Now())
				p.offerAgain(o, "in stock again")
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}
