package world

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/world/document"
)

// Funnel says how the machines of the fleet become those that a Need can have: each step leaves some
// of those that the step before has left.
type Funnel struct {
	Machines int // of the fleet
	Usable   int // in any state but Deleting and Failed
	// Requirements are those of the Need, in their order.
	Requirements []RequirementStep
	Size         SizeStep
	// Reserved counts machines that fit and are held for other Needs; they count as Held too, when a
	// Need claims them.
	Reserved int
	Own      int // fit, and are the Need's
	Free     int // fit, and are nobody's
	Holders  []Holder
	Domains  []DomainStep // of a Same requirement, those that could hold most first
	// Capacity is what all machines that fit offer together of what the Need asks for.
	Capacity model.Resources
	// Verdict is what follows from it all, in a sentence; empty when the Need is satisfied.
	Verdict string
}

// RequirementStep is one requirement of a Need.
type RequirementStep struct {
	Says   string // nvidia.com/gpu.product in A100 or V100
	Leaves int    // machines that meet it and those before it
	Alone  int    // usable machines that meet it
	// Nearest is what is near to meeting it, of one that leaves nothing.
	Nearest string
}

// SizeStep is the minimum unit, and that a machine offers anything that is asked for.
type SizeStep struct {
	Leaves  int
	Nearest string // of one that leaves nothing
}

// Holder is a cluster whose Needs of one priority claim machines that fit.
type Holder struct {
	Cluster  string
	Need     string // the only one; empty = several, or none claims them
	Priority int32
	Claimed  bool // by a Need; otherwise bound to the cluster and claimed by none
	Machines int
	// Higher tells that the holder ranks at or above the Need by priority, so nothing can be taken of it.
	Higher bool
}

// DomainStep is a value of the key of a Same requirement.
type DomainStep struct {
	Value   string
	Fit     int     // machines in it that fit
	Free    int     // of those, nobody's or the Need's
	Own     int     // of those, the Need's
	Lower   int     // of those, others', and it could take them by priority
	Higher  int     // of those, others', and it cannot take them; or held for others
	Share   float64 // of the Need that all that fit could hold, at most 1
	Missing model.Resources
	// Lacks is what it lacks there although it had what is its own or free, and all that it could take.
	Lacks model.Resources
}

const (
	holdersMax       = 8
	funnelDomainsMax = 10
)

// holderOf is by whom a machine is held.
type holderOf struct {
	cluster  string
	priority int32
	claimed  bool
}

// funnels makes the funnels of Needs of one decision.
type funnels struct {
	world *World
	need  map[string]int // machine → the Need that claims it
}

func newFunnels(w *World, a *Answer) *funnels {
	f := &funnels{world: w, need: map[string]int{}}
	for i := range a.Needs {
		for _, id := range a.Needs[i].Claimed {
			f.need[id] = i
		}
	}
	return f
}

// of returns the funnel of a Need, by its place in the world.
func (f *funnels) of(i int, row *NeedRow) *Funnel {
	n := &f.world.Needs[i]
	x := &Funnel{Machines: len(f.world.Machines)}
	var usable []*model.Machine
	for k := range f.world.Machines {
		if m := &f.world.Machines[k]; m.State != model.Deleting && m.State != model.Failed {
			usable = append(usable, m)
		}
	}
	x.Usable = len(usable)
	left := usable
	for k := range n.Profile.Requirements() {
		left = x.require(&n.Profile.Requirements()[k], usable, left)
	}
	left = x.size(n, left)
	f.claims(x, i, left)
	if same := n.Profile.Same(); same != nil {
		f.domains(x, i, same.Key, left)
	}
	switch {
	case row.Satisfied:
	case row.Reason == engine.UnmetAwaitingDrain:
		x.Verdict = "Machines that drain for it cover the rest: it has to wait for them."
	default:
		x.Verdict = x.verdict(n)
	}
	return x
}

// require takes one step, and returns the machines that it leaves.
func (x *Funnel) require(q *model.Requirement, usable, before []*model.Machine) (left []*model.Machine) {
	step := RequirementStep{Says: SaysRequirement(q)}
	meets := func(m *model.Machine) bool {
		value, there := m.Attribute(q.Key)
		return q.Matches(value, there)
	}
	for _, m := range usable {
		if meets(m) {
			step.Alone++
		}
	}
	for _, m := range before {
		if meets(m) {
			left = append(left, m)
		}
	}
	step.Leaves = len(left)
	if step.Leaves == 0 && len(before) > 0 {
		step.Nearest = nearestOf(q, usable, step.Alone)
	}
	x.Requirements = append(x.Requirements, step)
	return left
}

