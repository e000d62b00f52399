package fleet

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tonnage/tonnage/engine/model"
)

// Extreme draws a world as Random does, and then takes some of it to where an input may go
// but fleets seldom do: prices that differ in the last bit or are as large as numbers go,
// ids that are no words, labels that say nothing, quantities at the end of int64, dozens of
// dimensions, times before and after all times, hundreds of domains and clusters, long
// chains of priorities, plans of any id, machines that are all the same.
func Extreme(seed int64, size Size) World {
	d := &draw{Rand: newRand(seed ^ 0x65787472), w: Random(seed, size)}
	for _, take := range []struct {
		chance float64
		f      func()
	}{
		{0.4, d.extremePrices}, {0.5, d.extremeIDs}, {0.4, d.extremeLabels}, {0.5, d.extremeProfiles},
		{0.4, d.extremeDemand}, {0.3, d.extremeSupply}, {0.2, d.manyDims}, {0.3, d.extremeTimes},
		{0.4, d.extremeOptions}, {0.3, d.manyPriorities}, {0.3, d.manyDomains}, {0.3, d.manyClusters},
		{0.3, d.anyPlans}, {0.1, d.allTheSame},
	} {
		if d.chance(take.chance) {
			take.f()
		}
	}
	return d.w
}

func (d *draw) extremePrices() {
	prices := pick(d,
		[]float64{0, math.Copysign(0, -1)},
		[]float64{5e-324, 1e-310, 0, 0.1},
		[]float64{0.1, math.Nextafter(0.1, 1), math.Nextafter(0.1, 0)},
		[]float64{1e300, math.MaxFloat64, 1, 1 << 53, 1<<53 + 2},
	)
	own := d.chance(0.3) // each machine has its own
	for i := range d.w.Machines {
		m := &d.w.Machines[i]
		m.PricePerHour = pick(d, prices...)
		if own {
			m.PricePerHour = d.Float64()
		}
		m.InterruptionProbability = pick(d, m.InterruptionProbability, 0, math.Copysign(0, -1), 5e-324, 1e-17, math.Nextafter(1, 0), 1)
	}
}

// extremeIDs gives machines ids that sort in other ways than they were made.
func (d *draw) extremeIDs() {
	for i, n := range d.Perm(len(d.w.Machines)) {
		m := &d.w.Machines[i]
		switch d.IntN(4) {
		case 0:
			m.ID = fmt.Sprint("m", n)
		case 1:
			m.ID = fmt.Sprint(n)
		case 2:
			m.ID = fmt.Sprintf("%x", uint64(n+1)*0x9e3779b97f4a7c15)
		default:
			m.ID = pick(d, "é", " ", "~", "Z", "host/") + fmt.Sprint(n) + pick(d, "-", " ", "-9")
		}
		if m.Host != "" {
			m.Host = pick(d, "host-"+m.ID, m.ID, "h")
		}
	}
}

// extremeLabels has labels contradict the typed fields, and say what is hardly a value.
func (d *draw) extremeLabels() {
	for i := range d.w.Machines {
		m := &d.w.Machines[i]
		if m.Labels == nil {
			m.Labels = map[string]string{}
		}
		for _, x := range []struct {
			key    string
			typed  *string
			values []string
		}{
			{keyRack, nil, []string{"", "/", ",", "r1/", " ", "r1 "}},
			{model.KeyZone, &m.Zone, []string{"", "za", "zb"}},
			{model.KeyInstanceType, &m.InstanceType, []string{"small", "large", "", "gpu"}},
			{keyGeneration, nil, []string{"9223372036854775807", "-9223372036854775808", "9223372036854775808", "+1", "007", " 1", "0x1", "-0"}},
			{keyAccel, nil, []string{""}},
			{keyRole, nil, []string{"", "server", "worker"}},
		} {
			if !d.chance(0.2) {
				continue
			}
			if m.Labels[x.key] = pick(d, x.values...); x.typed != nil && d.chance(0.5) {
				*x.typed = ""
			}
		}
	}
}

// extremeProfiles has Needs ask for more, by any key and operator. What names a profile
// goes with it.
func (d *draw) extremeProfiles() {
	d.replaceProfiles(func(p *model.Profile) model.ProfileSpec {
		spec := specOf(p)
		for i := range spec.Requirements {
			if r := &spec.Requirements[i]; r.Operator == model.Same && d.chance(0.3) {
				r.Key, r.Values = d.anyKey(), nil
			}
		}
		for range d.IntN(3) {
			spec.Requirements = append(spec.Requirements, d.anyRequirement())
		}
		for d.chance(0.3) {
			spec.Spread = append(spec.Spread, model.Spread{
				Key: d.anyKey(), MaxSkew: pick[int32](d, 1, 1, 2, 5, math.MaxInt32),
				WhenUnsatisfiable: pick(d, model.DoNotSchedule, model.DoNotSchedule, model.ScheduleAnyway),
			})
		}
		return spec
	})
}

func (d *draw) anyKey() string {
	return pick(d, keyRack, model.KeyZone, model.KeyInstanceType, model.KeyCapacityType, keyGeneration, keyAccel, keyRole)
}

