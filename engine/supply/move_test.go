package supply

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// inState returns a record in a state, with everything set that it may carry.
func inState(s model.State) model.Machine {
	m := machine(1)
	m.State = s
	m.Assigned = model.Assignment{Priority: 5, Fingerprint: 9, Group: "g", Reclamation: 3}
	m.Reservation.Owner = model.Owner{Cluster: "owner", Fingerprint: 9}
	m.IdleSince = 3
	switch s {
	case model.Configuring, model.Configured, model.Draining:
		m.Cluster = "c"
	}
	if s != model.Speculative && s != model.Creating {
		m.Host = "host"
	}
	return m
}

// TestLegalMoves tries every move: the ones that the contract lists are made,
// all others are refused and change nothing.
func TestLegalMoves(t *testing.T) {
	legal := map[model.State][]model.State{
		model.Speculative: {model.Creating},
		model.Creating:    {model.Idle, model.Failed},
		model.Idle:        {model.Configuring, model.Deleting},
		model.Configuring: {model.Configured, model.Failed, model.Idle},
		model.Configured:  {model.Draining},
		model.Draining:    {model.Idle, model.Failed},
		model.Deleting:    {model.Speculative, model.Failed},
	}
	for from := model.Speculative; from <= model.Failed; from++ {
		for to := model.State(0); to < model.State(model.NumStates)+2; to++ {
			x := New()
			p := needs(t, "zone", model.Same)
			use(t, x, p)
			r := put(t, x, inState(from))
			before, version := x.Get(r), x.Version()
			err := x.Transition(r, to, "c", 77)
			want := false
			for _, l := range legal[from] {
				want = want || l == to
			}
			if (err == nil) != want {
				t.Errorf("%s -> %s: %v", from, to, err)
			}
			at := to
			if err != nil {
				at = from
				if !reflect.DeepEqual(x.Get(r), before) || x.Version() != version {
					t.Errorf("%s -> %s was refused and changed the record to %+v", from, to, x.Get(r))
				}
			}
			if x.Count(at) != 1 || x.CountMatching(at, x.Matcher(p)) != 1 || !x.InState(at).Contains(uint32(r)) {
				t.Errorf("%s -> %s: counted or indexed elsewhere", from, to)
			}
			m := x.Get(r)
			if m.State == model.Failed {
				m.LastError = "x"
			}
			if err := m.Validate(false); err != nil {
				t.Errorf("%s -> %s leaves a record that contradicts itself: %v", from, to, err)
			}
		}
	}
}

// TestWhatAMoveChanges follows machines through their lives.
func TestWhatAMoveChanges(t *testing.T) {
	stamp := inState(model.Idle).Assigned
	for _, c := range []struct {
		from, to model.State
		want     func(*model.Machine)
	}{
		{model.Creating, model.Idle, func(m *model.Machine) { m.IdleSince = 77 }},
		{model.Idle, model.Configuring, func(m *model.Machine) { m.Cluster = "new" }},
		{model.Configuring, model.Configured, func(*model.Machine) {}},
		{model.Configured, model.Draining, func(*model.Machine) {}},
		{model.Draining, model.Idle, func(m *model.Machine) { m.Cluster, m.Assigned, m.IdleSince = "", model.Assignment{}, 77 }},
		{model.Configuring, model.Idle, func(m *model.Machine) { m.Cluster, m.Assigned, m.IdleSince = "", model.Assignment{}, 77 }},
		{model.Idle, model.Deleting, func(m *model.Machine) { m.Assigned, m.Reservation = model.Assignment{}, model.Reservation{} }},
		{model.Deleting, model.Speculative, func(m *model.Machine) {
			m.Assigned, m.Reservation, m.Host, m.IdleSince = model.Assignment{}, model.Reservation{}, "", 0
		}},
		{model.Draining, model.Failed, func(m *model.Machine) { m.Reservation = model.Reservation{} }},
	} {
		x := New()
		want := inState(c.from)
		r := put(t, x, want)
		if err := x.Transition(r, c.to, "new", 77); err != nil {
			t.Fatal(err)
		}
		want.State = c.to
		c.want(&want)
		if got := x.Get(r); !reflect.DeepEqual(got, want) {
			t.Errorf("%s -> %s:\n%+v, want\n%+v (stamped with %+v before)", c.from, c.to, got, want, stamp)
		}
	}
}

// TestConfiguringNeedsACluster, and one that can be a name.
func TestConfiguringNeedsACluster(t *testing.T) {
	for _, cluster := range []string{"", strings.Repeat("c", model.NameBytesMax+1)} {
		x := New()
		r := put(t, x, inState(model.Idle))
		if err := x.Transition(r, model.Configuring, cluster, 1); err == nil || x.State(r) != model.Idle {
			t.Errorf("cluster of %d bytes: %v, now %s", len(cluster), err, x.State(r))
		}
		m := inState(model.Configuring)
		m.Cluster = ""
		r = put(t, x, m)
		if err := x.Transition(r, model.Configured, cluster, 1); err == nil || x.State(r) != model.Configuring {
			t.Errorf("Configured for a cluster of %d bytes: %v, now %s", len(cluster), err, x.State(r))
		}
		if err := x.Transition(r, model.Configured, "c", 1); err != nil || x.Cluster(r) != "c" {
			t.Errorf("Configured for c: %v, now for %q", err, x.Cluster(r))
		}
	}
}

// TestRowsWithoutMachine: changes and questions about rows that do not exist,
// or no longer, do nothing.
func TestRowsWithoutMachine(t *testing.T) {
	x := New()
	r := put(t, x, inState(model.Idle))
	x.Remove(machine(1).ID)
	version := x.Version()
	for _, row := range []columnar.Row{columnar.None, r, r + 1, 1000, math.MaxUint32} {
		if x.Transition(row, model.Configuring, "c", 1) == nil || x.SetPrice(row, 1, 0) == nil {
			t.Errorf("row %d has been changed", row)
		}
		x.Stamp(row, model.Assignment{Group: "g"})
		x.Reserve(row, model.Reservation{Owner: model.Owner{Cluster: "c"}})
		x.SetHost(row, "host")
		x.SetError(row, "error")
		if x.Has(row) || x.ID(row) != "" || x.Cluster(row) != "" || x.State(row) != model.StateUnspecified ||
			!reflect.DeepEqual(x.Get(row), model.Machine{}) || x.Reservation(row).Active() || x.Assigned(row) != (model.Assignment{}) {
			t.Errorf("row %d has a machine: %+v", row, x.Get(row))
		}
	}
	if x.Version() != version || x.ReservationCount() != 0 || x.names.dict.Len() != 0 {
		t.Error("something has changed")
	}
}

// TestStampBeyondTheLadder: Stamp has no way to refuse.
func TestStampBeyondTheLadder(t *testing.T) {
	x := New()
	r := put(t, x, inState(model.Idle))
	x.Stamp(r, model.Assignment{Interruption: 200, Reclamation: 28})
	if a := x.Assigned(r); a.Interruption != model.BucketPinned || a.Reclamation != model.BucketPinned {
		t.Errorf("stamped %+v", a)
	}
}
