package world_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
	"github.com/tonnage/tonnage/internal/world"
	"github.com/tonnage/tonnage/shard"
)

// movingShard is a shard whose tables can be changed at any time: machines move, come and go, and a cluster reports other demand.
type movingShard struct {
	in     engine.Input
	opts   engine.Options
	held   shard.HeldBack
	random *rand.Rand
	looks  int
}

func newMovingShard(tb testing.TB, machines, clusters int, seed uint64) *movingShard {
	tb.Helper()
	s := &movingShard{random: rand.New(rand.NewPCG(seed, 1)), opts: engine.DefaultOptions()}
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

// change makes so many changes of machines, and one of demand.
func (s *movingShard) change(tb testing.TB, changes int) {
	for range changes {
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

func (s *movingShard) inspect(visit func(engine.Input, engine.Options, *shard.HeldBack) error) error {
	s.looks++
	return visit(s.in, s.opts, &s.held)
}

// input returns what WriteInput writes of the shard as it is.
func (s *movingShard) input(tb testing.TB) string {
	tb.Helper()
	var text bytes.Buffer
	if err := world.WriteInput(&text, s.in, s.opts); err != nil {
		tb.Fatal(err)
	}
	return text.String()
}

// TestACopyIsOfOneMoment: a copy is the shard as it was when it was looked at, whatever moves while the copy is read.
func TestACopyIsOfOneMoment(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for _, changes := range []int{1, 100, 3000} {
		s := newMovingShard(t, 5000, 20, seed)
		s.held = shard.HeldBack{Disposition: shard.Paused, Reason: "asked to", Actions: []shard.HeldAction{{Machine: "gone", Kind: engine.Delete}}, More: 2}
		text, parts := "", 0
		got, err := world.CopyShard(t.Context(), s.inspect, nil, func() {
			if parts++; parts == 1 {
				text = s.input(t)
				return
			}
			s.change(t, changes)
		})
		if err != nil {
			t.Fatal(err)
		}
		want, err := world.Read(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if a, b := worldText(t, got), worldText(t, want); a != b {
			t.Fatalf("%d changes a part, seed %d: the copy differs:\n%.2000s\nwant\n%.2000s", changes, seed, a, b)
		}
		if got.HeldBack == nil || got.HeldBack.Reason != "asked to" || len(got.HeldBack.Actions) != 0 || got.HeldBack.More != 2 {
			t.Errorf("held back: %+v", got.HeldBack)
		}
		if parts < 5 || s.looks != 1 {
			t.Errorf("5,000 machines are read in %d parts, and the shard is looked at %d times", parts, s.looks)
		}
	}
}

// movingWriter changes a shard at each write.
type movingWriter struct {
	bytes.Buffer
	tb    testing.TB
	shard *movingShard
}

func (w *movingWriter) Write(text []byte) (int, error) {
	w.shard.change(w.tb, 50)
	return w.Buffer.Write(text)
}

// TestAShardIsWrittenAsItWas: what is written of a shard is what WriteInput writes of the moment at which the shard was looked
// at, with what the rails hold back.
func TestAShardIsWrittenAsItWas(t *testing.T) {
	s := newMovingShard(t, 3000, 20, 5)
	want, got := s.input(t), movingWriter{tb: t, shard: s}
	if err := world.WriteShard(t.Context(), &got, s.inspect, nil); err != nil {
		t.Fatal(err)
	}
	if got.String() != want {
		t.Errorf("written:\n%.2000s\nwant\n%.2000s", got.String(), want)
	}
	if s.input(t) == want || s.looks != 1 {
		t.Errorf("nothing has changed meanwhile, or %d looks", s.looks)
	}
	s.held = shard.HeldBack{Disposition: shard.Paused, Reason: "asked to", More: 2}
	got.Reset()
	if err := world.WriteShard(t.Context(), &got, s.inspect, nil); err != nil || !strings.Contains(got.String(), `"heldBack": {"disposition": "paused", "reason": "asked to", "more": 2`) {
		t.Errorf("%v; written:\n%.600s", err, got.String())
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := world.WriteShard(ended, &got, s.inspect, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("of a request that has ended: %v", err)
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
	s := newMovingShard(t, 5000, 3, 1)
	parts := 0
	_, err := world.CopyShard(ctx, s.inspect, nil, func() {
		if parts++; parts == 3 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || parts > 4 {
		t.Errorf("%v after %d parts", err, parts)
	}
	fails := errors.New("the shard has stopped")
	if _, err := world.CopyShard(t.Context(), func(func(engine.Input, engine.Options, *shard.HeldBack) error) error { return fails }, nil, func() {}); !errors.Is(err, fails) {
		t.Errorf("of a shard that has stopped: %v", err)
	}
}
