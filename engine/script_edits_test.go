package engine_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
)

// edit changes the fleet: it carries out a part of the last plan, and lets a few
// other things happen, now and then many.
func (x *script) edit(t *testing.T, last *engine.Plan) {
	t.Helper()
	x.notes = x.notes[:0]
	x.tick()
	if last != nil && x.rng.IntN(3) > 0 {
		x.carryOut(last)
	}
	count := x.rng.IntN(4)
	if x.rng.IntN(20) == 0 {
		count = 12
	}
	for range count {
		x.editOne(t)
	}
}

// tick lets time pass; now and then much of it, and the clock is set back.
func (x *script) tick() {
	switch x.rng.IntN(20) {
	case 0:
		x.now += 3600 * 1e9
	case 1:
		x.now -= x.rng.Int64N(300) * 1e9
	default:
		x.now += x.rng.Int64N(120) * 1e9
	}
}

func (x *script) editOne(t *testing.T) {
	t.Helper()
	switch x.rng.IntN(24) {
	case 0, 1, 2:
		x.editMachine()
	case 3:
		x.loseMachine()
	case 4, 5, 6:
		x.advance()
	case 7, 8:
		x.changeInPlace()
	case 9, 10:
		x.editReservation()
	case 11, 12, 13, 14, 15, 16:
		x.editRows(t)
	case 17:
		x.report(t)
	case 18:
		x.park()
	case 19:
		x.demand.MarkReported(x.cluster())
	case 20:
		x.comeOrGo(t)
	case 21:
		x.backOff()
	case 22:
		seconds := float64(1 + x.rng.IntN(300))
		x.drains[pick(x, "small", "large", "gpu")] = seconds
		x.note("drains take %v s", seconds)
	case 23:
		if x.rng.IntN(3) == 0 {
			x.restart(t)
		}
	}
}

func pick[T any](x *script, from ...T) T { return from[x.rng.IntN(len(from))] }

// editMachine gives a machine the record of another world's, or a new price.
func (x *script) editMachine() {
	w := &x.donors[x.rng.IntN(len(x.donors))]
	m := w.Machines[x.rng.IntN(len(w.Machines))]
	if r := x.someMachine(); r != columnar.None && x.rng.IntN(3) == 0 {
		price := float64(x.rng.IntN(4))
		_ = x.supply.SetPrice(r, price, pick(x, 0, 0, 0.05, 0.3))
		x.note("price of %s %v", x.supply.ID(r), price)
		return
	}
	if x.supply.Put(&m) == nil {
		x.note("put %s %s", m.ID, m.State)
	}
}

// someMachine returns a machine's row, None when there is no machine.
func (x *script) someMachine() columnar.Row {
	if x.supply.Len() > 10_000 { // a list of all takes too long
		for {
			if r := columnar.Row(x.rng.IntN(x.supply.RowMax())); x.supply.Has(r) {
				return r
			}
		}
	}
	rows := slices.Collect(x.supply.All())
	if len(rows) == 0 {
		return columnar.None
	}
	return rows[x.rng.IntN(len(rows))]
}

func (x *script) loseMachine() {
	if r := x.someMachine(); r != columnar.None {
		x.note("lost %s", x.supply.ID(r))
		x.supply.Remove(x.supply.ID(r))
	}
}

// advance moves a machine to a state that may follow: drains end, machines are
// there, or fail.
func (x *script) advance() {
	r := x.someMachine()
	if r == columnar.None {
		return
	}
	to := model.State(x.rng.IntN(model.NumStates))
	if next, ok := nextStates[x.supply.State(r)]; ok && x.rng.IntN(4) > 0 {
		to = next
	}
	if x.supply.Transition(r, to, x.cluster(), x.now) == nil {
		if to == model.Configuring {
			x.supply.Reserve(r, model.Reservation{}) // whoever moves it there does
		}
		x.note("%s is %s", x.supply.ID(r), to)
	}
}

