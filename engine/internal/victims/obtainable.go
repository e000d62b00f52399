package victims

import (
	"math"
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/ranks"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/units"
)

// Most turns of reclaim find nothing: the taker has all of its share, or no tenant has more than its share. Fleets with hundreds of thousands of
// short Needs have as many turns. So it is memoized, for each taker and kind, what a turn could get at best, and whether there is anything
// to take at all, whatever the shares admit.

// Obtainable memoizes what turns could get.
type Obtainable struct {
	best    map[takerOf]*bestOf
	offers  [][]classOffer   // by taker and class
	rest    [][]columnar.Row // by class: the remainders of broken gangs; taken ones leave from the end
	hadRest int              // how many of gangTable.Rest were read
}

type takerOf struct {
	taker int32
	kind  uint32
}

// unitsState is a version of what may be taken. While it stays the same, what may be taken only gets less.
type unitsState struct {
	units  uint64 // UnitsVersion
	raised int    // Shares.Raised
}

// bestOf is what is known of a taker and a kind.
type bestOf struct {
	// mask is what ObtainableFor returned for versions of what tenants have and of the units.
	changes int
	units   uint64
	mask    uint64
	// some is a machine that could be taken when it was found. none says that nothing could be taken at version noneAt.
	some   witness
	none   bool
	noneAt unitsState
}

// witness is a Configured machine of a tenant, and the machines that are alike.
type witness struct {
	alike *units.Alike
	row   columnar.Row
}

// classOffer is the least priority that a Need has to have to find something of a class, whatever the shares admit.
type classOffer struct {
	listing uint64 // number of the listing of the class
	at      unitsState
	// lowest is the priority of some, the machine of lowest priority of a tenant that gives; math.MaxInt64 = there is none.
	lowest int64
	some   witness
	// unsure is the least priority that may find excess, a machine that drains, or one of a gang; whether it does depends on the Need.
	unsure int64
}

// of returns what is known of the taker and a kind.
func (x *Obtainable) of(taker int32, kind uint32) *bestOf {
	if x.best == nil {
		x.best = map[takerOf]*bestOf{}
	}
	b := x.best[takerOf{taker, kind}]
	if b == nil {
		b = &bestOf{changes: -1}
		x.best[takerOf{taker, kind}] = b
	}
	return b
}

// ObtainableFor returns, as a mask, the dimensions of the machines that the taker could get for a kind at best. A class counts if one more
// machine of it leaves the taker within its share, and if some giver keeps its own share without that machine or the machine is debited to
// nobody. A unit of several machines is no easier to get than each of them.
func ObtainableFor(l *Worker, k *state.Kind) uint64 {
	p, t := l.p, l.p.Tenants.Shares
	x := &p.Tenants.Between.Obtainable
	b := x.of(t.Taker, k.Number)
	if b.changes == t.Changes && b.units == l.UnitsVersion() {
		return b.mask
	}
	b.changes, b.units, b.mask = t.Changes, l.UnitsVersion(), 0
	x.listRest(p)
	for _, c := range k.Classes {
		if p.ClassMask[c]&^b.mask != 0 && !t.IsFull(c) && (t.SomeGives(c) || x.someLoose(l, c, k)) {
			b.mask |= p.ClassMask[c]
		}
	}
	return b.mask
}

// listRest adds the new remainders of broken gangs.
func (x *Obtainable) listRest(p *Pass) {
	if x.rest == nil {
		x.rest = make([][]columnar.Row, len(p.Snap.Classes))
	}
	for _, r := range p.st.Gangs.Rest[x.hadRest:] {
		c := p.Snap.View.Class[r]
		x.rest[c] = append(x.rest[c], r)
	}
	x.hadRest = len(p.st.Gangs.Rest)
}

// lowestRest returns the lowest priority of the remainders of a class that no plan counts on; math.MaxInt64 if there are none.
func (x *Obtainable) lowestRest(p *Pass, class uint32) int64 {
	lowest, list := int64(math.MaxInt64), x.rest[class]
	for len(list) > 0 && p.Promised.TakenBy(list[len(list)-1]) != ranks.None {
		list = list[:len(list)-1]
	}
	x.rest[class] = list
	for _, r := range list {
		if level := int64(p.st.Priority[r]); level < lowest && p.Promised.TakenBy(r) == ranks.None {
			lowest = level
		}
	}
	return lowest
}