func (d *draw) anyRequirement() model.Requirement {
	r := model.Requirement{Key: pick(d, d.anyKey(), "example.com/nobody-has-it")}
	switch d.IntN(6) {
	case 0:
		r.Operator, r.Values = model.In, []string{"r1", "r2", "r3", "r4", "za", "zb", "small", "large", "gpu", "", "spot"}[d.IntN(8):]
	case 1, 2:
		r.Operator, r.Values = model.NotIn, pick(d, []string{"r1", "za"}, []string{""}, []string{"gpu", "spot"}, []string{"zc", "zb", "zb", "r4"})
	case 3:
		r.Operator = model.Exists
	case 4:
		r.Operator = model.DoesNotExist
	default:
		r.Key, r.Operator = keyGeneration, pick(d, model.Gt, model.Lt)
		r.Values = []string{pick(d, "-9223372036854775808", "9223372036854775807", "0", "7", "-1")}
	}
	return r
}

func specOf(p *model.Profile) model.ProfileSpec {
	return model.ProfileSpec{
		Requirements: slices.Clone(p.Requirements()), Spread: slices.Clone(p.Spread()),
		Priority: p.Priority(), Interruption: p.Interruption(), Reclamation: p.Reclamation(),
	}
}

// replaceProfiles gives each profile of the demand another one, and machines the stamps
// and owners that follow.
func (d *draw) replaceProfiles(of func(*model.Profile) model.ProfileSpec) {
	to := map[uint64]*model.Profile{}
	for i := range d.w.Needs {
		n := &d.w.Needs[i]
		was := n.Profile.Fingerprint()
		if to[was] == nil {
			p, err := model.NewProfile(of(n.Profile))
			if err != nil {
				p = n.Profile // what was drawn is refused: Same on two keys
			}
			to[was] = p
		}
		n.Profile = to[was]
	}
	for i := range d.w.Machines {
		m := &d.w.Machines[i]
		if p := to[m.Assigned.Fingerprint]; p != nil {
			m.Assigned.Fingerprint, m.Assigned.Priority = p.Fingerprint(), p.Priority()
		}
		if p := to[m.Reservation.Owner.Fingerprint]; p != nil {
			m.Reservation.Owner.Fingerprint = p.WithoutSame().Fingerprint()
		}
	}
	if d.w.BackingOff != nil {
		d.backOff()
	}
}

// large are quantities at the ends of what numbers hold exactly.
var large = []int64{1, 2, math.MaxInt64, math.MaxInt64 - 1, 1 << 62, 1<<53 + 1, 1<<53 - 1, 1<<31 + 1, 1000, 8000}

func (d *draw) extremeDemand() {
	name := func() string { return pick(d, "cpu", "memory", "nvidia.com/gpu", "example.com/disk") }
	share := pick(d, 0.1, 0.3, 0.8)
	for i := range d.w.Needs {
		n := &d.w.Needs[i]
		if !d.chance(share) {
			continue
		}
		switch d.IntN(4) {
		case 0:
			n.Aggregate = model.NewResources(model.Amount{Name: name(), Value: pick(d, large...)}, model.Amount{Name: name(), Value: 8})
		case 1:
			n.MinUnit = model.NewResources(model.Amount{Name: name(), Value: pick(d, large...)})
		case 2:
			n.MinUnit = nil
		default:
			n.Aggregate = nil
		}
		var least []model.Amount // no more than what is wanted in all
		for _, a := range n.MinAggregate {
			least = append(least, model.Amount{Name: a.Name, Value: min(a.Value, n.Aggregate.Get(a.Name))})
		}
		n.MinAggregate = model.NewResources(least...)
	}
}

func (d *draw) extremeSupply() {
	share := pick(d, 0.1, 0.4)
	for i := range d.w.Machines {
		m := &d.w.Machines[i]
		switch {
		case d.chance(share):
			m.Resources = model.NewResources(
				model.Amount{Name: "cpu", Value: pick(d, large...)}, model.Amount{Name: "memory", Value: pick(d, large...)},
				model.Amount{Name: "nvidia.com/gpu", Value: pick[int64](d, 0, 1, 8, math.MaxInt64)})
		case d.chance(0.1):
			m.Resources, m.Allocatable = nil, nil
		}
	}
}

func (d *draw) manyDims() {
	n := 3 + d.IntN(55)
	dims := func(of int, share float64) (out []model.Amount) {
		for k := range of {
			if d.chance(share) {
				out = append(out, model.Amount{Name: fmt.Sprintf("d/%02d", k), Value: int64(1 + d.IntN(4))})
			}
		}
		return out
	}
	for i := range d.w.Needs {
		more := dims(n, 3/float64(n))
		d.w.Needs[i].Aggregate = d.w.Needs[i].Aggregate.Add(model.NewResources(more...))
		if len(more) > 0 && d.chance(0.3) {
			d.w.Needs[i].MinUnit = d.w.Needs[i].MinUnit.Add(model.NewResources(more[0]))
		}
	}
	for i := range d.w.Machines {
		d.w.Machines[i].Resources = d.w.Machines[i].Resources.Add(model.NewResources(dims(n, 0.8)...))
	}
}

