package fleet

import (
	"maps"
	"slices"

	"github.com/tonnage/tonnage/engine/model"
)

// minimiseCallsMax bounds how often Minimise asks; the smallest world found by
// then is the answer.
const minimiseCallsMax = 20_000

// Minimise returns a smaller world that still fails: it drops machines and
// rows, halves first, then single ones, then simplifies the fields of what is
// left, until nothing more can go. stillFails must be true for w.
func Minimise(w World, stillFails func(World) bool) World {
	s := &shrinker{w: w.Clone(), fails: stillFails}
	for changed := true; changed; {
		changed = s.dropMachines()
		changed = s.dropNeeds() || changed
		changed = s.dropReports() || changed
		changed = s.simplifyMachines() || changed
		changed = s.simplifyNeeds() || changed
	}
	return s.w
}

type shrinker struct {
	w     World
	fails func(World) bool
	calls int
}

// try keeps the candidate if it still fails.
func (s *shrinker) try(candidate World) bool {
	if s.calls >= minimiseCallsMax {
		return false
	}
	s.calls++
	if !s.fails(candidate.Clone()) {
		return false
	}
	s.w = candidate
	return true
}

// dropRuns removes runs of ever smaller length from a list of n elements; drop
// tries to remove elements i…j-1 and says whether it did.
func dropRuns(n int, drop func(i, j int) bool) bool {
	changed := false
	for size := (n + 1) / 2; size > 0; size /= 2 {
		for i := 0; i < n; {
			j := min(i+size, n)
			if drop(i, j) {
				n -= j - i
				changed = true
			} else {
				i = j
			}
		}
	}
	return changed
}

func (s *shrinker) dropMachines() bool {
	return dropRuns(len(s.w.Machines), func(i, j int) bool {
		c := s.w.Clone()
		c.Machines = slices.Delete(c.Machines, i, j)
		return s.try(c)
	})
}

func (s *shrinker) dropNeeds() bool {
	return dropRuns(len(s.w.Needs), func(i, j int) bool {
		c := s.w.Clone()
		c.Needs = slices.Delete(c.Needs, i, j)
		return s.try(c)
	})
}

// dropReports takes clusters without rows from those that have reported, the
// observed drain times, the tenants, who backs off, and a band that is not the default.
func (s *shrinker) dropReports() bool {
	changed := false
	for _, cluster := range slices.Sorted(maps.Keys(s.w.Reported)) {
		if slices.ContainsFunc(s.w.Needs, func(n model.Need) bool { return n.Cluster == cluster }) {
			continue
		}
		c := s.w.Clone()
		delete(c.Reported, cluster)
		changed = s.try(c) || changed
	}
	if len(s.w.DrainSeconds) > 0 {
		c := s.w.Clone()
		c.DrainSeconds = nil
		changed = s.try(c) || changed
	}
	if len(s.w.Tenants) > 0 {
		c := s.w.Clone()
		c.Tenants = nil
		changed = s.try(c) || changed
	}
	if len(s.w.Nested) > 0 {
		c := s.w.Clone()
		c.Nested = nil
		changed = s.try(c) || changed
	}
	changed = s.dropLimits() || changed
	if len(s.w.BackingOff) > 0 {
		c := s.w.Clone()
		c.BackingOff = nil
		changed = s.try(c) || changed
	}
	if s.w.Band != 1 {
		c := s.w.Clone()
		c.Band = 1
		changed = s.try(c) || changed
	}
	return changed
}

// dropLimits leaves out limits of the options.
func (s *shrinker) dropLimits() (changed bool) {
	if s.w.TopDomains > 0 {
		c := s.w.Clone()
		c.TopDomains = 0
		changed = s.try(c) || changed
	}
	if s.w.SearchPairs > 0 {
		c := s.w.Clone()
		c.SearchPairs = 0
		changed = s.try(c) || changed
	}
	if s.w.SearchUnits > 0 {
		c := s.w.Clone()
		c.SearchUnits = 0
		changed = s.try(c) || changed
	}
	if s.w.MaxMachineShare > 0 {
		c := s.w.Clone()
		c.MaxMachineShare = 0
		changed = s.try(c) || changed
	}
	return changed
}

// machineSteps make one thing of a machine plainer.
var machineSteps = []func(*model.Machine){
	func(m *model.Machine) { m.Reservation = model.Reservation{} },
	func(m *model.Machine) { m.Reservation.Deadline = 0 },
	func(m *model.Machine) { m.Reservation.Plan, m.Reservation.Domain = 0, "" },
	func(m *model.Machine) { m.Reservation.Domain = "" },
	func(m *model.Machine) {
		m.Reservation.Priority, m.Reservation.Interruption, m.Reservation.Reclamation, m.Reservation.Arrival = 0, 0, 0, 0
	},
	func(m *model.Machine) { m.Assigned = model.Assignment{} },
	func(m *model.Machine) { m.Assigned.Fingerprint, m.Assigned.Group = 0, "" },
	func(m *model.Machine) { m.Assigned.Priority = 0 },
	func(m *model.Machine) { m.Assigned.Interruption = 0 },
	func(m *model.Machine) { m.Assigned.Reclamation = 0 },
	func(m *model.Machine) { m.Allocatable = nil },
	func(m *model.Machine) { m.Resources, m.Allocatable = m.EffectiveAllocatable(), nil },
	func(m *model.Machine) { m.Resources = lead(m.Resources) },
	func(m *model.Machine) { m.PricePerHour = 0 },
	func(m *model.Machine) { m.InterruptionProbability = 0 },
	func(m *model.Machine) { m.InstanceType = "" },
	func(m *model.Machine) { m.Zone = "" },
	func(m *model.Machine) { m.CapacityType = model.CapacityUnspecified },
	func(m *model.Machine) { m.Labels = nil },
}

