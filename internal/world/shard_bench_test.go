package world_test

import (
	"bytes"
	"compress/gzip"
	"flag"
	"io"
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/internal/measure"
	"github.com/tonnage/tonnage/internal/workload"
	"github.com/tonnage/tonnage/internal/world"
	"github.com/tonnage/tonnage/shard"
)

var benchRung = flag.String("rung", "5k", "the calibrated fleet that BenchmarkShard asks about, contended")

// BenchmarkShard is what it takes to ask a shard why a Need is unmet, step by step: lock is for how long the shard is locked,
// copy makes a world of the copied tables, send writes and packs what a command is sent, read reads it, decide decides
// about it, and explain decides and says why.
func BenchmarkShard(b *testing.B) {
	rung, err := workload.ByName(*benchRung)
	if err != nil {
		b.Fatal(err)
	}
	in, err := measure.Load(workload.Build(rung, 1), workload.Contended)
	if err != nil {
		b.Fatal(err)
	}
	inspect := func(visit func(engine.Input, engine.Options, *shard.HeldBack) error) error {
		return visit(in, engine.DefaultOptions(), nil)
	}
	must := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	b.Run("step=lock", func(b *testing.B) {
		for b.Loop() {
			in.Supply.Copy()
			in.Demand.Copy()
		}
	})
	b.Run("step=copy", func(b *testing.B) {
		for b.Loop() {
			_, err := world.CopyShard(b.Context(), inspect, nil, func() {})
			must(err)
		}
	})
	b.Run("step=send", func(b *testing.B) {
		for b.Loop() {
			z, err := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed)
			must(err)
			must(world.WriteShard(b.Context(), z, inspect, nil))
		}
	})
	var text bytes.Buffer
	must(world.WriteShard(b.Context(), &text, inspect, nil))
	b.Run("step=read", func(b *testing.B) {
		b.SetBytes(int64(text.Len()))
		for b.Loop() {
			_, err := world.Read(bytes.NewReader(text.Bytes()))
			must(err)
		}
	})
	text = bytes.Buffer{}
	w, err := world.CopyShard(b.Context(), inspect, nil, func() {})
	must(err)
	answer, err := w.Decide(false, nil)
	must(err)
	unmet := ""
	for i := range answer.Needs {
		if answer.Needs[i].Reason != engine.UnmetNone {
			unmet = w.Needs[i].Name
		}
	}
	b.Run("step=decide", func(b *testing.B) {
		for b.Loop() {
			_, err := w.Decide(false, nil)
			must(err)
		}
	})
	b.Run("step=explain", func(b *testing.B) {
		for b.Loop() {
			_, err := w.Explain(&world.Subjects{Needs: map[string]bool{unmet: true}})
			must(err)
		}
	})
}
