package workload

import (
	"slices"

	"github.com/tonnage/tonnage/engine/model"
)

// The figures of the row-heavy rung: the worst projection that was published.
const (
	rowsTotal    = 776_000
	rowsGangs    = 0.03 // true gangs, which no single machine holds
	rowsHard     = 0.42 // with hard spread
	rowsProfiles = 600
	// rowsWaiting is the part of the profiles that rows beyond the supply have.
	// Their priority is below all others: they wait, and there is nobody that
	// they could preempt.
	rowsWaiting         = 0.36
	rowsWaitingPriority = 0
)

// rowsMembers are the members of gangs that one machine would hold otherwise:
// more than any machine of their instance types does.
var rowsMembers = map[string][2]int32{"memory-cache": {210, 400}, "stateful-db": {110, 400}}

// rowsGangShares is how gangs part between the gang archetypes.
var rowsGangShares = map[string]float64{"memory-cache": 30, "stateful-db": 30, "gpu-training-small": 28, "gpu-training-medium": 12}

// The kinds of rows.
const (
	rowGang = iota
	rowHard
	rowSoft
	rowKinds
)

// variant is one profile of an archetype.
type variant struct {
	profile uint16
	zones   uint8 // set of those that it accepts
	size    uint8 // of its pods
}

// variants are the profiles of one archetype and kind of row: of rows that are
// served, and of rows that wait.
type variants struct{ served, waiting []variant }

// rowsBuilder makes the row-heavy fleet.
type rowsBuilder struct {
	f     *Fleet
	r     *rng
	kinds [rowKinds][]variants // by archetype
	zones [][3][]int32         // free machines of plain archetypes, by archetype and zone
	racks []gangRacks          // free machines of gang archetypes
}

// buildRows makes a fleet with more rows than machines, of which none folds.
// Every machine is bound to a row; the rows left over have the lowest priority.
func buildRows(f *Fleet) {
	f.catalog = slices.Clone(catalog)
	for a := range f.catalog {
		if members, ok := rowsMembers[f.catalog[a].name]; ok {
			f.catalog[a].gang = members
		}
	}
	w := shares(f.catalog)
	configured, idle, speculative := apportion(f.rung.Configured, w), apportion(f.rung.Idle, w), apportion(f.rung.Speculative, w)
	b := &rowsBuilder{f: f, r: newRNG(f.seed, drawRows), zones: make([][3][]int32, len(w)), racks: make([]gangRacks, len(w))}
	for a := range f.catalog {
		f.layOut(a, configured[a], idle[a], speculative[a])
		base := f.slotStart[a]
		if f.catalog[a].isGang() {
			b.racks[a] = newGangRacks(f.slots[base:], base)
			continue
		}
		for i := base; i < len(f.slots); i++ {
			z := f.slots[i].zone
			b.zones[a][z] = append(b.zones[a][z], int32(i))
		}
	}
	f.slotStart = append(f.slotStart, len(f.slots))
	for kind, share := range [rowKinds]float64{rowsGangs, rowsHard, 1 - rowsGangs - rowsHard} {
		b.makeVariants(kind, int(share*rowsProfiles+0.5))
	}
	b.makeRows()
}

// archetypeWeights says how the rows of a kind part between the archetypes:
// plain ones by machine share, so that each is as short of machines as the
// others.
func (b *rowsBuilder) archetypeWeights(kind int) []float64 {
	w := make([]float64, len(b.f.catalog))
	for a := range b.f.catalog {
		switch t := &b.f.catalog[a]; {
		case t.isGang() != (kind == rowGang):
		case kind == rowGang:
			w[a] = rowsGangShares[t.name]
		default:
			w[a] = t.share
		}
	}
	return w
}

// makeVariants makes the profiles of a kind of rows.
func (b *rowsBuilder) makeVariants(kind, n int) {
	b.kinds[kind] = make([]variants, len(b.f.catalog))
	seen := map[string]bool{}
	for a, m := range apportionAtLeastOne(n, b.archetypeWeights(kind)) {
		waiting := max(int(float64(m)*rowsWaiting), min(m-1, 1))
		for i := 0; i < m; {
			p, v := b.drawVariant(a, kind, i < waiting)
			if seen[p.Canonical()] {
				continue
			}
			seen[p.Canonical()] = true
			v.profile = uint16(len(b.f.profiles))
			b.f.profiles = append(b.f.profiles, p)
			of := &b.kinds[kind][a]
			if i < waiting {
				of.waiting = append(of.waiting, v)
			} else {
				of.served = append(of.served, v)
			}
			i++
		}
	}
}