// nextStates is what becomes of a call that succeeds.
var nextStates = map[model.State]model.State{
	model.Creating: model.Idle, model.Configuring: model.Configured, model.Draining: model.Idle, model.Deleting: model.Speculative,
}

// changeInPlace changes a part of a machine's record: where it lies, what it
// offers, or its stamp.
func (x *script) changeInPlace() {
	r := x.someMachine()
	if r == columnar.None {
		return
	}
	m := x.supply.Get(r)
	w := &x.donors[x.rng.IntN(len(x.donors))]
	other := &w.Machines[x.rng.IntN(len(w.Machines))]
	switch x.rng.IntN(5) {
	case 0:
		m.Labels = other.Labels
	case 1:
		m.Zone = other.Zone
	case 2:
		m.Resources, m.Allocatable = other.Resources, other.Allocatable
	case 3:
		m.Assigned = other.Assigned
	case 4:
		x.supply.Stamp(r, stampOf(x.someRow()))
		x.note("stamped %s", m.ID)
		return
	}
	if x.supply.Put(&m) == nil {
		x.note("changed %s", m.ID)
	}
}

// someRow returns a row of the demand, or of another world's.
func (x *script) someRow() *model.Need {
	if rows := x.demand.Rows(x.cluster()); len(rows) > 0 && x.rng.IntN(4) > 0 {
		return &rows[x.rng.IntN(len(rows))]
	}
	w := &x.donors[x.rng.IntN(len(x.donors))]
	return &w.Needs[x.rng.IntN(len(w.Needs))]
}

func stampOf(n *model.Need) model.Assignment {
	p := n.Profile
	return model.Assignment{
		Priority: p.Priority(), Interruption: p.Interruption(), Reclamation: p.Reclamation(), Fingerprint: p.Fingerprint(), Group: n.Group,
	}
}

// editReservation makes, moves or ends a machine's reservation, alone or as part
// of a plan.
func (x *script) editReservation() {
	r := x.someMachine()
	if r == columnar.None {
		return
	}
	if x.supply.Reservation(r).Active() && x.rng.IntN(2) == 0 {
		x.supply.Reserve(r, model.Reservation{})
		x.note("%s is held for nobody", x.supply.ID(r))
		return
	}
	switch x.supply.State(r) {
	case model.Idle, model.Draining, model.Configured, model.Creating:
	default:
		return
	}
	n := x.someRow()
	p := n.Profile
	res := model.Reservation{
		Owner: n.Owner(), Priority: p.Priority(), Interruption: p.Interruption(), Reclamation: p.Reclamation(), Arrival: n.Arrival,
		Deadline: pick(x, 0, 0, x.now, x.now-1, x.now+60e9, x.now+600e9),
	}
	if x.supply.State(r) != model.Creating && x.rng.IntN(2) == 0 {
		res.Plan = 1 + uint64(len(n.Group))
		if same := p.Same(); same != nil {
			m := x.supply.Get(r)
			res.Domain, _ = m.Attribute(same.Key)
		}
	}
	x.supply.Reserve(r, res)
	x.note("%s is held for %s", x.supply.ID(r), n.Cluster)
}

// editRows lets a cluster report something else, or the same.
func (x *script) editRows(t *testing.T) {
	t.Helper()
	c := x.cluster()
	rows := x.demand.Rows(c)
	n := x.someRow()
	if len(rows) == 0 || x.rng.IntN(6) == 0 {
		another := *n
		another.Cluster = c
		rows = append(rows, another)
	} else {
		i := x.rng.IntN(len(rows))
		switch x.rng.IntN(11) {
		case 0:
			rows = slices.Delete(rows, i, i+1)
		case 1, 2:
			rows[i].Profile = n.Profile
		case 3:
			rows[i].Arrival = x.now - x.rng.Int64N(100)*1e9
		case 4:
			x.demand.SetShortSince(c, i, x.now-x.rng.Int64N(200)*1e9)
			return
		case 5:
			rows[i].Group = n.Group
		case 6:
			rows[i].MinUnit = n.MinUnit
		case 7:
			rows[i].MinAggregate = n.MinAggregate
		case 8:
			rows = slices.Insert(rows, i, rows[i])
		default:
			rows[i].Aggregate = n.Aggregate
		}
	}
	for i := range rows {
		limitMinimum(&rows[i])
	}
	if err := x.demand.Replace(c, rows); err != nil {
		t.Fatal(err)
	}
	x.note("%s reports %d rows", c, len(rows))
}