// lead keeps only the first dimension.
func lead(r model.Resources) model.Resources { return r[:min(1, len(r))] }

func (s *shrinker) simplifyMachines() bool {
	changed := false
	for i := range s.w.Machines {
		steps := slices.Clone(machineSteps)
		for _, label := range slices.Sorted(maps.Keys(s.w.Machines[i].Labels)) {
			steps = append(steps, func(m *model.Machine) { delete(m.Labels, label) })
		}
		for _, step := range steps {
			c := s.w.Clone()
			before := describeMachine(c, &c.Machines[i])
			step(&c.Machines[i])
			if describeMachine(c, &c.Machines[i]) != before {
				changed = s.try(c) || changed
			}
		}
	}
	return changed
}

// needSteps make one thing of a row plainer.
var needSteps = []func(*model.Need){
	func(n *model.Need) { n.Parked = false },
	func(n *model.Need) { n.Group = "" },
	func(n *model.Need) { n.Arrival = 0 },
	func(n *model.Need) { n.MinUnit = nil },
	func(n *model.Need) { n.MinAggregate = nil },
	func(n *model.Need) { n.ShortSince = 0 },
	func(n *model.Need) { n.Aggregate = lead(n.Aggregate) },
	func(n *model.Need) { n.Aggregate = half(n.Aggregate) },
}

func half(r model.Resources) model.Resources {
	var out []model.Amount
	for _, a := range r {
		out = append(out, model.Amount{Name: a.Name, Value: a.Value / 2})
	}
	return model.NewResources(out...)
}

func (s *shrinker) simplifyNeeds() bool {
	changed := false
	for i := range s.w.Needs {
		for _, step := range needSteps {
			c := s.w.Clone()
			before := describeNeed(c, &c.Needs[i])
			step(&c.Needs[i])
			if describeNeed(c, &c.Needs[i]) != before {
				changed = s.try(c) || changed
			}
		}
		changed = s.simplifyProfile(s.w.Needs[i].Profile) || changed
	}
	return changed
}

// simplifyProfile tries plainer profiles in all the rows and stamps that have
// this one.
func (s *shrinker) simplifyProfile(p *model.Profile) bool {
	full := model.ProfileSpec{Requirements: p.Requirements(), Spread: p.Spread(), Priority: p.Priority(), Interruption: p.Interruption(), Reclamation: p.Reclamation()}
	var plainer []model.ProfileSpec
	for i := range full.Requirements {
		spec := full
		spec.Requirements = slices.Delete(slices.Clone(full.Requirements), i, i+1)
		plainer = append(plainer, spec)
	}
	for i := range full.Spread {
		spec := full
		spec.Spread = slices.Delete(slices.Clone(full.Spread), i, i+1)
		plainer = append(plainer, spec)
	}
	for _, part := range []func(*model.ProfileSpec){
		func(s *model.ProfileSpec) { s.Priority = 0 },
		func(s *model.ProfileSpec) { s.Interruption = 0 },
		func(s *model.ProfileSpec) { s.Reclamation = 0 },
	} {
		spec := full
		part(&spec)
		plainer = append(plainer, spec)
	}
	for _, spec := range plainer {
		q, err := model.NewProfile(spec)
		if err == nil && !q.Equal(p) && s.try(exchange(s.w, p, q)) {
			s.simplifyProfile(q)
			return true
		}
	}
	return false
}

// exchange puts q in the place of p, in rows, stamps and reservations.
func exchange(w World, p, q *model.Profile) World {
	c := w.Clone()
	for i := range c.Needs {
		if c.Needs[i].Profile.Equal(p) {
			c.Needs[i].Profile = q
		}
	}
	swap := func(f *uint64) {
		switch *f {
		case p.Fingerprint():
			*f = q.Fingerprint()
		case p.WithoutSame().Fingerprint():
			*f = q.WithoutSame().Fingerprint()
		case p.Folded().Fingerprint():
			*f = q.Folded().Fingerprint()
		}
	}
	for i := range c.Machines {
		m := &c.Machines[i]
		swap(&m.Assigned.Fingerprint)
		if m.Reservation.Active() {
			swap(&m.Reservation.Owner.Fingerprint)
		}
	}
	return c
}
