package fleetview

import (
	"context"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/internal/world"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/web"
)

// NeedsAnswer lists Needs: those that are unmet, or all.
type NeedsAnswer struct {
	Total int       `json:"total"`         // that match
	Unmet int       `json:"unmet"`         // in all
	Kept  int       `json:"kept"`          // of them that can be listed with what they are short of
	All   int       `json:"all,omitempty"` // Needs that there are, satisfied ones too; only where all are listed
	Needs []NeedRow `json:"needs"`         // highest priority first, then longest unmet
}

// NeedRow is a Need in a list.
type NeedRow struct {
	Name     string   `json:"name"`
	Key      string   `json:"key"`
	Cluster  string   `json:"cluster"`
	Group    string   `json:"group,omitempty"`
	Profile  string   `json:"profile"`
	Priority int32    `json:"priority"`
	Deficit  []Amount `json:"deficit"`
	Reason   string   `json:"reason"` // empty = it is satisfied, or no cycle has decided about it yet
	Age      float64  `json:"age"`    // seconds
	// Only where all are listed:
	Satisfied bool     `json:"satisfied,omitempty"`
	Wants     []Amount `json:"wants,omitempty"`
	Machines  int      `json:"machines,omitempty"` // that carry its stamp; rows with one stamp share them
	Rows      int      `json:"rows,omitempty"`     // of the demand that fold into it
}

// needs lists Needs: q is text that a row must have, cluster and reason are equal. With state or all=true satisfied ones are
// listed too.
func (v *View) needs(ctx context.Context, q url.Values) (any, error) {
	w, err := windowOf(q)
	if err != nil {
		return nil, err
	}
	switch state := q.Get("state"); state {
	case needShort, needSatisfied:
		return v.everyNeed(ctx, q, w)
	case "":
		if q.Get("all") == "true" {
			return v.everyNeed(ctx, q, w)
		}
	default:
		return nil, fmt.Errorf("%w: state must be %s or %s, got %.40q", web.ErrBadQuery, needShort, needSatisfied, state)
	}
	type entry struct {
		l *unmetList
		x *unmetRow
	}
	out := NeedsAnswer{Needs: []NeedRow{}}
	var all []entry
	v.unmetNow(func(l *unmetList) {
		out.Unmet += l.total
		out.Kept += len(l.rows)
		for i := range l.rows {
			if x := &l.rows[i]; matchesNeed(x, q) {
				all = append(all, entry{l, x})
			}
		}
	})
	slices.SortStableFunc(all, func(a, b entry) int { return a.x.before(b.x) })
	out.Total = len(all)
	for _, e := range cut(w, all) {
		out.Needs = append(out.Needs, NeedRow{
			Name: e.x.name(), Key: e.x.key.text(), Cluster: e.x.key.cluster, Group: e.x.key.group, Profile: inShort(shard.Describe(e.x.profile)),
			Priority: e.x.priority, Deficit: vectorOf(e.l.vector(e.x)), Reason: e.x.reason.String(), Age: float64(e.l.at-e.x.since) / 1e9,
		})
	}
	return out, nil
}

func matchesNeed(x *unmetRow, q url.Values) bool {
	if c := q.Get("cluster"); c != "" && c != x.key.cluster {
		return false
	}
	if r := q.Get("reason"); r != "" && r != x.reason.String() {
		return false
	}
	text := strings.ToLower(q.Get("q"))
	return text == "" || strings.Contains(strings.ToLower(x.name()+" "+x.key.cluster+" "+x.key.group+" "+shard.Describe(x.profile)), text)
}

