package shard_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
)

func toldWorld(t *testing.T, ms []model.Machine, options ...option) (*world, *operators) {
	o := &operators{away: map[string]bool{}}
	return newWorld(t, ms, append(options, func(_ *shard.Config, d *shard.Deps, _ *provCfg) { d.Operators = o })...), o
}

// TestOperatorsHearOfEveryChange: also of the one that ends the binding.
func TestOperatorsHearOfEveryChange(t *testing.T) {
	w, o := toldWorld(t, machines(1, model.Idle, ""), latencies(0, 10*time.Second, 10*time.Second))
	w.report("c1", need(t, 1, 4))
	w.step()
	if got := o.told("c1"); !slices.Contains(got, "m-00 Configuring") {
		t.Errorf("bound: %v", got)
	}
	w.step()
	if got := o.told("c1"); !slices.Equal(got, []string{"m-00 Configured"}) {
		t.Errorf("configured: %v", got)
	}
	w.report("c1")
	w.step()
	if got := o.told("c1"); !slices.Equal(got, []string{"m-00 Draining"}) {
		t.Errorf("reclaimed: %v", got)
	}
	w.step()
	if got := o.told("c1"); !slices.Equal(got, []string{"m-00 Idle"}) {
		t.Errorf("drained: %v", got)
	}
}

// TestNewsOfAMachine names the node, its host and its shape.
func TestNewsOfAMachine(t *testing.T) {
	for name, x := range map[string]struct {
		labels map[string]string
		node   string
	}{
		"named":   {map[string]string{"kubernetes.io/hostname": "node-7", "rack": "r1"}, "node-7"},
		"unnamed": {map[string]string{"rack": "r1"}, "m"},
		"a provider that says what it is counted for": {map[string]string{model.LabelCountedFor: "everybody"}, "m"},
	} {
		m := machine("m", model.Configured, "c1")
		m.Host, m.Zone, m.Labels, m.Allocatable = "host-7", "z1", x.labels, cpu(3)
		w, o := toldWorld(t, []model.Machine{m})
		w.step()
		if len(o.states) != 1 {
			t.Fatalf("%s: told %+v", name, o.states)
		}
		u := o.states[0]
		labels := maps.Clone(x.labels)
		labels[model.KeyInstanceType], labels[model.KeyZone] = "t", "z1"
		delete(labels, model.LabelCountedFor) // its cluster has not reported
		if u.Cluster != "c1" || u.Machine != "m" || u.State != model.Configured || u.NodeName != x.node || u.ProviderID != "host-7" ||
			!maps.Equal(u.Labels, labels) || u.Resources.Get("cpu") != 3 {
			t.Errorf("%s: told %+v", name, u)
		}
	}
}

// TestOperatorsHearOfFailureAndLoss: with the reason.
func TestOperatorsHearOfFailureAndLoss(t *testing.T) {
	w, o := toldWorld(t, machines(2, model.Configured, "c1"))
	w.report("c1", need(t, 1, 8))
	w.step()
	o.told("c1")
	w.fleet.Lose("m-01")
	w.step()
	o.mu.Lock()
	got := o.states
	o.mu.Unlock()
	if len(got) != 1 || got[0].Machine != "m-01" || got[0].State != model.Failed || got[0].LastError == "" {
		t.Errorf("told %+v", got)
	}
}

// TestResyncTellsAllThatIsBound: and nothing of others.
func TestResyncTellsAllThatIsBound(t *testing.T) {
	ms := append(machines(3, model.Configured, "c1"), machine("x", model.Configured, "c2"), machine("y", model.Idle, ""))
	w, o := toldWorld(t, ms)
	o.away["c1"] = true
	w.step()
	if got := o.told("c1"); len(got) != 0 {
		t.Errorf("told while away: %v", got)
	}
	delete(o.away, "c1")
	o.told("c2")
	if n := w.shard.Resync("c1"); n != 3 {
		t.Errorf("resync of %d machines", n)
	}
	if got := o.told("c1"); len(got) != 3 {
		t.Errorf("told %v", got)
	}
	if got := o.told("c2"); len(got) != 0 {
		t.Errorf("c2 told %v", got)
	}
	if n := w.shard.Resync("nobody"); n != 0 {
		t.Errorf("resync of nobody: %d", n)
	}
}