// limitMinimum lowers what a row can live with to what it asks for.
func limitMinimum(n *model.Need) {
	var least []model.Amount
	for _, a := range n.MinAggregate {
		if v := min(a.Value, n.Aggregate.Get(a.Name)); v > 0 {
			least = append(least, model.Amount{Name: a.Name, Value: v})
		}
	}
	n.MinAggregate = model.NewResources(least...)
}

// report lets a cluster report as operators do, whose stamps are new each time:
// rows that go on keep theirs.
func (x *script) report(t *testing.T) {
	t.Helper()
	c := x.cluster()
	rows := x.demand.Rows(c)
	if len(rows) > 1 && x.rng.IntN(2) == 0 {
		i := x.rng.IntN(len(rows))
		rows = slices.Insert(slices.Delete(rows, i, i+1), x.rng.IntN(len(rows)), *x.someRow())
	}
	b := demand.NewBuilder()
	b.Reset(c)
	for i := range rows {
		rows[i].Cluster, rows[i].Arrival = c, x.now
		if err := b.AddNeed(&rows[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.demand.Report(b); err != nil {
		t.Fatal(err)
	}
	x.demand.MarkReported(c)
	x.note("%s reports %d rows anew", c, len(rows))
}

func (x *script) park() {
	c := x.cluster()
	if b := x.demand.Block(c); b != nil {
		row, parked := x.rng.IntN(b.Len()), x.rng.IntN(2) == 0
		x.demand.SetParked(c, row, parked)
		x.note("parked %s %d %v", c, row, parked)
	}
}

// comeOrGo lets a cluster come that nobody knew, or one report no rows at all.
func (x *script) comeOrGo(t *testing.T) {
	t.Helper()
	c, rows := x.cluster(), []model.Need{}
	if x.rng.IntN(2) == 0 {
		c = fmt.Sprintf("%c%d", 'a'+rune(x.rng.IntN(26)), x.rng.IntN(100))
		x.clusters[c] = true
		rows = append(rows, *x.someRow())
		rows[0].Cluster = c
	}
	if err := x.demand.Replace(c, rows); err != nil {
		t.Fatal(err)
	}
	x.note("%s has %d rows", c, len(rows))
}

// backOff lets an owner's plan have failed, or its waiting be over.
func (x *script) backOff() {
	if len(x.backing) > 0 && x.rng.IntN(2) == 0 {
		clear(x.backing)
		x.note("nobody backs off")
		return
	}
	n := x.someRow()
	x.backing[n.Owner()] = true
	x.note("%s backs off", n.Cluster)
}

// restart lets everybody forget: tables are loaded anew, in another order, and
// some clusters have not reported. Half of the time the engines stay.
func (x *script) restart(t *testing.T) {
	t.Helper()
	machines, rows := supply.New(), demand.New()
	order := slices.Collect(x.supply.All())
	x.rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	for _, r := range order {
		m := x.supply.Get(r)
		if err := machines.Put(&m); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range x.demand.Clusters() {
		list := x.demand.Rows(c)
		if x.rng.IntN(4) == 0 {
			continue
		}
		if err := rows.Replace(c, list); err != nil {
			t.Fatal(err)
		}
	}
	x.supply, x.demand = machines, rows
	x.note("restart")
	if x.rng.IntN(2) == 0 {
		x.start(t)
	}
}
