package demand_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
)

// TestContinueMatchesAsReportDoes: whether a table takes two roll-ups one after
// the other, or the second takes over the arrivals of the first beforehand, the
// rows have arrived at the same times.
func TestContinueMatchesAsReportDoes(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 1))
	var profiles []*model.Profile
	for i := range 6 {
		profiles = append(profiles, profile(t, model.ProfileSpec{Priority: int32(i / 2)})) // two objects of each form
	}
	var rows []model.Need
	first, second := demand.NewBuilder(), demand.NewBuilder()
	load := func(b *demand.Builder, rows []model.Need, now int64) {
		b.Reset("a")
		for i := range rows {
			if err := b.AddNeed(&rows[i]); err != nil {
				t.Fatal(err)
			}
		}
		b.ArrivedAt(now)
	}
	for step := range 2000 {
		older := rows
		rows = edit(rng, profiles, rows)
		load(first, older, int64(step+1))
		load(second, rows, int64(step+2))
		direct := demand.New()
		for _, b := range []*demand.Builder{first, second} {
			if err := direct.Report(b); err != nil {
				t.Fatal(err)
			}
		}
		load(first, older, int64(step+1))
		load(second, rows, int64(step+2))
		second.Continue(first)
		waited := demand.New()
		first.Swap(second)
		if err := waited.Report(first); err != nil {
			t.Fatal(err)
		}
		if got, want := arrivalsOf(waited), arrivalsOf(direct); !slices.Equal(got, want) {
			t.Fatalf("seed %d: step %d: the rows have arrived at %v, want %v", seed, step, got, want)
		}
	}
}

func arrivalsOf(d *demand.Table) []int64 {
	if b := d.Block("a"); b != nil {
		return b.Arrivals()
	}
	return nil
}