func (o *operators) hinted() (out []string) {
	for _, h := range o.hints {
		out = append(out, fmt.Sprintf("%s p%d %d %d $%v", h.Cluster, h.Profile.Priority(), h.Count, h.Confidence, h.CostPerHour))
	}
	o.hints = nil
	slices.Sort(out)
	return out
}

// TestHintsHonourEveryRequirement: and say how soon, and for how much.
func TestHintsHonourEveryRequirement(t *testing.T) {
	var ms []model.Machine
	add := func(id string, s model.State, rack string, price float64) {
		m := inRack(machine(id, s, ""), rack)
		m.PricePerHour = price
		ms = append(ms, m)
	}
	add("i1", model.Idle, "r1", 3)
	add("i2", model.Idle, "r1", 2)
	add("i3", model.Idle, "r2", 1)
	add("s1", model.Speculative, "r1", 1)
	add("s2", model.Speculative, "r3", 1)
	w, o := toldWorld(t, ms, configured(func(c *shard.Config) { c.Paused = true }))
	want := func(priority int32, rack string) model.Need {
		n := need(t, priority, 4)
		n.Profile = profile(t, model.ProfileSpec{Priority: priority, Requirements: []model.Requirement{{Key: "rack", Operator: model.In, Values: []string{rack}}}})
		return n
	}
	w.report("c1", want(1, "r1"), want(2, "r3"), want(3, "r4"))
	w.report("c2", want(2, "r3"))
	w.step()
	if got := o.hinted(); !slices.Equal(got, []string{"c1 p1 3 4 $2", "c1 p2 1 3 $0", "c1 p3 0 1 $0", "c2 p2 1 3 $0"}) {
		t.Errorf("got %q", got)
	}
	w.step()
	if got := o.hinted(); len(got) != 0 {
		t.Errorf("told again what has not changed: %q", got)
	}
	price := 5.0
	if err := w.fleet.Change("i2", change{PricePerHour: &price}); err != nil {
		t.Fatal(err)
	}
	w.step()
	if got := o.hinted(); !slices.Equal(got, []string{"c1 p1 3 4 $3"}) {
		t.Errorf("after a price has changed: %q", got)
	}
	w.shard.Resync("c2")
	w.step()
	if got := o.hinted(); !slices.Equal(got, []string{"c2 p2 1 3 $0"}) {
		t.Errorf("after c2 has connected again: %q", got)
	}
}

// TestHintsAreNotTooMany: one pair is told once per interval, whatever happens.
func TestHintsAreNotTooMany(t *testing.T) {
	w, o := toldWorld(t, machines(1, model.Idle, ""), configured(func(c *shard.Config) {
		c.Paused, c.HintInterval = true, 25*time.Second
	}))
	w.report("c1", need(t, 1, 4))
	rounds := 0
	for i := range 10 {
		if err := w.fleet.Add(machine(fmt.Sprint("x", i), model.Idle, "")); err != nil {
			t.Fatal(err)
		}
		w.step()
		rounds += len(o.hinted())
	}
	if rounds != 4 { // at 0, 30, 60 and 90 seconds
		t.Errorf("%d hints in 100 s, want one per 25 s at most", rounds)
	}
}

// TestAuditTellsWhatBecameOfEachAction: carried out or held back, and by what.
func TestAuditTellsWhatBecameOfEachAction(t *testing.T) {
	var records []shard.AuditRecord
	w := newWorld(t, append(machines(4, model.Configured, "low"), machine("s", model.Speculative, "")), func(c *shard.Config, d *shard.Deps, _ *provCfg) {
		d.Audit = func(r *shard.AuditRecord) { records = append(records, *r) }
		c.ReclaimCapFraction = 0.05
	})
	take := func() (out []string) {
		for _, r := range records {
			out = append(out, fmt.Sprint(r.Kind, " ", r.Disposition, " ", r.Outcome))
		}
		records = nil
		slices.Sort(out)
		return out
	}
	w.report("low", need(t, 1, 4))
	w.report("top", need(t, 600_000, 4))
	w.shard.SetPaused(true)
	w.step()
	if got := take(); !slices.Contains(got, "Provision paused ") || slices.ContainsFunc(got, func(s string) bool { return s[len(s)-1] != ' ' }) {
		t.Errorf("paused: %q", got)
	}
	w.shard.SetPaused(false)
	w.step()
	if got := take(); !slices.Equal(got, []string{"Provision executed success", "Reclaim executed success", "Reclaim reclaim-cap ", "Reclaim reclaim-cap "}) {
		t.Errorf("carried out: %q", got)
	}
	w.step()
	i := slices.IndexFunc(records, func(r shard.AuditRecord) bool { return r.Kind == "Bootstrap" })
	if i < 0 {
		t.Fatalf("nothing is bound: %+v", records)
	}
	r := records[i]
	if r.Machine != "s" || r.Cluster != "top" || r.Need == nil || r.Need.Cluster != "top" || r.Need.Priority != 600_000 ||
		r.Need.Fingerprint == "" || r.Need.Rank != 0 || r.Reason == "" || r.Cycle == 0 || r.Time != w.now {
		t.Errorf("got %+v, need %+v", r, r.Need)
	}
}