// SaysRequirement puts a requirement into words.
func SaysRequirement(q *model.Requirement) string {
	values := strings.Join(q.Values, " or ")
	switch q.Operator {
	case model.In:
		return q.Key + " in " + values
	case model.NotIn:
		return q.Key + " not in " + values
	case model.Exists:
		return q.Key + " exists"
	case model.DoesNotExist:
		return q.Key + " does not exist"
	case model.Same:
		if values == "" {
			return "one " + q.Key
		}
		return "one " + q.Key + " of " + values
	case model.Gt:
		return q.Key + " above " + values
	case model.Lt:
		return q.Key + " below " + values
	}
	return q.Key
}

// nearestOf says what is near to a requirement that leaves nothing.
func nearestOf(q *model.Requirement, usable []*model.Machine, alone int) string {
	if alone > 0 {
		return fmt.Sprintf("%s %s it, and none of them what stands before it", grouped(alone), verb(alone, "meets", "meet"))
	}
	keys, values := map[string]int{}, map[string]int{}
	for _, m := range usable {
		if v, there := m.Attribute(q.Key); there {
			values[v]++
		}
		for k := range m.Labels {
			if len(keys) < hintNamesMax || keys[k] > 0 {
				keys[k]++
			}
		}
		for _, k := range []string{model.KeyInstanceType, model.KeyZone, model.KeyCapacityType} {
			if _, there := m.Attribute(k); there && m.Labels[k] == "" {
				keys[k]++
			}
		}
	}
	switch {
	case q.Operator == model.NotIn || q.Operator == model.DoesNotExist:
		return "all machines have it: " + counts(values)
	case len(values) == 0:
		if near := nearKey(q.Key, keys); near != "" {
			return fmt.Sprintf("no machine has this label; %s %s `%s`", grouped(keys[near]), verb(keys[near], "has", "have"), near)
		}
		return "no machine has this label"
	}
	out := "no machine has it; there are " + counts(values)
	for _, v := range q.Values {
		if near := document.Nearest(v, slices.Sorted(maps.Keys(values))); near != "" && likely(v, near) && q.Operator != model.Gt && q.Operator != model.Lt {
			return out + "; did you mean " + document.Quote(near) + "?"
		}
	}
	return out
}

// likely tells whether a value is probably another one misspelt: they differ in no digit, and are long or differ in
// how they are written alone. H100 is not A100, and z2 is not z1.
func likely(value, near string) bool {
	digits := func(s string) string {
		return strings.Map(func(r rune) rune {
			if r < '0' || r > '9' {
				return -1
			}
			return r
		}, s)
	}
	return digits(value) == digits(near) && (min(len(value), len(near)) > 5 || strings.EqualFold(value, near))
}

// nearKey returns the key that is most likely meant by one that no machine has: one that ends alike,
// else one that is written alike.
func nearKey(key string, keys map[string]int) string {
	end := func(k string) string { return strings.ToLower(k[strings.LastIndexByte(k, '/')+1:]) }
	all := slices.SortedFunc(maps.Keys(keys), func(a, b string) int { return cmp.Or(keys[b]-keys[a], strings.Compare(a, b)) })
	for _, k := range all {
		if end(k) == end(key) {
			return k
		}
	}
	return document.Nearest(key, all)
}

// counts lists values with how many machines have them, the most first.
func counts(values map[string]int) string {
	all := slices.SortedFunc(maps.Keys(values), func(a, b string) int { return cmp.Or(values[b]-values[a], strings.Compare(a, b)) })
	const most = 5
	parts := make([]string, 0, most)
	for _, v := range all[:min(len(all), most)] {
		parts = append(parts, grouped(values[v])+" with "+document.Quote(v))
	}
	out := strings.Join(parts, ", ")
	if more := len(all) - most; more > 0 {
		out += fmt.Sprintf(" and %s more values", grouped(more))
	}
	return out
}

