package supply_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
)

// facts is everything that a caller may have derived of every row, by number.
func facts(t *supply.Table) []string {
	out := make([]string, t.RowMax())
	for r := range columnar.Row(t.RowMax()) {
		class := t.Class(r)
		info := t.ClassInfo(class)
		info.Count = 0 // changes with other rows
		out[r] = fmt.Sprintf("%+v class %d %+v cluster %d group %d", t.Get(r), class, info, t.View().Cluster[r], t.View().Group[r])
		for m := uint32(1); int(m) < t.MatcherMax(); m++ {
			v, ok := t.Domain(m, r)
			out[r] += fmt.Sprint(" ", v, ok, t.Matching(t.State(r), m).Contains(uint32(r)))
		}
	}
	return out
}

// TestChangesNameEveryRowThatChanged: whatever edits were made, a row that
// Changes does not name is what it was, by number.
func TestChangesNameEveryRowThatChanged(t *testing.T) {
	start := time.Now().UnixNano()
	complete, edits := 0, 0
	for i := range int64(12) {
		seed := (start + i) & 0xffffff
		s := newScript(seed)
		var was []string
		var numbering supply.Numbering
		_, since, _ := s.t.Changes(0)
		for round := range 60 {
			for range 1 + s.IntN(12) {
				if err := s.step(); err != nil {
					t.Fatalf("seed %d, round %d: %v", seed, round, err)
				}
			}
			rows, now, ok := s.t.Changes(since)
			rows = slices.Clone(rows)
			is := facts(s.t)
			edits++
			if ok {
				complete++
				if numbering != s.t.Numbering() {
					t.Fatalf("seed %d, round %d: complete, but the numbering went from %+v to %+v", seed, round, numbering, s.t.Numbering())
				}
			}
			for r := 1; ok && r < len(is); r++ {
				named := slices.Contains(rows, columnar.Row(r))
				if before := ""; !named {
					if r < len(was) {
						before = was[r]
					}
					if before != is[r] {
						t.Fatalf("seed %d, round %d: row %d is not named, but was\n%s\nand is\n%s", seed, round, r, before, is[r])
					}
					if c := s.t.Class(columnar.Row(r)); c != 0 && s.t.ClassBorn(c) > since {
						t.Fatalf("seed %d, round %d: row %d is not named, but its class is new", seed, round, r)
					}
				}
			}
			slices.Sort(rows)
			if n := len(slices.Compact(rows)); n != len(rows) {
				t.Fatalf("seed %d, round %d: a row is named twice", seed, round)
			}
			was, since, numbering = is, now, s.t.Numbering()
		}
	}
	if complete < edits/4 {
		t.Errorf("only %d of %d answers were complete", complete, edits)
	}
}