// NeedAnswer is all that is known of one Need without deciding again.
type NeedAnswer struct {
	Name         string        `json:"name"`
	Key          string        `json:"key"`
	Cluster      string        `json:"cluster"`
	Group        string        `json:"group,omitempty"`
	Profile      string        `json:"profile"`
	Requirements []Requirement `json:"requirements"`
	Priority     int32         `json:"priority"`
	Interruption string        `json:"interruption"` // dollars, as buckets are labelled
	Reclamation  string        `json:"reclamation"`
	Wants        []Amount      `json:"wants"`
	Unit         []Amount      `json:"unit"` // the least that one machine must have
	Arrival      int64         `json:"arrival"`
	Parked       bool          `json:"parked"`
	Unmet        bool          `json:"unmet"`
	Reason       string        `json:"reason,omitempty"`
	Deficit      []Amount      `json:"deficit"`
	Age          float64       `json:"age"`
	// Alike counts the rows of the cluster that machines are stamped with alike, this one included.
	Alike    int              `json:"alike"`
	Held     []MachineRow     `json:"held"` // that carry its stamp, at most listMax
	HeldMore int              `json:"heldMore"`
	Plans    []PlanRow        `json:"plans"` // for it, newest first
	History  []TimedNeedEvent `json:"history"`
}

// Requirement is one condition on a machine.
type Requirement struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"`
	Values   []string `json:"values"`
}

// TimedNeedEvent is a NeedEvent with its cycle.
type TimedNeedEvent struct {
	At    int64  `json:"at"`
	Cycle uint64 `json:"cycle"`
	NeedEvent
}

// findNeed returns the row of a Need: by its name, unless the row has another key by now; then
// by its key. The rows of a cluster get other numbers when it reports others.
func findNeed(in engine.Input, names world.Names, name, key string) (cluster string, row int, _ error) {
	if !world.NamesRow(name) {
		return findNamed(in, names, name)
	}
	at := strings.LastIndexByte(name, '/')
	number, err := strconv.Atoi(name[at+1:])
	if err != nil || number < 0 {
		return "", 0, fmt.Errorf("%w: a Need is called CLUSTER/ROW with a row from 0, got %.80q", web.ErrBadQuery, name)
	}
	cluster = name[:at]
	b := in.Demand.Block(cluster)
	if b == nil {
		return "", 0, fmt.Errorf("%w: cluster %.80q asks for nothing", web.ErrNotFound, cluster)
	}
	has := func(i int) bool {
		p := in.Demand.Profile(b.Profile(i))
		own := needKey{cluster, p.Fingerprint(), b.Group(i)}
		fold := needKey{cluster, p.Folded().Fingerprint(), ""}
		return key == own.text() || p.Same() != nil && key == fold.text()
	}
	if number < b.Len() && (key == "" || has(number)) {
		return cluster, number, nil
	}
	if key != "" {
		for i := range b.Len() {
			if has(i) {
				return cluster, i, nil
			}
		}
		return "", 0, fmt.Errorf("%w: cluster %.80q does not ask for this any more", web.ErrNotFound, cluster)
	}
	return "", 0, fmt.Errorf("%w: cluster %.80q has %d rows, from 0; there is no row %d", web.ErrNotFound, cluster, b.Len(), number)
}

// findNamed returns the row of a Need that has a name of its own. O(rows).
func findNamed(in engine.Input, names world.Names, name string) (cluster string, row int, _ error) {
	if names == nil {
		return "", 0, fmt.Errorf("%w: a Need is called CLUSTER/ROW here, got %.80q", web.ErrBadQuery, name)
	}
	for _, cluster := range in.Demand.Clusters() {
		b := in.Demand.Block(cluster)
		for i := range b.Len() {
			n := in.Demand.Row(b, i)
			if names(cluster, &n) == name {
				return cluster, i, nil
			}
		}
	}
	return "", 0, fmt.Errorf("%w: no Need is called %.80q", web.ErrNotFound, name)
}

// partOf returns the shard that a condition holds of.
func (v *View) partOf(holds func(in engine.Input) bool) (Part, bool) {
	for _, p := range v.parts {
		found := false
		_ = p.Inspect(func(in engine.Input, _ engine.Options, _ *shard.HeldBack) error { found = holds(in); return nil })
		if found {
			return p, true
		}
	}
	return Part{}, false
}

