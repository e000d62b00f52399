package workload

import (
	"iter"
	"math"
	"strconv"

	"github.com/tonnage/tonnage/engine/model"
)

// hostSuffix makes a host name of a machine id.
const hostSuffix = ".node"

// doubledOneIn is how many plain rows there are to one that doubles in a burst.
const doubledOneIn = 10

// shrunkOneIn is how many clusters there are to one that shrinks.
const shrunkOneIn = 10

// largeGangClusters is how many clusters there are to one large gang in a
// burst; there is at least one.
const largeGangClusters = 50

// contendedDemand is the demand of a contended fleet relative to its hosts.
const contendedDemand = 1.3

// contendedPriorities are the priorities of a contended fleet's rows.
var contendedPriorities = [...]int32{0, 1_000, 150_000, 600_000, 1_000_000}

// Machines yields every machine, by archetype and number. now is the time, in
// Unix nanoseconds, since which idle machines are idle. The record that is
// yielded is used again for the next one; what it points to is shared with
// other machines and must not be modified.
func (f *Fleet) Machines(regime Regime, now int64) iter.Seq[*model.Machine] {
	return func(yield func(*model.Machine) bool) {
		var m model.Machine
		for a := range f.catalog {
			for i := f.slotStart[a]; i < f.slotStart[a+1]; i++ {
				if f.slots[i].tier == tierSpeculative && regime == Contended {
					continue
				}
				f.machine(&m, a, i, regime, now)
				if !yield(&m) {
					return
				}
			}
		}
		if regime == Burst && f.rung.kind == kindCatalog {
			f.burstMachines(&m, yield)
		}
	}
}

// machine fills in the record of slot i, which belongs to archetype a.
func (f *Fleet) machine(m *model.Machine, a, i int, regime Regime, now int64) {
	s := &f.slots[i]
	sh := &f.shapes[s.shape]
	*m = model.Machine{
		CapacityType: s.capacity,
		InstanceType: sh.instanceType,
		Zone:         zones[s.zone],
		Resources:    sh.resources,
		Labels:       f.racks[s.rack],
	}
	host := hostName(f.catalog[a].name, i-f.slotStart[a])
	m.ID = host[:len(host)-len(hostSuffix)]
	switch s.capacity {
	case model.OnDemand, model.Reserved:
		m.PricePerHour = sh.price
	case model.Spot:
		m.PricePerHour = spotPrice(sh.price)
		m.InterruptionProbability = spotInterruption
	}
	switch {
	case s.owner > 0 && regime != Cold:
		m.State, m.Host = model.Configured, host
		m.Cluster = f.clusters[f.clusterOf(int(s.owner)-1)]
		m.Assigned = f.stamp(int(s.owner)-1, regime)
	case s.tier == tierSpeculative:
		m.State = model.Speculative
	default:
		m.State, m.Host, m.IdleSince = model.Idle, host, now
	}
}

// burstMachines yields the slots that large gangs may be provisioned from: as
// many in each zone as the largest gang has members.
func (f *Fleet) burstMachines(m *model.Machine, yield func(*model.Machine) bool) {
	t := &trainingLarge
	size := &t.sizes[0]
	resources := size.pods(int64(t.perMachine))
	n := len(zones)
	for i := range int(t.gang[1]) * n {
		host := hostName(t.name, i)
		*m = model.Machine{
			ID:           host[:len(host)-len(hostSuffix)],
			State:        model.Speculative,
			CapacityType: model.OnDemand,
			InstanceType: size.types[0].name,
			Zone:         zones[i%n],
			Resources:    resources,
			Labels:       map[string]string{keyRack: zones[i%n] + "-rack-" + strconv.Itoa(len(f.racks)/n+i/n/rackMachines)},
			PricePerHour: size.types[0].price,
		}
		if !yield(m) {
			return
		}
	}
}

// spotPrice returns the spot price of a list price, in hundredths of a cent.
func spotPrice(list float64) float64 { return math.Round(list*spotPriceFactor*1e4) / 1e4 }

// hostName returns archetype-number plus the host suffix; the number has six
// digits, so that ids sort by it.
func hostName(archetype string, number int) string {
	b := make([]byte, 0, len(archetype)+1+6+len(hostSuffix))
	b = append(append(b, archetype...), '-')
	digits := strconv.AppendInt(nil, int64(number), 10)
	for range 6 - len(digits) {
		b = append(b, '0')
	}
	b = append(b, digits...)
	return string(append(b, hostSuffix...))
}

