package twin

import (
	"maps"
	"time"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/reference"
)

// Check runs the reference on the state of the tables, which must be the one
// that the plan was made from, and returns the first difference, "" when the
// plans agree, and how long the reference took to decide.
func Check(in engine.Input, opts engine.Options, plan *engine.Plan) (difference string, took time.Duration) {
	ref, at := Read(in, opts)
	began := time.Now()
	want := reference.Decide(ref)
	took = time.Since(began)
	return Diff(Translate(plan, Results(plan), in.Supply, at, len(ref.Needs)), want), took
}

// Read writes the state of the tables in the reference's terms; at is that of
// Tables.
func Read(in engine.Input, opts engine.Options) (ref reference.Input, at map[string][]int) {
	ref = reference.Input{
		Now: in.Now, DrainSeconds: in.DrainSeconds, Reported: map[string]bool{},
		Options: ReferenceOptions(&opts),
	}
	note := func(cluster string) { ref.Reported[cluster] = in.Demand.Reported(cluster) }
	for r := range in.Supply.All() {
		m := in.Supply.Get(r)
		ref.Machines = append(ref.Machines, m)
		note(m.Cluster)
		note(m.Reservation.Owner.Cluster)
	}
	at = map[string][]int{}
	for _, c := range in.Demand.Clusters() {
		note(c)
		for _, n := range in.Demand.Rows(c) {
			at[c] = append(at[c], len(ref.Needs))
			ref.Needs = append(ref.Needs, n)
		}
	}
	maps.DeleteFunc(ref.Reported, func(_ string, reported bool) bool { return !reported })
	return ref, at
}