// TestChangesForget: too many changes, and numbers that mean something else,
// are told from no change.
func TestChangesForget(t *testing.T) {
	x := supply.New()
	put := func(i int) {
		m := model.Machine{ID: fmt.Sprint("m", i), State: model.Speculative, Resources: model.NewResources(model.Amount{Name: "cpu", Value: 4})}
		if err := x.Put(&m); err != nil {
			t.Fatal(err)
		}
	}
	put(0)
	_, since, _ := x.Changes(0)
	if rows, now, ok := x.Changes(since); len(rows) != 0 || now != since || !ok {
		t.Fatalf("nothing happened: %v, %d → %d, %v", rows, since, now, ok)
	}
	if _, _, ok := x.Changes(since + 1); ok {
		t.Error("changes since a version that is yet to come are complete")
	}
	for range 1024 {
		put(0)
	}
	if rows, _, ok := x.Changes(since); !ok || len(rows) != 1 {
		t.Errorf("1,024 changes of one row: %d rows, complete %v", len(rows), ok)
	}
	put(0)
	if rows, _, ok := x.Changes(since); ok || rows != nil {
		t.Errorf("1,025 changes: %d rows, complete %v", len(rows), ok)
	}
	for i := range 40_000 {
		put(i)
	}
	since = x.Version()
	for i := range 5_000 {
		put(i)
	}
	if rows, _, ok := x.Changes(since); !ok || len(rows) != 5_000 {
		t.Errorf("an eighth of the rows: %d rows, complete %v", len(rows), ok)
	}
	since = x.Version()
	p, err := model.NewProfile(model.ProfileSpec{Requirements: []model.Requirement{{Key: "zone", Operator: model.Exists}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Use([]*model.Profile{p}); err != nil {
		t.Fatal(err)
	}
	if _, now, ok := x.Changes(since); ok || x.Numbering().Matchers == 0 || x.Numbering().Keys == 0 || x.Numbering().Classes == 0 {
		t.Errorf("a new profile: complete %v, %+v", ok, x.Numbering())
	} else if _, _, ok := x.Changes(now); !ok {
		t.Error("after the new profile: not complete")
	}
	since = x.Version()
	m := model.Machine{ID: "gpu", State: model.Speculative, Resources: model.NewResources(model.Amount{Name: "gpu", Value: 1})}
	if err := x.Put(&m); err != nil {
		t.Fatal(err)
	}
	if _, _, ok := x.Changes(since); ok || x.Numbering().Dims != 2 {
		t.Errorf("a new dimension: complete %v, %+v", ok, x.Numbering())
	}
}

// TestChangesAllocateNothing: what is asked every cycle costs no memory.
func TestChangesAllocateNothing(t *testing.T) {
	machines, profiles := records(t, "5k")
	x := fill(t, machines, profiles)
	since := x.Version()
	n := testing.AllocsPerRun(20, func() {
		for r := columnar.Row(1); r < 200; r++ {
			x.Stamp(r, model.Assignment{Priority: int32(r)})
		}
		var rows []columnar.Row
		if rows, since, _ = x.Changes(since); len(rows) != 199 {
			t.Fatalf("%d rows", len(rows))
		}
	})
	if n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestDigestEndsWithTheNextChange: what a row was taken over from is forgotten
// when anything changes it, and by nothing else.
func TestDigestEndsWithTheNextChange(t *testing.T) {
	m := model.Machine{ID: "a", State: model.Creating, Resources: model.NewResources(model.Amount{Name: "cpu", Value: 4})}
	for name, change := range map[string]func(x *supply.Table, r columnar.Row){
		"Put":    func(x *supply.Table, _ columnar.Row) { _ = x.Put(&m) },
		"Remove": func(x *supply.Table, _ columnar.Row) { x.Remove(m.ID) },
		"Remove and Put": func(x *supply.Table, _ columnar.Row) {
			x.Remove(m.ID)
			_ = x.Put(&m)
		},
		"Transition": func(x *supply.Table, r columnar.Row) { _ = x.Transition(r, model.Failed, "", 1) },
		"Stamp":      func(x *supply.Table, r columnar.Row) { x.Stamp(r, model.Assignment{}) },
		"Reserve":    func(x *supply.Table, r columnar.Row) { x.Reserve(r, model.Reservation{}) },
		"SetHost":    func(x *supply.Table, r columnar.Row) { x.SetHost(r, "h") },
		"SetError":   func(x *supply.Table, r columnar.Row) { x.SetError(r, "e") },
		"SetPrice":   func(x *supply.Table, r columnar.Row) { _ = x.SetPrice(r, 1, 0) },
	} {
		x := supply.New()
		r, err := x.PutRow(&m)
		if err != nil || x.Digest(r) != 0 {
			t.Fatal(err)
		}
		x.SetDigest(r, 7)
		other := m
		for i := range 200 { // the columns grow
			other.ID = fmt.Sprint("other", i)
			if err := x.Put(&other); err != nil {
				t.Fatal(err)
			}
		}
		if _ = x.Put(&model.Machine{ID: "a"}); x.Digest(r) != 7 { // refused
			t.Errorf("%s: the digest ended before", name)
		}
		if change(x, r); x.Digest(r) != 0 {
			t.Errorf("%s: the digest goes on", name)
		}
	}
}

// TestLookupAll finds what Lookup finds, and says when rows may be others'.
func TestLookupAll(t *testing.T) {
	machines, profiles := records(t, "tiny")
	x := fill(t, machines, profiles)
	ids := []string{"", "nobody"}
	for i := range machines {
		ids = append(ids, machines[i].ID)
	}
	who := x.Membership()
	rows := make([]columnar.Row, len(ids))
	x.LookupAll(rows, ids)
	for i, id := range ids {
		if want, _ := x.Lookup(id); rows[i] != want {
			t.Fatalf("%q is in row %d, want %d", id, rows[i], want)
		}
	}
	if err := x.Put(&machines[0]); err != nil || x.Membership() != who {
		t.Errorf("a record that is replaced changes who is there: %v", err)
	}
	if x.Remove(machines[0].ID); x.Membership() == who {
		t.Error("a removal does not change who is there")
	}
}
