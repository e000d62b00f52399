package engine_test

import (
	"fmt"
	"log"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
)

// Two idle machines and one quota slot; a cluster asks for twelve cores in
// units of four.
func Example() {
	machines := supply.New()
	for _, m := range []model.Machine{
		{ID: "m-1", State: model.Idle, Host: "h1", Zone: "zone-a", PricePerHour: 0.20, Resources: cores(4)},
		{ID: "m-2", State: model.Idle, Host: "h2", Zone: "zone-b", PricePerHour: 0.10, Resources: cores(4)},
		{ID: "m-3", State: model.Speculative, Zone: "zone-a", PricePerHour: 0.15, Resources: cores(4)},
	} {
		if err := machines.Put(&m); err != nil {
			log.Fatal(err)
		}
	}
	profile, err := model.NewProfile(model.ProfileSpec{
		Requirements: []model.Requirement{{Key: model.KeyZone, Operator: model.In, Values: []string{"zone-a", "zone-b"}}},
		Priority:     1000,
		Interruption: model.BucketForDollars(64),
	})
	if err != nil {
		log.Fatal(err)
	}
	needs := demand.New()
	if err := needs.Replace("c1", []model.Need{{Profile: profile, Aggregate: cores(12), MinUnit: cores(4)}}); err != nil {
		log.Fatal(err)
	}

	e, err := engine.New(engine.DefaultOptions())
	if err != nil {
		log.Fatal(err)
	}
	plan, err := e.Cycle(engine.Input{Supply: machines, Demand: needs, Now: 0})
	if err != nil {
		log.Fatal(err)
	}
	for _, a := range plan.Actions {
		cluster, _ := plan.Identity(int(a.Need))
		fmt.Println(a.Kind, machines.ID(a.Machine), "for", cluster, "because", a.Reason)
	}
	fmt.Println("satisfied:", plan.Satisfied(0))
	// Output:
	// Bootstrap m-2 for c1 because phase1.idle
	// Bootstrap m-1 for c1 because phase1.idle
	// Provision m-3 for c1 because phase1.speculative
	// satisfied: true
}

// What the caller did, and what the provider says, goes back into the tables;
// the next cycle then finds the demand covered.
func ExampleEngine_Cycle_applyChanges() {
	machines, needs := supply.New(), demand.New()
	must(machines.Put(&model.Machine{ID: "m-1", State: model.Idle, Host: "h1", Resources: cores(8)}))
	profile, err := model.NewProfile(model.ProfileSpec{Priority: 10})
	must(err)
	must(needs.Replace("c1", []model.Need{{Profile: profile, Aggregate: cores(8)}}))
	e, err := engine.New(engine.DefaultOptions())
	must(err)

	plan, err := e.Cycle(engine.Input{Supply: machines, Demand: needs})
	must(err)
	a := plan.Actions[0]
	n := plan.Need(int(a.Need))
	fmt.Println("first cycle:", a.Kind, machines.ID(a.Machine))

	// The stamp says whom the machine serves; then it is bound.
	must(machines.Transition(a.Machine, model.Configuring, n.Cluster, 0))
	machines.Stamp(a.Machine, model.Assignment{
		Priority: n.Profile.Priority(), Interruption: n.Profile.Interruption(), Reclamation: n.Profile.Reclamation(),
		Fingerprint: n.Profile.Fingerprint(), Group: n.Group,
	})
	must(machines.Transition(a.Machine, model.Configured, n.Cluster, 0))

	plan, err = e.Cycle(engine.Input{Supply: machines, Demand: needs})
	must(err)
	fmt.Println("second cycle:", len(plan.Actions), "actions, satisfied:", plan.Satisfied(0))

	// The cluster's next roll-up asks for nothing.
	must(needs.Replace("c1", nil))
	plan, err = e.Cycle(engine.Input{Supply: machines, Demand: needs})
	must(err)
	fmt.Println("third cycle:", plan.Actions[0].Kind, machines.ID(plan.Actions[0].Machine))
	// Output:
	// first cycle: Bootstrap m-1
	// second cycle: 0 actions, satisfied: true
	// third cycle: Reclaim m-1
}

// Why a need is short.
func ExampleEngine_ExplainNeed() {
	machines, needs := supply.New(), demand.New()
	must(machines.Put(&model.Machine{ID: "small", State: model.Idle, Host: "h1", Resources: cores(2)}))
	must(machines.Put(&model.Machine{ID: "busy", State: model.Configured, Host: "h2", Cluster: "c2", Resources: cores(8), Assigned: model.Assignment{Priority: 900}}))
	profile, err := model.NewProfile(model.ProfileSpec{Priority: 10})
	must(err)
	must(needs.Replace("c1", []model.Need{{Profile: profile, Aggregate: cores(8), MinUnit: cores(4)}}))
	e, err := engine.New(engine.DefaultOptions())
	must(err)

	plan, err := e.Cycle(engine.Input{Supply: machines, Demand: needs})
	must(err)
	x := e.ExplainNeed(0)
	fmt.Println("reason:", plan.Unmet(0))
	fmt.Println("too small:", x.Machines[engine.VerdictSize], "in another cluster:", x.Machines[engine.VerdictCluster])
	// Output:
	// reason: priority_starved
	// too small: 1 in another cluster: 1
}

func cores(n int64) model.Resources {
	return model.NewResources(model.Amount{Name: "cpu", Value: 1000 * n})
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
