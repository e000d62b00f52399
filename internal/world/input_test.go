package world_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/reference"
	"github.com/tonnage/tonnage/internal/fleet"
	"github.com/tonnage/tonnage/internal/twin"
	"github.com/tonnage/tonnage/internal/world"
)

// planOf decides and returns the plan in terms of ids and numbers of rows.
func planOf(t *testing.T, in engine.Input, opts engine.Options) reference.Plan {
	t.Helper()
	e, err := engine.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	plan, err := e.Cycle(in)
	if err != nil {
		t.Fatal(err)
	}
	return twin.Translate(plan, twin.Results(plan), in.Supply, numbers(in.Demand), in.Demand.Len())
}

// numbers numbers the rows as a plan does.
func numbers(d *demand.Table) map[string][]int {
	out, n := map[string][]int{}, 0
	for _, c := range d.Clusters() {
		for range d.Block(c).Len() {
			out[c] = append(out[c], n)
			n++
		}
	}
	return out
}

// TestInputGivesTheSameDecision: what is written and read again is decided as
// it was, on random fleets: with stamps and reservations of Needs that are
// gone, observed drain times and clusters that have not reported.
func TestInputGivesTheSameDecision(t *testing.T) {
	const fleets = 150
	sizes := []fleet.Size{fleet.Tiny, fleet.Small, fleet.Small, fleet.Medium}
	actions := 0
	for seed := int64(1); seed <= fleets; seed++ {
		f := fleet.Random(seed, sizes[seed%int64(len(sizes))])
		opts := engine.DefaultOptions()
		opts.Workers, opts.TopDomains, opts.Weights.Priority = 2, 3, 0.5
		machines, needs, _, err := twin.Tables(reference.Input{Now: f.Now, Machines: f.Machines, Needs: f.Needs, Reported: f.Reported})
		if err != nil {
			t.Fatal(err)
		}
		in := engine.Input{Supply: machines, Demand: needs, Now: f.Now, DrainSeconds: f.DrainSeconds}
		want := planOf(t, in, opts)
		var text bytes.Buffer
		if err := world.WriteInput(&text, in, opts); err != nil {
			t.Fatal(err)
		}
		w, err := world.Read(bytes.NewReader(text.Bytes()))
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, text.String())
		}
		if w.Options.Engine.Workers != 2 || w.Options.Engine.TopDomains != 3 || w.Options.Engine.Weights != opts.Weights || w.Options.Engine.Release != opts.Release {
			t.Fatalf("options are %+v, want %+v", w.Options.Engine, opts)
		}
		again := engine.Input{Now: w.Now, DrainSeconds: w.Options.DrainSeconds}
		if again.Supply, again.Demand, err = w.Tables(); err != nil {
			t.Fatal(err)
		}
		for _, c := range needs.Clusters() {
			for i, n := range again.Demand.Rows(c) {
				if is := needs.Rows(c)[i].ShortSince; n.ShortSince != is { // no decision depends on it yet
					t.Fatalf("seed %d: row %d of %s is short since %d, was %d", seed, i, c, n.ShortSince, is)
				}
			}
		}
		if d := twin.Diff(planOf(t, again, w.Options.Engine), want); d != "" {
			t.Fatalf("seed %d: %s\n%s", seed, d, text.String())
		}
		actions += len(want.Actions)
	}
	if actions < fleets {
		t.Errorf("%d actions in all: the fleets are too quiet to show anything", actions)
	}
}

// TestInputHasOneOrder: what is written does not depend on the order in which machines and
// clusters came into the tables. Within a cluster rows keep their order.
func TestInputHasOneOrder(t *testing.T) {
	for seed := int64(1); seed <= 20; seed++ {
		f := fleet.Random(seed, fleet.Medium)
		random := rand.New(rand.NewPCG(uint64(seed), 0))
		var want string
		for round := range 4 {
			if round > 0 {
				random.Shuffle(len(f.Machines), func(i, j int) { f.Machines[i], f.Machines[j] = f.Machines[j], f.Machines[i] })
				place := map[string]int{}
				for _, at := range random.Perm(len(f.Needs)) {
					place[f.Needs[at].Cluster] = at
				}
				slices.SortStableFunc(f.Needs, func(a, b model.Need) int { return place[a.Cluster] - place[b.Cluster] })
			}
			machines, needs, _, err := twin.Tables(reference.Input{Now: f.Now, Machines: f.Machines, Needs: f.Needs, Reported: f.Reported})
			if err != nil {
				t.Fatal(err)
			}
			var text bytes.Buffer
			in := engine.Input{Supply: machines, Demand: needs, Now: f.Now, DrainSeconds: f.DrainSeconds}
			if err := world.WriteInput(&text, in, engine.DefaultOptions()); err != nil {
				t.Fatal(err)
			}
			if round == 0 {
				want = text.String()
			} else if text.String() != want {
				t.Fatalf("seed %d, round %d: written as\n%s\nwas\n%s", seed, round, text.String(), want)
			}
		}
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestInputThatCannotBeWritten(t *testing.T) {
	f := fleet.Random(1, fleet.Medium)
	machines, needs, _, err := twin.Tables(reference.Input{Machines: f.Machines, Needs: f.Needs})
	if err != nil {
		t.Fatal(err)
	}
	err = world.WriteInput(fullDisk{}, engine.Input{Supply: machines, Demand: needs}, engine.DefaultOptions())
	if err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("got %v", err)
	}
}

// TestFingerprints: a stamp or an owner of a Need that is gone.
func TestFingerprints(t *testing.T) {
	machine := func(more string) string {
		return `{"machines": [{"id": "m", "state": "Idle", ` + more + `}]}`
	}
	w, err := world.Read(strings.NewReader(machine(`"assigned": {"fingerprint": "00000000000000ff"}, "reservedFor": {"cluster": "c", "fingerprint": "ff00000000000000", "group": "g", "priority": 7}`)))
	if err != nil {
		t.Fatal(err)
	}
	m := &w.Machines[0]
	if o := m.Reservation.Owner; m.Assigned.Fingerprint != 0xff || o.Cluster != "c" || o.Fingerprint != 0xff<<56 || o.Group != "g" || m.Reservation.Priority != 7 {
		t.Errorf("read %+v, %+v", m.Assigned, m.Reservation)
	}
	for more, want := range map[string]string{
		`"assigned": {"fingerprint": "ff"}`:                  "machines[0].assigned.fingerprint: must be a profile's fingerprint of 16 hexadecimal digits",
		`"assigned": {"fingerprint": 7}`:                     "machines[0].assigned.fingerprint: must be text",
		`"assigned": {"fingerprint": "0000000000000000"}`:    "machines[0].assigned.fingerprint: must be a profile's",
		`"reservedFor": {"fingerprint": "000000000000000g"}`: "machines[0].reservedFor.fingerprint: must be a profile's",
		`"reservedFor": {"priority": 7}`:                     "machines[0].reservedFor.need: is missing",
	} {
		if _, err := world.Read(strings.NewReader(machine(more))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", more, err, want)
		}
	}
}

// TestInputOfAnEmptyShardIsAFile: before anybody has reported, too.
func TestInputOfAnEmptyShardIsAFile(t *testing.T) {
	machines, needs, _, err := twin.Tables(reference.Input{})
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := world.WriteInput(&file, engine.Input{Supply: machines, Demand: needs}, engine.DefaultOptions()); err != nil {
		t.Fatal(err)
	}
	w, err := world.Read(&file)
	if err != nil || len(w.Machines)+len(w.Needs)+len(w.Reported) != 0 {
		t.Errorf("%+v, %v", w, err)
	}
}