func (d *draw) extremeTimes() {
	now := d.w.Now
	times := []int64{0, math.MinInt64, math.MaxInt64, -1, 1, now, now + 1, now - 1, now - int64(time.Minute)}
	for i := range d.w.Needs {
		if d.chance(0.4) {
			d.w.Needs[i].Arrival, d.w.Needs[i].ShortSince = pick(d, times...), pick(d, times...)
		}
	}
	for i := range d.w.Machines {
		m := &d.w.Machines[i]
		if m.State == model.Idle && d.chance(0.4) {
			m.IdleSince = pick(d, times...)
		}
		if m.Reservation.Active() && d.chance(0.4) {
			m.Reservation.Deadline, m.Reservation.Arrival = pick(d, times...), pick(d, times...)
		}
	}
	if d.chance(0.2) {
		d.w.Now = pick[int64](d, 0, -1, 1, math.MaxInt64-1)
	}
}

func (d *draw) extremeOptions() {
	w := &d.w
	w.DrainSeconds = map[string]float64{}
	for _, t := range []string{"small", "large", "gpu", ""} {
		if d.chance(0.5) {
			w.DrainSeconds[t] = pick(d, 0, -1, math.NaN(), math.Inf(1), math.Inf(-1), 1e308, 5e-324, 1, 30)
		}
	}
	w.Band = pick(d, w.Band, 1e-9, 0.1, 1e9, 1e308, math.Inf(1), 0)
	w.TopDomains = pick(d, w.TopDomains, 1, 2, 8, 100, math.MaxInt)
	w.Nested = pick(d, w.Nested, []string{keyRole}, []string{model.KeyCapacityType, model.KeyInstanceType, keyRack, keyAccel, keyRole}, []string{keyGeneration, model.KeyZone})
	for i := range w.Tenants {
		w.Tenants[i].Share = model.NewResources(model.Amount{Name: pick(d, "cpu", "memory", "nvidia.com/gpu"), Value: pick(d, large...)})
	}
}

// manyPriorities makes chains of many levels.
func (d *draw) manyPriorities() {
	base := pick(d, 0, math.MinInt32, math.MaxInt32-40, -20)
	step := pick(d, 1, 1, 100_000, 500_000)
	d.replaceProfiles(func(p *model.Profile) model.ProfileSpec {
		spec := specOf(p)
		spec.Priority = int32(min(max(base+d.IntN(40)*step, math.MinInt32), math.MaxInt32))
		spec.Interruption = pick(d, spec.Interruption, d.bucket())
		return spec
	})
}

func (d *draw) manyDomains() {
	n := pick(d, 10, 70, 300)
	for i := range d.w.Machines {
		m := &d.w.Machines[i]
		if m.Labels == nil {
			m.Labels = map[string]string{}
		}
		if d.chance(0.8) {
			m.Labels[keyRack] = fmt.Sprint("r", d.IntN(n))
		}
		if d.chance(0.3) {
			m.Zone = fmt.Sprint("z", d.IntN(n))
		}
	}
}

func (d *draw) manyClusters() {
	n := pick(d, 10, 70, 300)
	for i := range d.w.Needs {
		if d.chance(0.7) {
			d.w.Needs[i].Cluster = fmt.Sprint("k", d.IntN(n))
			d.w.Reported[d.w.Needs[i].Cluster] = true
		}
	}
	for i := range d.w.Machines {
		m := &d.w.Machines[i]
		if m.Cluster != "" && d.chance(0.7) {
			if m.Cluster = fmt.Sprint("k", d.IntN(n)); d.chance(0.7) {
				d.w.Reported[m.Cluster] = true
			}
		}
		if m.Reservation.Active() && len(d.w.Needs) > 0 && d.chance(0.5) {
			m.Reservation.Owner = d.w.Needs[d.IntN(len(d.w.Needs))].Owner()
		}
	}
}

// anyPlans has reservations belong to plans of any id, domain and rank.
func (d *draw) anyPlans() {
	for i := range d.w.Machines {
		r := &d.w.Machines[i].Reservation
		if !r.Active() || d.w.Machines[i].State == model.Creating {
			continue
		}
		r.Plan = pick[uint64](d, 0, 1, 2, 3, math.MaxUint64)
		r.Domain = pick(d, r.Domain, "", "r1", "nowhere", "za")
		r.Priority = pick(d, r.Priority, math.MinInt32, math.MaxInt32)
	}
}

func (d *draw) allTheSame() {
	for i := range d.w.Machines {
		m, first := &d.w.Machines[i], &d.w.Machines[0]
		m.Resources, m.Allocatable, m.PricePerHour, m.InterruptionProbability = first.Resources, first.Allocatable, first.PricePerHour, first.InterruptionProbability
		m.InstanceType, m.Zone, m.CapacityType, m.Labels = first.InstanceType, first.Zone, first.CapacityType, first.Labels
	}
}