// drawVariant draws a profile of an archetype: its zones, priority and
// penalties vary.
func (b *rowsBuilder) drawVariant(a, kind int, waiting bool) (*model.Profile, variant) {
	t := b.f.catalog[a]
	t.spread, t.spreadHard = 0, false
	v := variant{size: uint8(b.r.below(len(t.sizes))), zones: 7}
	if kind == rowHard {
		t.spread, t.spreadHard, t.spreadSkew = 1, true, int32(1+b.r.below(2))
	} else if kind == rowSoft && b.r.float() < 0.4 {
		v.zones = uint8(1 + b.r.below(6)) // one or two of the three
	}
	t.priority *= int32(1 + b.r.below(4))
	if waiting {
		t.priority = rowsWaitingPriority
	}
	t.priority = min(t.priority, 1_000_000)
	// Penalties move by up to 128 times, a bucket for each doubling.
	t.interrupt *= float64(int(1) << b.r.below(8))
	t.reclaim *= float64(int(1) << b.r.below(8))
	t.zones = nil
	for z, name := range zones {
		if v.zones>>z&1 == 1 {
			t.zones = append(t.zones, name)
		}
	}
	return t.profile(kind == rowHard), v
}

// rowDraw is one row before it has a cluster.
type rowDraw struct {
	archetype, kind uint8
	pods            int32
}

// drawRows draws all rows, in the order in which they are served.
func (b *rowsBuilder) drawRows() []rowDraw {
	out := make([]rowDraw, 0, rowsTotal)
	count := apportion(rowsTotal, []float64{rowsGangs, rowsHard, 1 - rowsGangs - rowsHard})
	for kind, n := range count {
		for a, m := range apportion(n, b.archetypeWeights(kind)) {
			t := &b.f.catalog[a]
			var pods []int32
			if t.isGang() {
				pods = drawUniform(b.r, m, t.gang[0], t.gang[1])
			} else {
				pods = drawReplicas(b.r, m)
			}
			for _, p := range pods {
				if !t.isGang() {
					p = min(p, t.perMachine)
				}
				out = append(out, rowDraw{uint8(a), uint8(kind), p})
			}
		}
	}
	shuffle(b.r, out)
	return out
}

// makeRows gives every row a profile and, while there are any, machines; then
// it deals the rows to the clusters.
func (b *rowsBuilder) makeRows() {
	f := b.f
	draws := b.drawRows()
	f.rows = make([]row, 0, len(draws))
	perCluster := len(draws) / f.rung.Clusters
	for i, d := range draws {
		if i%perCluster == 0 && i/perCluster < f.rung.Clusters {
			f.rowStart = append(f.rowStart, i)
		}
		r := row{archetype: d.archetype, number: int32(i % perCluster)}
		r.arrival = Epoch.UnixNano() - int64(1+b.r.float()*float64(arrivalSpread))
		of := &b.kinds[d.kind][d.archetype]
		v := of.served[b.r.below(len(of.served))]
		r.pods[v.size] = d.pods
		if slots := b.take(&r, v); slots != nil {
			for _, s := range slots {
				f.slots[s].owner = int32(i) + 1
			}
		} else if len(of.waiting) > 0 {
			r.pods[v.size] = 0
			v = of.waiting[b.r.below(len(of.waiting))]
			r.pods[v.size] = d.pods
		}
		r.profile = v.profile
		f.rows = append(f.rows, r)
	}
	f.rowStart = append(f.rowStart, len(f.rows))
}

// take takes free machines that cover a row: a gang's from one rack, others
// from the zones that have most left. Nil when they do not suffice.
func (b *rowsBuilder) take(r *row, v variant) []int32 {
	f := b.f
	a := int(r.archetype)
	t := &f.catalog[a]
	if t.isGang() {
		return b.racks[a].take(int(r.pods[0]+t.perMachine-1) / int(t.perMachine))
	}
	var out []int32
	left := t.aggregate(r.pods)
	for !left.IsZero() {
		zone := -1
		for z := range zones {
			if v.zones>>z&1 == 1 && len(b.zones[a][z]) > 0 && (zone < 0 || len(b.zones[a][z]) > len(b.zones[a][zone])) {
				zone = z
			}
		}
		if zone < 0 {
			for _, s := range out {
				b.giveBack(s)
			}
			return nil
		}
		free := &b.zones[a][zone]
		s := (*free)[len(*free)-1]
		*free = (*free)[:len(*free)-1]
		out = append(out, s)
		left = left.Sub(f.shapes[f.slots[s].shape].resources)
	}
	return b.trim(t.aggregate(r.pods), out)
}

// trim gives back the machines that the others make superfluous, so that a row
// is bound to nothing that it could be reclaimed from.
func (b *rowsBuilder) trim(want model.Resources, slots []int32) []int32 {
	for i := 0; i < len(slots) && len(slots) > 1; {
		left := want
		for j, s := range slots {
			if j != i {
				left = left.Sub(b.f.shapes[b.f.slots[s].shape].resources)
			}
		}
		if left.IsZero() {
			b.giveBack(slots[i])
			slots = append(slots[:i], slots[i+1:]...)
			continue
		}
		i++
	}
	return slots
}

func (b *rowsBuilder) giveBack(s int32) {
	f := b.f
	for a := range f.catalog {
		if int(s) < f.slotStart[a+1] {
			z := f.slots[s].zone
			b.zones[a][z] = append(b.zones[a][z], s)
			return
		}
	}
}