// lastCount is what the last news of a machine says that it is counted for.
func (o *operators) lastCount() string {
	if len(o.states) == 0 {
		return "nothing is told"
	}
	u := o.states[len(o.states)-1]
	o.states = nil
	return strings.TrimSpace(u.State.String() + " " + u.Labels[model.LabelCountedFor])
}

// TestOperatorsHearWhatMachinesAreCountedFor: for a group or a row, at once when that changes, also because rows have the fingerprint of a stamp
// that others had before.
func TestOperatorsHearWhatMachinesAreCountedFor(t *testing.T) {
	rack := func(n model.Need, op model.Operator) model.Need {
		n.Profile = profile(t, model.ProfileSpec{Priority: 1, Requirements: []model.Requirement{{Key: "rack", Operator: op, Values: []string{"r"}}}})
		return n
	}
	fold, same := rack(gang(t, 1, 4), model.Same), rack(need(t, 1, 4), model.In) // a fold of the first has the profile of the second
	w, o := toldWorld(t, []model.Machine{inRack(machine("m", model.Idle, ""), "r")})
	for _, c := range []struct {
		name string
		rows []model.Need
		last string
	}{
		{"bound for a group", []model.Need{gang(t, 1, 4)}, "Configured group"},
		{"given to a row", []model.Need{need(t, 1, 4)}, "Configured row"},
		{"kept", []model.Need{need(t, 1, 4)}, "nothing is told"},
		{"given to a group", []model.Need{fold}, "Configured group"},
		{"its fingerprint is a row's too", []model.Need{fold, same}, "Configured"},
		{"its fingerprint is a row's alone", []model.Need{same}, "Configured row"},
		{"given back", nil, "Idle"},
	} {
		w.report("c1", c.rows...)
		w.step()
		w.step()
		if got := o.lastCount(); got != c.last {
			t.Errorf("%s: told %q in the end, want %q", c.name, got, c.last)
		}
	}
}

// TestOperatorsHearCountsAfterARestart: while the cluster has not reported nobody can tell; then the operator hears.
func TestOperatorsHearCountsAfterARestart(t *testing.T) {
	w, o := toldWorld(t, []model.Machine{inRack(machine("m", model.Idle, ""), "r")})
	w.report("c1", gang(t, 1, 4))
	w.step()
	w.step()
	w.restart()
	w.step()
	o.states = nil
	w.shard.Resync("c1")
	if got := o.lastCount(); got != "Configured" {
		t.Errorf("before the cluster reports: %q", got)
	}
	w.report("c1", gang(t, 1, 4))
	w.step()
	if got := o.lastCount(); got != "Configured group" {
		t.Errorf("after that: %q", got)
	}
}

// TestOperatorsHearCountsOfManyProfiles: so it is where more profiles come at once than are remembered one by one.
func TestOperatorsHearCountsOfManyProfiles(t *testing.T) {
	w, o := toldWorld(t, []model.Machine{inRack(machine("m", model.Idle, ""), "r")})
	w.report("c1", gang(t, 1, 4))
	w.step()
	w.step()
	w.restart()
	w.step()
	o.states = nil
	w.report("c1", gang(t, 1, 4))
	many := make([]model.Need, 5000)
	for i := range many {
		many[i] = need(t, int32(-i-1), 4)
	}
	w.report("c2", many...)
	w.step()
	if got := o.lastCount(); got != "Configured group" {
		t.Errorf("told %q", got)
	}
}
