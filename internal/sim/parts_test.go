package sim

import (
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/history"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
)

// TestParts: a machine that is reclaimed was a part that something larger has made superfluous only
// when its Need lacked something with it, lacks no more now, and has a machine that it had not then.
func TestParts(t *testing.T) {
	cpu := func(n int64) model.Resources { return model.NewResources(model.Amount{Name: "cpu", Value: n}) }
	gpu := model.NewResources(model.Amount{Name: "gpu", Value: 1})
	for _, c := range []struct {
		name          string
		lacked, lacks model.Resources // when it is bound, and when it goes
		now           map[string]string
		undone        int
		want          int
	}{
		{"a larger one came", cpu(4), nil, map[string]string{"large": "n"}, 1, 1},
		{"the Need lacks as much", cpu(4), cpu(4), map[string]string{"large": "n"}, 1, 1},
		{"the Need lacks less", cpu(4), cpu(2), map[string]string{"large": "n"}, 1, 1},
		{"the Need was covered with it", nil, nil, map[string]string{"large": "n"}, 1, 0},
		{"the Need lacks more", cpu(4), cpu(5), map[string]string{"large": "n"}, 1, 0},
		{"the Need lacks something else", cpu(4), gpu, map[string]string{"large": "n"}, 1, 0},
		{"nothing came", cpu(4), nil, map[string]string{"small": "n"}, 1, 0},
		{"the larger one is another Need's", cpu(4), nil, map[string]string{"large": "m"}, 1, 0},
		{"a change explains it", cpu(4), nil, map[string]string{"large": "n"}, 0, 0},
	} {
		p := parts{}
		bind := Cycle{Actions: []Action{{engine.Bootstrap, "small", "n", "c"}}, lacks: map[string]model.Resources{"n": c.lacked}}
		if got := p.take(&bind, map[string]string{"small": "n"}, nil).parts; len(got) != 0 {
			t.Errorf("%s: binding counts %v", c.name, got)
		}
		end := Cycle{Actions: []Action{{Kind: engine.Reclaim, Machine: "small"}}, lacks: map[string]model.Resources{"n": c.lacks}}
		end.wasted.Undone[history.BoundReclaimed] = c.undone
		if got := p.take(&end, c.now, nil).parts; len(got) != c.want {
			t.Errorf("%s: %v are excepted, want %d", c.name, got, c.want)
		}
	}
}

// TestPartsThatWereBought: a part that was bought is excepted when it is reclaimed, and so is its deletion after that.
func TestPartsThatWereBought(t *testing.T) {
	cpu := model.NewResources(model.Amount{Name: "cpu", Value: 4})
	for _, c := range []struct {
		name   string
		lacked model.Resources // when it is bought
		want   int             // each of the Reclaim and the Delete
	}{{"a part", cpu, 1}, {"what covered its Need", nil, 0}} {
		p := parts{}
		play := func(a Action, lacks model.Resources, claims map[string]string, undone ...history.Undoing) int {
			x := Cycle{Actions: []Action{a}, lacks: map[string]model.Resources{"n": lacks}}
			for _, u := range undone {
				x.wasted.Undone[u] = 1
			}
			return len(p.take(&x, claims, nil).parts)
		}
		claims := map[string]string{"small": "n"}
		play(Action{engine.Provision, "small", "n", "c"}, c.lacked, claims)
		play(Action{engine.Bootstrap, "small", "n", "c"}, c.lacked, claims)
		claims = map[string]string{"large": "n"}
		if got := play(Action{Kind: engine.Reclaim, Machine: "small", cluster: "c"}, nil, claims, history.BoundReclaimed); got != c.want {
			t.Errorf("%s: %d Reclaims are excepted, want %d", c.name, got, c.want)
		}
		if got := play(Action{Kind: engine.Delete, Machine: "small"}, nil, claims, history.BoughtDeleted); got != c.want {
			t.Errorf("%s: %d Deletes are excepted, want %d", c.name, got, c.want)
		}
	}
}

// TestSooner: a machine that drained for a Need and goes back was made superfluous by something sooner only when its Need lacks
// no more, and has a machine that neither it nor its plan had.
func TestSooner(t *testing.T) {
	cpu := func(n int64) model.Resources { return model.NewResources(model.Amount{Name: "cpu", Value: n}) }
	for _, c := range []struct {
		name    string
		lacks   model.Resources // when the machine goes back
		now     map[string]string
		cluster string // to which it goes
		undone  int
		want    int
	}{
		{"another came", nil, map[string]string{"own": "n", "other": "n"}, "low", 1, 1},
		{"the Need lacks as much", cpu(4), map[string]string{"other": "n"}, "low", 1, 1},
		{"the Need lacks more", cpu(5), map[string]string{"other": "n"}, "low", 1, 0},
		{"its plan had it", nil, map[string]string{"planned": "n"}, "low", 1, 0},
		{"nothing came", nil, map[string]string{"own": "n"}, "low", 1, 0},
		{"it goes to another cluster", nil, map[string]string{"other": "n"}, "third", 1, 0},
		{"a change explains it", nil, map[string]string{"other": "n"}, "low", 0, 0},
	} {
		for _, kind := range []engine.Kind{engine.Preempt, engine.Reclaim} {
			need := "n"
			if kind == engine.Reclaim {
				need = ""
			}
			p := parts{}
			drain := Cycle{Actions: []Action{{kind, "m", need, "low"}}, lacks: map[string]model.Resources{"n": cpu(4)}}
			if got := p.take(&drain, map[string]string{"own": "n"}, map[string][]string{"m": {"n"}, "planned": {"n"}}); len(got.sooner)+len(got.parts) != 0 {
				t.Errorf("%s, %s: draining counts %v", c.name, kind, got)
			}
			back := Cycle{Actions: []Action{{engine.Bootstrap, "m", "l", c.cluster}}, lacks: map[string]model.Resources{"n": c.lacks}}
			back.wasted.Undone[history.PreemptedBoundBack] = c.undone
			if got := p.take(&back, c.now, nil); len(got.sooner) != c.want || len(got.parts) != 0 {
				t.Errorf("%s, %s: %v are explained, want %d", c.name, kind, got, c.want)
			}
		}
	}
}

// TestServed: a Need that lacks only what no machine offers is served, for what plans can do.
func TestServed(t *testing.T) {
	machines := supply.New()
	if err := machines.Put(&model.Machine{ID: "m", Host: "h", State: model.Idle, Resources: model.Resources{{Name: "cpu", Value: 1}}}); err != nil {
		t.Fatal(err)
	}
	if err := machines.Use(nil); err != nil {
		t.Fatal(err)
	}
	s := &scene{in: engine.Input{Supply: machines}}
	for name, want := range map[string]bool{"cpu": false, "example.com/unknown": true} {
		if got := s.served(&engine.NeedResult{Deficit: model.Resources{{Name: name, Value: 1}}}); got != want {
			t.Errorf("a Need that lacks %s is served: %v, want %v", name, got, want)
		}
	}
	if !s.served(&engine.NeedResult{}) {
		t.Error("a Need that lacks nothing is not served")
	}
}