// verb agrees with a count.
func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// grouped writes 1200 as 1,200.
func grouped(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// size takes the step of the minimum unit.
func (x *Funnel) size(n *Need, before []*model.Machine) (left []*model.Machine) {
	var largest model.Resources
	for _, m := range before {
		offers := m.EffectiveAllocatable()
		useful := false
		for _, a := range n.Aggregate {
			useful = useful || offers.Get(a.Name) > 0
		}
		if offers.Covers(n.MinUnit) && useful {
			left = append(left, m)
			continue
		}
		if len(left) == 0 {
			largest = largest.Max(offers)
		}
	}
	x.Size.Leaves = len(left)
	if len(left) > 0 || len(before) == 0 {
		return left
	}
	var lacks []string
	for _, a := range n.MinUnit {
		if most := largest.Get(a.Name); most < a.Value {
			lacks = append(lacks, fmt.Sprintf("the most %s of one machine is %s, a unit needs %s", a.Name, model.FormatQuantity(a.Name, most), model.FormatQuantity(a.Name, a.Value)))
		}
	}
	switch {
	case len(lacks) > 0:
		x.Size.Nearest = strings.Join(lacks, "; ")
	case len(n.MinUnit) > 0:
		x.Size.Nearest = "each resource of a unit is somewhere, and no machine has them together"
	default:
		x.Size.Nearest = "none of them offers anything that is asked for"
	}
	return left
}

// claims says whose the machines are that fit.
func (f *funnels) claims(x *Funnel, i int, fit []*model.Machine) {
	n := &f.world.Needs[i]
	count, names := map[holderOf]int{}, map[holderOf]map[string]bool{}
	capacity := map[string]int64{}
	for _, m := range fit {
		addTo(capacity, n.Aggregate, m)
		if m.Reservation.Active() && m.Reservation.Owner != n.Owner() {
			x.Reserved++
		}
		h, who := f.holder(m)
		switch {
		case who == n.Name:
			x.Own++
			continue
		case h == (holderOf{}):
			x.Free++
			continue
		}
		count[h]++
		if names[h] == nil {
			names[h] = map[string]bool{}
		}
		names[h][who] = true
	}
	x.Capacity = vectorOf(capacity)
	for h, machines := range count {
		holder := Holder{Cluster: h.cluster, Priority: h.priority, Claimed: h.claimed, Machines: machines}
		holder.Higher = f.outOfReach(h, n)
		if len(names[h]) == 1 {
			for name := range names[h] {
				holder.Need = name
			}
		}
		x.Holders = append(x.Holders, holder)
	}
	slices.SortFunc(x.Holders, func(a, b Holder) int {
		c := cmp.Or(-cmp.Compare(a.Priority, b.Priority), b.Machines-a.Machines, strings.Compare(a.Cluster, b.Cluster), strings.Compare(a.Need, b.Need))
		switch {
		case c != 0 || a.Claimed == b.Claimed:
			return c
		case a.Claimed: // before those that no Need claims
			return -1
		}
		return 1
	})
}

// holder returns by whom a machine is held, and the name of the Need, if it is one.
func (f *funnels) holder(m *model.Machine) (holderOf, string) {
	if at, claimed := f.need[m.ID]; claimed {
		of := &f.world.Needs[at]
		return holderOf{of.Cluster, of.Profile.Priority(), true}, of.Name
	}
	if m.State.Bound() && m.Cluster != "" {
		return holderOf{m.Cluster, m.Assigned.Priority, false}, ""
	}
	return holderOf{}, ""
}

// addTo adds what a machine offers of what is asked for.
func addTo(sum map[string]int64, wanted model.Resources, m *model.Machine) {
	offers := m.EffectiveAllocatable()
	for _, a := range wanted {
		sum[a.Name] = model.SatAdd(sum[a.Name], offers.Get(a.Name))
	}
}

func vectorOf(sum map[string]int64) model.Resources {
	amounts := make([]model.Amount, 0, len(sum))
	for name, v := range sum {
		amounts = append(amounts, model.Amount{Name: name, Value: v})
	}
	return model.NewResources(amounts...)
}

// domains sums up the machines that fit by the value of a key.
func (f *funnels) domains(x *Funnel, i int, key string, fit []*model.Machine) {
	n := &f.world.Needs[i]
	at := map[string]*DomainStep{}
	sums, within := map[string]map[string]int64{}, map[string]map[string]int64{} // of all that fit; of what it could have
	for _, m := range fit {
		value, there := m.Attribute(key)
		if !there {
			continue
		}
		if at[value] == nil {
			at[value], sums[value], within[value] = &DomainStep{Value: value}, map[string]int64{}, map[string]int64{}
		}
		at[value].Fit++
		addTo(sums[value], n.Aggregate, m)
		if at[value].count(f, n, m) {
			addTo(within[value], n.Aggregate, m)
		}
	}
	for value, d := range at {
		d.Share = 1
		for _, a := range n.Aggregate {
			d.Share = math.Min(d.Share, float64(sums[value][a.Name])/float64(a.Value))
		}
		d.Missing, d.Lacks = n.Aggregate.Sub(vectorOf(sums[value])), n.Aggregate.Sub(vectorOf(within[value]))
		x.Domains = append(x.Domains, *d)
	}
	slices.SortFunc(x.Domains, func(a, b DomainStep) int {
		return cmp.Or(-cmp.Compare(a.Share, b.Share), b.Free-a.Free, strings.Compare(a.Value, b.Value))
	})
}

// count counts a machine that fits by whose it is, and tells whether the Need could have it.
func (d *DomainStep) count(f *funnels, n *Need, m *model.Machine) bool {
	h, who := f.holder(m)
	held := m.Reservation.Active() && m.Reservation.Owner != n.Owner()
	switch {
	case who == n.Name:
		d.Own++
		d.Free++
	case h == (holderOf{}) && !held:
		d.Free++
	case h == (holderOf{}), f.outOfReach(h, n):
		d.Higher++
		return false
	default:
		d.Lower++
	}
	return true
}

// outOfReach tells whether nothing can be taken of a holder by priority.
func (f *funnels) outOfReach(h holderOf, n *Need) bool {
	return h.claimed && (h.priority >= n.Profile.Priority() || h.cluster == n.Cluster)
}

// says puts into words whose the machines of a domain are.
func (d *DomainStep) says() string {
	var parts []string
	for _, p := range []struct {
		n         int
		one, many string
	}{{d.Own, "is its own", "are its own"}, {d.Free - d.Own, "is free", "are free"}, {d.Lower, "could be taken", "could be taken"}, {d.Higher, "is out of its reach", "are out of its reach"}} {
		if p.n > 0 {
			parts = append(parts, grouped(p.n)+" "+verb(p.n, p.one, p.many))
		}
	}
	if last := len(parts) - 1; last > 0 {
		return strings.Join(parts[:last], ", ") + " and " + parts[last]
	}
	return strings.Join(parts, "")
}

// nearest returns the domain in which the Need could have most, when it could have enough in none; else nil.
func (x *Funnel) nearest() *DomainStep {
	var best *DomainStep
	for i := range x.Domains {
		d := &x.Domains[i]
		if len(d.Lacks) == 0 {
			return nil
		}
		if best == nil || d.Free+d.Lower > best.Free+best.Lower {
			best = d
		}
	}
	return best
}

// verdict puts what follows into a sentence: the first step that leaves too little.
func (x *Funnel) verdict(n *Need) string {
	const moot = "A higher priority does not help."
	if x.Usable == 0 {
		return "There is no machine in a usable state. " + moot
	}
	for i := range x.Requirements {
		if x.Requirements[i].Leaves == 0 {
			return fmt.Sprintf("No machine meets its requirements: %s leaves none. %s", x.Requirements[i].Says, moot)
		}
	}
	if x.Size.Leaves == 0 {
		return fmt.Sprintf("No machine is large enough: %s. %s", x.Size.Nearest, moot)
	}
	if lacks := n.Aggregate.Sub(x.Capacity); len(lacks) > 0 {
		return fmt.Sprintf("All machines that fit, whoever has them, lack %s of what it asks for. %s More machines or quota do.", vector(lacks), moot)
	}
	if len(x.Domains) > 0 && x.Domains[0].Share < 1 {
		d := &x.Domains[0]
		return fmt.Sprintf("No %s could hold it, even if it were empty: %s comes nearest and lacks %s. %s", n.Profile.Same().Key, d.Value, vector(d.Missing), moot)
	}
	if d := x.nearest(); d != nil {
		key := n.Profile.Same().Key
		return fmt.Sprintf("No %s could give it enough. %s comes nearest: of the %s there that fit, %s.", key[strings.LastIndexByte(key, '/')+1:], d.Value, plural(d.Fit, "machine"), d.says())
	}
	higher, lower := 0, 0
	for i := range x.Holders {
		if x.Holders[i].Higher {
			higher += x.Holders[i].Machines
		} else {
			lower += x.Holders[i].Machines
		}
	}
	parts := []string{grouped(x.Own) + " " + verb(x.Own, "is", "are") + " its own"}
	for _, p := range []struct {
		n         int
		one, many string
	}{
		{x.Free, "is free", "are free"}, {higher, "serves a Need that it cannot take from", "serve Needs that it cannot take from"}, {lower, "serves a Need that it could take from", "serve Needs that it could take from"},
	} {
		if p.n > 0 {
			parts = append(parts, grouped(p.n)+" "+verb(p.n, p.one, p.many))
		}
	}
	return fmt.Sprintf("Enough machines fit: %s in all. Of these, %s.", grouped(x.Size.Leaves), strings.Join(parts, ", "))
}
