package supply_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
)

// TestSharedLabelsAreTheirs: machines whose labels come with a number have the labels
// that they were put with, in whatever zone, while sets come and go whose places in
// the table others take.
func TestSharedLabelsAreTheirs(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	table := supply.New()
	sets, number := make([]map[string]string, 12), make([]uint64, 12)
	next := uint64(0)
	renew := func(i int) {
		next += uint64(1 + rng.IntN(2)<<12) // some numbers fall on one place
		sets[i], number[i] = map[string]string{"set": fmt.Sprint(next), "half": fmt.Sprint(next / 2)}, next
	}
	for i := range sets {
		renew(i)
	}
	have := map[string]model.Machine{}
	for range 20_000 {
		m := model.Machine{ID: fmt.Sprint("m", rng.IntN(40)), State: model.Speculative, Zone: fmt.Sprint("z", rng.IntN(2))}
		i := rng.IntN(len(sets))
		m.Labels = maps.Clone(sets[i])
		switch rng.IntN(10) {
		case 0, 1, 2:
			if _, known := have[m.ID]; table.Remove(m.ID) != known {
				t.Fatalf("%s: removed %v, known %v", m.ID, !known, known)
			}
			delete(have, m.ID)
			continue
		case 3:
			renew(i)
			continue
		case 4:
			if err := table.Put(&m); err != nil {
				t.Fatal(err)
			}
		default:
			if _, err := table.PutShared(&m, number[i]); err != nil {
				t.Fatal(err)
			}
		}
		have[m.ID] = m
		for id, want := range have {
			r, ok := table.Lookup(id)
			if got := table.Get(r); !ok || got.Zone != want.Zone || !maps.Equal(got.Labels, want.Labels) {
				t.Fatalf("%s is in %s with %v, want %s, %v", id, got.Zone, got.Labels, want.Zone, want.Labels)
			}
		}
	}
}

// TestLabelsWithoutNumberAreMeasured: only labels with a number are taken to be short.
func TestLabelsWithoutNumberAreMeasured(t *testing.T) {
	m := model.Machine{ID: "m", State: model.Speculative, Labels: map[string]string{"k": strings.Repeat("x", model.LabelsBytesMax)}}
	if _, err := supply.New().PutShared(&m, 0); !errors.Is(err, model.ErrStructural) || !strings.Contains(err.Error(), "labels have 65537 bytes") {
		t.Errorf("labels that are too long: %v", err)
	}
}