// clusterOf returns the cluster of a row.
func (f *Fleet) clusterOf(row int) int {
	lo, hi := 0, len(f.rowStart)-1
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; f.rowStart[mid] <= row {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// stamp returns what the shard stamped on the machines of a row. Rows that
// fold are known as their fold, which has no group.
func (f *Fleet) stamp(i int, regime Regime) model.Assignment {
	r := &f.rows[i]
	t := &f.catalog[r.archetype]
	p := f.profile(i, regime)
	group := f.group(r)
	if t.foldable() {
		p, group = p.Folded(), ""
	}
	return model.Assignment{
		Priority: p.Priority(), Interruption: p.Interruption(), Reclamation: p.Reclamation(),
		Fingerprint: p.Fingerprint(), Group: group,
	}
}

// need returns the record of a row of a cluster.
func (f *Fleet) need(cluster int, r *row, profile *model.Profile) model.Need {
	return model.Need{
		Cluster:   f.clusters[cluster],
		Profile:   profile,
		Aggregate: f.aggregate(r),
		MinUnit:   f.unit[r.archetype][sizeSet(r.pods)],
		Group:     f.group(r),
		Arrival:   r.arrival,
	}
}

// group returns a gang's group, empty for plain rows.
func (f *Fleet) group(r *row) string {
	t := &f.catalog[r.archetype]
	if !t.isGang() {
		return ""
	}
	return t.name + "-" + strconv.Itoa(int(r.number))
}

// profile returns a row's profile. In a contended fleet rows of one archetype
// stand at different priorities: those that fold together at the same one.
func (f *Fleet) profile(i int, regime Regime) *model.Profile {
	r := &f.rows[i]
	p := f.profiles[r.profile]
	if regime != Contended {
		return p
	}
	key := uint64(i)
	if f.catalog[r.archetype].foldable() {
		key = uint64(f.clusterOf(i))<<8 | uint64(r.archetype)<<4 | uint64(r.pods[0])
	}
	return f.prio[r.profile][newRNG(f.seed^key, drawRegime).below(len(contendedPriorities))]
}

// Needs returns the whole demand of a cluster, by its position in Clusters.
// Profiles and minimum units are shared and must not be modified.
func (f *Fleet) Needs(regime Regime, cluster int) []model.Need {
	lo, hi := f.rowStart[cluster], f.rowStart[cluster+1]
	needs := make([]model.Need, 0, hi-lo+1)
	shrunk := regime == Shrink && cluster%shrunkOneIn == 0
	factor := 1.0
	if regime == Contended {
		factor = f.growth
	}
	for i := lo; i < hi; i++ {
		if shrunk && (i-lo)%2 == 1 {
			continue
		}
		r := f.rows[i]
		t := &f.catalog[r.archetype]
		if whole := t.isGang() && !t.foldable(); !whole {
			times := factor
			if regime == Burst && newRNG(f.seed^uint64(i), drawRegime).below(doubledOneIn) == 0 {
				times = 2
			}
			for s := range r.pods {
				r.pods[s] = int32(math.Round(float64(r.pods[s]) * times))
			}
		}
		needs = append(needs, f.need(cluster, &r, f.profile(i, regime)))
	}
	if regime == Burst && f.rung.kind == kindCatalog && cluster%largeGangClusters == 0 {
		needs = append(needs, f.largeGang(cluster))
	}
	return needs
}

// largeGang returns the gang of 64 to 256 machines that a burst brings.
func (f *Fleet) largeGang(cluster int) model.Need {
	t := &trainingLarge
	size := &t.sizes[0]
	n := int(t.gang[0]) + newRNG(f.seed^uint64(cluster), drawRegime).below(int(t.gang[1]-t.gang[0])+1)
	return model.Need{
		Cluster:   f.clusters[cluster],
		Profile:   t.profile(false),
		Aggregate: size.pods(int64(n)),
		MinUnit:   size.pod(),
		Group:     t.name + "-0",
		Arrival:   Epoch.UnixNano(),
	}
}

// contendedGrowth returns by how much the rows that can grow must grow so that
// the demand, in machines, is contendedDemand times the hosts.
func (f *Fleet) contendedGrowth() float64 {
	hosts, whole, bound := 0, 0, 0
	for i := range f.slots {
		s := &f.slots[i]
		if s.tier != tierSpeculative {
			hosts++
		}
		if s.owner > 0 {
			bound++
			if t := &f.catalog[f.rows[s.owner-1].archetype]; t.isGang() && !t.foldable() {
				whole++
			}
		}
	}
	if bound == whole {
		return 1
	}
	return (contendedDemand*float64(hosts) - float64(whole)) / float64(bound-whole)
}