// need answers with one Need: name as explain takes it; key, if there is one, as lists have it.
func (v *View) need(_ context.Context, q url.Values) (any, error) {
	name, err := wanted(q, "name")
	if err != nil {
		return nil, err
	}
	key := q.Get("key")
	out := &NeedAnswer{}
	var stamps stampSet
	for _, p := range v.parts {
		err = p.Inspect(func(in engine.Input, _ engine.Options, _ *shard.HeldBack) error {
			cluster, row, err := findNeed(in, p.names(), name, key)
			if err == nil {
				stamps = out.describe(in, p.names(), cluster, row)
			}
			return err
		})
		if err == nil {
			break
		}
	}
	if err != nil { // of the last shard: no other has it either
		return nil, err
	}
	f, err := v.copy()
	if err != nil {
		return nil, err
	}
	v.addUnmet(out, &stamps)
	f.addHeld(out, &stamps)
	v.addNeedPast(out, &stamps)
	return out, nil
}

// stampSet are the stamps that machines of a row may carry: its own, and its fold's.
type stampSet struct {
	cluster   string
	own, fold needKey
	canFold   bool
}

func (s *stampSet) has(k needKey) bool { return k == s.own || s.canFold && k == s.fold }

func (n *NeedAnswer) describe(in engine.Input, names world.Names, cluster string, row int) stampSet {
	b := in.Demand.Block(cluster)
	r := in.Demand.Row(b, row)
	p := r.Profile
	*n = NeedAnswer{
		Name: names.Of(cluster, row, &r), Cluster: cluster, Group: r.Group, Profile: inShort(shard.Describe(p)),
		Requirements: []Requirement{}, Priority: p.Priority(), Interruption: p.Interruption().Label(), Reclamation: p.Reclamation().Label(),
		Wants: vectorOf(r.Aggregate), Unit: vectorOf(r.MinUnit), Arrival: r.Arrival / 1e6, Parked: r.Parked,
		Deficit: []Amount{}, Held: []MachineRow{}, Plans: []PlanRow{}, History: []TimedNeedEvent{},
	}
	for i := range p.Requirements() {
		x := &p.Requirements()[i]
		n.Requirements = append(n.Requirements, Requirement{x.Key, x.Operator.String(), append([]string{}, x.Values...)})
	}
	s := stampSet{cluster: cluster, own: needKey{cluster, p.Fingerprint(), r.Group}, fold: needKey{cluster, p.Folded().Fingerprint(), ""}, canFold: p.Same() != nil}
	n.Key = s.own.text()
	profiles := b.Profiles()
	for i := range b.Len() {
		if profiles[i] == profiles[row] && b.Group(i) == r.Group {
			n.Alike++
		}
	}
	return s
}

// addUnmet says what the last cycle left unmet of a Need.
func (v *View) addUnmet(n *NeedAnswer, s *stampSet) {
	v.unmetNow(func(l *unmetList) {
		for i := range l.rows {
			x := &l.rows[i]
			if !s.has(x.key) || n.Unmet && x.name() != n.Name {
				continue
			}
			n.Unmet, n.Reason, n.Deficit, n.Age = true, x.reason.String(), vectorOf(l.vector(x)), float64(l.at-x.since)/1e9
		}
	})
}

// addHeld lists the machines that carry a Need's stamp.
func (f *fleet) addHeld(n *NeedAnswer, s *stampSet) {
	for i := range f.ids {
		if f.names[f.cluster[i]] != s.cluster || f.fingerprint[i] == 0 || !s.has(needKey{s.cluster, f.fingerprint[i], f.names[f.group[i]]}) {
			continue
		}
		if len(n.Held) >= listMax {
			n.HeldMore++
			continue
		}
		n.Held = append(n.Held, f.row(i))
	}
}

// addNeedPast adds what is kept of a Need's past.
func (v *View) addNeedPast(n *NeedAnswer, s *stampSet) {
	for _, p := range v.parts {
		p.Recorder.history.visit(0, math.MaxInt64, func(c *cycleRecord) {
			for i := range c.needs {
				e := &c.needs[i]
				if e.Cluster == s.cluster && (e.Key == s.own.text() || s.canFold && e.Key == s.fold.text()) {
					n.History = append(n.History, TimedNeedEvent{c.row.At, c.row.Cycle, *e})
				}
			}
		})
	}
	slices.Reverse(n.History)
	n.History = n.History[:min(len(n.History), listDefault)]
	if v.album == nil {
		return
	}
	for _, x := range v.album.list() {
		if x.Name == n.Name && x.Priority == n.Priority {
			n.Plans = append(n.Plans, x)
		}
	}
}
