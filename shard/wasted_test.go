package shard

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/history"
	"github.com/tonnage/tonnage/engine/model"
)

// noProvider answers nothing; cycles are played by hand here.
type noProvider struct{ Provider }

// TestUndoneIsCountedByWhatHasChanged: a machine that is bound in one cycle and reclaimed in a
// later one, by what has changed in between.
func TestUndoneIsCountedByWhatHasChanged(t *testing.T) {
	needs := func(amount int64) []model.Need {
		p, err := model.NewProfile(model.ProfileSpec{Priority: 1})
		if err != nil {
			t.Fatal(err)
		}
		cpu := model.NewResources(model.Amount{Name: "cpu", Value: amount})
		return []model.Need{{Profile: p, Aggregate: cpu, MinUnit: cpu}}
	}
	report := func(s *Shard, cluster string, amount int64) {
		if _, err := s.ApplyRollup(cluster, needs(amount), 1); err != nil {
			t.Fatal(err)
		}
		s.intake.TakeMail()
	}
	for _, c := range []struct {
		name       string
		between    func(*Shard)
		reconciled Reconciled
		nothing    int
		elsewhere  int
	}{
		{"nothing changes", func(*Shard) {}, Reconciled{}, 1, 0},
		{"the same is reported", func(s *Shard) { report(s, "c", 4) }, Reconciled{}, 1, 0},
		{"the cluster asks for more", func(s *Shard) { report(s, "c", 8) }, Reconciled{}, 0, 0},
		{"another cluster asks for more", func(s *Shard) { report(s, "d", 8) }, Reconciled{}, 0, 1},
		{"a machine is added", func(*Shard) {}, Reconciled{Added: 1}, 0, 1},
		{"the cluster loses a machine", func(s *Shard) { r, _ := s.inventory.Table.Lookup("lost"); s.inventory.Remove(r) }, Reconciled{}, 0, 0},
		{"a machine of the cluster fails", func(s *Shard) {
			r, _ := s.inventory.Table.Lookup("lost")
			if err := s.inventory.Move(r, model.Failed, ""); err != nil {
				t.Fatal(err)
			}
		}, Reconciled{}, 0, 0},
	} {
		reg := prometheus.NewRegistry()
		s, err := New(DefaultConfig(), Deps{Provider: noProvider{}, Registerer: reg})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for id, state := range map[string]model.State{"m": model.Configured, "lost": model.Draining} {
			m := model.Machine{ID: id, Host: id, State: state, Cluster: "c", Resources: model.NewResources(model.Amount{Name: "cpu", Value: 4})}
			if err := s.inventory.Table.Put(&m); err != nil {
				t.Fatal(err)
			}
			s.inventory.Tally.Add(&m, false)
		}
		report(s, "c", 4)
		report(s, "d", 4)
		play := func(kind engine.Kind, r Reconciled) history.Counts {
			cycle := &Cycle{Started: []Started{{Kind: kind, Machine: "m", Cluster: "c", Need: -1}}}
			cycle.Reconciled = r
			beginHistory(s.inventory.History, s.intake.Table(), &cycle.Reconciled)
			s.inventory.History.Decided(s.intake.Table())
			cycle.Plan = &engine.Plan{}
			closeHistory(s.inventory, cycle, cycle.Plan)
			s.observer.metrics.wasted.cycle(cycle)
			return cycle.Wasted
		}
		play(engine.Bootstrap, Reconciled{})
		c.between(s)
		got := play(engine.Reclaim, c.reconciled)
		if got.Undone[history.BoundReclaimed] != c.nothing || got.UndoneElsewhere[history.BoundReclaimed] != c.elsewhere {
			t.Errorf("%s: it counts %+v", c.name, got)
		}
		for changed, want := range map[string]int{undoneUnchanged: c.nothing, undoneElsewhere: c.elsewhere} {
			if got := undoneSeries(t, reg, changed); got != float64(want) {
				t.Errorf("%s: the series of %s is %v, want %d", c.name, changed, got, want)
			}
		}
	}
}

// undoneSeries returns the counter of machines that were bound and reclaimed.
func undoneSeries(t *testing.T, reg *prometheus.Registry, changed string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "tonnage_shard_actions_undone_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["actions"] == history.BoundReclaimed.String() && labels["changed"] == changed {
				return m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("no series of %s", changed)
	return 0
}
