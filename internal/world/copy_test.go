package world_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
	"github.com/tonnage/tonnage/internal/world"
	"github.com/tonnage/tonnage/shard"
)

// movingShard changes its tables whenever it is not locked: after each look some machines move, come and go, and a
// cluster reports other demand.
type movingShard struct {
	in      engine.Input
	opts    engine.Options
	held    shard.HeldBack
	random  *rand.Rand
	changes int // machines that change between two looks; 0 = none do
	looks   int
}

func newMovingShard(tb testing.TB, machines, clusters, changes int, seed uint64) *movingShard {
	tb.Helper()
	s := &movingShard{random: rand.New(rand.NewPCG(seed, 1)), changes: changes, opts: engine.DefaultOptions()}
	s.in = engine.Input{Supply: supply.New(), Demand: demand.New(), Now: 5e9, DrainSeconds: map[string]float64{"t1": 90}}
	for i := range machines {
		if err := s.in.Supply.Put(s.machine(i)); err != nil {
			tb.Fatal(err)
		}
	}
	for c := range clusters {
		s.report(tb, fmt.Sprintf("c%02d", c))
	}
	return s
}

func (s *movingShard) machine(i int) *model.Machine {
	m := &model.Machine{
		ID: fmt.Sprintf("m-%05d", i), InstanceType: fmt.Sprintf("t%d", i%3), Zone: fmt.Sprintf("z%d", i%4), State: model.Idle, IdleSince: 1e9,
		Resources: model.NewResources(model.Amount{Name: "cpu", Value: 4000}), Labels: map[string]string{"rack": fmt.Sprint(i / 16)}, PricePerHour: float64(s.random.IntN(5)),
	}
	if i%2 == 0 {
		m.State, m.Cluster, m.IdleSince = model.Configured, fmt.Sprintf("c%02d", s.random.IntN(20)), 0
	}
	return m
}

func (s *movingShard) report(tb testing.TB, cluster string) {
	rows := make([]model.Need, 1+s.random.IntN(40))
	for i := range rows {
		p, err := model.NewProfile(model.ProfileSpec{Priority: int32(s.random.IntN(100))})
		if err != nil {
			tb.Fatal(err)
		}
		rows[i] = model.Need{Cluster: cluster, Profile: p, Aggregate: model.NewResources(model.Amount{Name: "cpu", Value: int64(1000 * (1 + s.random.IntN(9)))}), Arrival: 1e9, ShortSince: 1e9}
	}
	if err := s.in.Demand.Load(cluster, rows); err != nil {
		tb.Fatal(err)
	}
	s.in.Demand.MarkReported(cluster)
}

func (s *movingShard) inspect(tb testing.TB) world.Inspect {
	return func(visit func(engine.Input, engine.Options, *shard.HeldBack) error) error {
		s.looks++
		if s.looks > 1 && s.changes > 0 {
			for range s.changes {
				if i := s.random.IntN(6000); s.random.IntN(3) > 0 {
					if err := s.in.Supply.Put(s.machine(i)); err != nil {
						tb.Fatal(err)
					}
				} else {
					s.in.Supply.Remove(fmt.Sprintf("m-%05d", i))
				}
			}
			s.report(tb, fmt.Sprintf("c%02d", s.random.IntN(20)))
			s.in.Now += 1e9
		}
		return visit(s.in, s.opts, &s.held)
	}
}

// TestACopyIsWhatTheShardWrites, at the moment of the last look, whatever moves in between.
func TestACopyIsWhatTheShardWrites(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for _, changes := range []int{0, 1, 100, 3000} {
		s := newMovingShard(t, 5000, 20, changes, seed)
		s.held = shard.HeldBack{Disposition: shard.Paused, Reason: "asked to", Actions: []shard.HeldAction{{Machine: "gone", Kind: engine.Delete}}, More: 2}
		got, err := world.CopyShard(t.Context(), s.inspect(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		if err := world.WriteShard(&text, s.in, s.opts, &s.held, nil); err != nil {
			t.Fatal(err)
		}
		want, err := world.Read(&text)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := worldText(t, got), worldText(t, want); a != b {
			t.Fatalf("%d changes a look, seed %d: the copy differs:\n%.2000s\nwant\n%.2000s", changes, seed, a, b)
		}
		if got.HeldBack == nil || got.HeldBack.Reason != "asked to" || len(got.HeldBack.Actions) != 0 || got.HeldBack.More != 2 {
			t.Errorf("held back: %+v", got.HeldBack)
		}
		if s.looks < 5 {
			t.Errorf("%d looks at 5,000 machines: each holds the lock for too long", s.looks)
		}
	}
}

// worldText writes everything that decides.
func worldText(t *testing.T, w *world.World) string {
	t.Helper()
	s, d, err := w.Tables()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := world.WriteInput(&out, engine.Input{Supply: s, Demand: d, Now: w.Now, DrainSeconds: w.Options.DrainSeconds}, w.Options.Engine); err != nil {
		t.Fatal(err)
	}
	return out.String() + fmt.Sprint(w.Reported)
}

func TestACopyEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := newMovingShard(t, 5000, 3, 0, 1)
	looks := 0
	_, err := world.CopyShard(ctx, func(visit func(engine.Input, engine.Options, *shard.HeldBack) error) error {
		if looks++; looks == 3 {
			cancel()
		}
		return s.inspect(t)(visit)
	}, nil)
	if !errors.Is(err, context.Canceled) || looks > 3 {
		t.Errorf("%v after %d looks", err, looks)
	}
}