// someLoose reports whether a class has a machine for a kind that is debited to nobody: excess, one that drains, or the remainder of a gang.
func (x *Obtainable) someLoose(l *Worker, class uint32, k *state.Kind) bool {
	for _, a := range l.victimsOf(class, k.Priority).Alikes {
		if a.Excess && l.p.Tenants.mayHave(a, k.Priority) && l.p.someLeft(a) && l.FirstOpen(a, AnyCluster) < len(a.Rows) {
			return true
		}
	}
	return x.lowestRest(l.p, class) <= int64(k.Priority)
}

// KnowsCandidates reports whether Shares.Taker could take something for a kind, whatever the shares admit, if that is known. placed says
// whether a machine has the keys of hard spread.
func KnowsCandidates(l *Worker, k *state.Kind, placed func(columnar.Row) bool) (some, known bool) {
	t, x := l.p.Tenants.Shares, &l.p.Tenants.Between.Obtainable
	b, now := x.of(t.Taker, k.Number), unitsState{l.UnitsVersion(), t.Raised}
	if b.some.isThere(l) {
		return true, true
	}
	if b.none && b.noneAt == now {
		return false, true
	}
	x.listRest(l.p)
	b.none, b.noneAt = false, now
	none := true
	for _, c := range k.Classes {
		o := x.offerOf(l, c, k.Priority, now)
		if o.lowest <= int64(k.Priority) {
			if placed(o.some.row) {
				b.some = o.some
				return true, true
			}
			none = false
		}
		none = none && o.unsure > int64(k.Priority)
	}
	b.none = none
	return false, none
}

// offerOf returns what a class offers to the taker.
func (x *Obtainable) offerOf(l *Worker, class uint32, priority int32, now unitsState) *classOffer {
	t, v := l.p.Tenants.Shares, l.victimsOf(class, priority)
	if x.offers == nil {
		x.offers = make([][]classOffer, len(t.Policy))
	}
	if x.offers[t.Taker] == nil {
		x.offers[t.Taker] = make([]classOffer, len(l.p.Snap.Classes))
	}
	o := &x.offers[t.Taker][class]
	if o.listing == v.Serial && o.at == now && (o.lowest == math.MaxInt64 || o.some.isThere(l)) {
		return o
	}
	*o = classOffer{listing: v.Serial, at: now, lowest: math.MaxInt64, unsure: x.lowestRest(l.p, class)}
	o.readAlikes(l, v)
	o.readGangs(l, v, class)
	return o
}

// readAlikes finds what machines of no gang offer.
func (x *classOffer) readAlikes(l *Worker, v *units.ClassVictims) {
	for _, a := range v.Alikes {
		switch {
		case a.Acquired || !l.p.someLeft(a):
		case a.Excess:
			if level := lowestFor(a); level < x.unsure && l.FirstOpen(a, AnyCluster) < len(a.Rows) {
				x.unsure = level
			}
		case int64(a.Level) < x.lowest && l.p.Tenants.Shares.Gives(a.Tenant):
			if at := l.FirstOpen(a, AnyCluster); at < len(a.Rows) {
				x.lowest, x.some = int64(a.Level), witness{a, a.Rows[at]}
			}
		}
	}
}

// readGangs finds what gangs offer of a class.
func (x *classOffer) readGangs(l *Worker, v *units.ClassVictims, class uint32) {
	usable := func(r columnar.Row) bool {
		return l.p.Snap.View.Class[r] == class && l.p.Promised.TakenBy(r) == ranks.None && l.p.Tenants.MayGive(l.p.Snap.ClusterOf[l.p.Snap.View.Cluster[r]])
	}
	for _, r := range v.Broken {
		if level := int64(l.p.st.Priority[r]); level < x.unsure && usable(r) {
			x.unsure = level
		}
	}
	for _, g := range v.Gangs {
		gang := &l.p.st.Gangs.List[g]
		for i := range gang.Roles {
			if level := int64(l.p.KindOf(gang.Roles[i].Need).Priority); level < x.unsure && slices.ContainsFunc(gang.Members, usable) {
				x.unsure = level
			}
		}
	}
}

// lowestFor returns the least priority that may have excess, or what drains; see mayHave.
func lowestFor(a *units.Alike) int64 {
	if a.Promised {
		return int64(a.Level) + 1
	}
	return math.MinInt64
}

// isThere reports whether the machine can still be taken.
func (x *witness) isThere(l *Worker) bool {
	return x.alike != nil && l.p.Tenants.Shares.Gives(x.alike.Tenant) && l.p.IsThere(x.alike, x.row)
}
