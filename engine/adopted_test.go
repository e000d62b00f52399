package engine_test

import (
	"fmt"
	"testing"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
	"github.com/tonnage/tonnage/internal/twin"
)

// stampAdopted does what a caller does about a plan's Adopted.
func stampAdopted(x *script, plan *engine.Plan) {
	for _, a := range plan.Adopted {
		x.supply.Stamp(a.Machine, plan.Stamp(int(a.Need)))
	}
}

// unstamped returns a Configured machine that does not carry the stamp of whom
// it serves.
func unstamped(x *script, plan *engine.Plan) (columnar.Row, bool) {
	for i := range plan.Len() {
		n := plan.Need(i)
		for _, r := range n.Claimed {
			is, want := x.supply.Assigned(r), plan.Stamp(i)
			if int(n.Fold) == i && x.supply.State(r).Bound() && (is.Fingerprint != want.Fingerprint || is.Group != want.Group) {
				return r, true
			}
		}
	}
	return columnar.None, false
}

// TestAdoptedAreAllThatServeOthers: when a caller stamps what plans list, each
// machine carries the stamp of whom it serves, whatever changes in between and
// whether or not a cycle builds on the one before.
func TestAdoptedAreAllThatServeOthers(t *testing.T) {
	adopted, built := 0, 0
	for seed := int64(1); seed <= 20; seed++ {
		x, err := newScript(seed, seed%3 == 1)
		if err != nil {
			t.Fatal(err)
		}
		e, err := engine.New(twin.Options(x.options))
		if err != nil {
			t.Fatal(err)
		}
		var plan *engine.Plan
		for step := range scriptSteps {
			x.edit(t, plan)
			if plan, err = e.Cycle(engine.Input{Supply: x.supply, Demand: x.demand, Now: x.now}); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
			adopted += len(plan.Adopted)
			if !plan.Stats.Full {
				built++
			}
			stampAdopted(x, plan)
			if r, found := unstamped(x, plan); found {
				t.Fatalf("seed %d, step %d: %q carries the stamp %+v after %v", seed, step, x.supply.ID(r), x.supply.Assigned(r), x.notes)
			}
		}
		e.Close()
	}
	if adopted == 0 || built == 0 {
		t.Errorf("%d machines were adopted, %d cycles built on another: nothing was tried", adopted, built)
	}
}

// TestStampsChangeLittle: machines that get the stamps of whom they serve go on to
// serve them, at other places in keep order; of their Needs only those are credited
// again that have several.
func TestStampsChangeLittle(t *testing.T) {
	const clusters, rows = 30, 12
	s, d := supply.New(), demand.New()
	for c := range clusters {
		name := fmt.Sprintf("c%02d", c)
		var needs []model.Need
		for i := range rows {
			p, err := model.NewProfile(model.ProfileSpec{Priority: int32(100 - i), Reclamation: model.Bucket(2 + 5*i%17)})
			if err != nil {
				t.Fatal(err)
			}
			cpu := int64(2000)
			if i == rows-1 {
				cpu *= 2
			}
			needs = append(needs, model.Need{Cluster: name, Profile: p, Aggregate: model.NewResources(model.Amount{Name: "cpu", Value: cpu})})
		}
		if err := d.Replace(name, needs); err != nil {
			t.Fatal(err)
		}
		for i := range rows + 1 {
			m := model.Machine{
				ID: fmt.Sprintf("m%02d-%02d", c, i), State: model.Configured, Host: "h", Cluster: name, InstanceType: "t",
				Resources: model.NewResources(model.Amount{Name: "cpu", Value: 2000}),
			}
			if err := s.Put(&m); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range 10 * clusters * rows { // what has changed is little beside them
		m := model.Machine{
			ID: fmt.Sprintf("idle-%04d", i), State: model.Idle, Host: "h", InstanceType: "t",
			Resources: model.NewResources(model.Amount{Name: "cpu", Value: 2000}),
		}
		if err := s.Put(&m); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := engine.New(engine.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	for step, want := range []struct{ adopted, credited int }{{clusters * (rows + 1), clusters * rows}, {0, 0}, {0, 0}} {
		in := engine.Input{Supply: s, Demand: d, Now: int64(1e12) + int64(step)}
		plan, err := kept.Cycle(in)
		if err != nil {
			t.Fatal(err)
		}
		if len(plan.Adopted) != want.adopted || plan.Stats.Credited != want.credited || plan.Stats.Satisfied != d.Len() {
			t.Errorf("cycle %d: %d machines adopted, %d Needs credited, %d of %d satisfied; want %+v",
				step, len(plan.Adopted), plan.Stats.Credited, plan.Stats.Satisfied, d.Len(), want)
		}
		anew, err := engine.New(engine.DefaultOptions())
		if err != nil {
			t.Fatal(err)
		}
		if other, err := anew.Cycle(in); err != nil || other.Digest() != plan.Digest() {
			t.Errorf("cycle %d: another plan than from nothing (%v)", step, err)
		}
		anew.Close()
		for _, a := range plan.Adopted {
			s.Stamp(a.Machine, plan.Stamp(int(a.Need)))
		}
	}
}
