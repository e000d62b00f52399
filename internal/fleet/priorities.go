package fleet

import "github.com/tonnage/tonnage/engine/model"

// Prioritised is a world with a priority for each row, of up to forty, in place of the few that it had; some rows are spread over
// zones as well. Stamps and reservations follow some row that they were of.
func Prioritised(w World, seed int64) World {
	d := &draw{Rand: newRand(seed ^ 0x7072696f), w: w.Clone()}
	levels, step := 2+d.IntN(40), pick(d, int32(1), 10, 1000)
	byProfile, byFold, byOwner := map[uint64][]*model.Profile{}, map[uint64][]*model.Profile{}, map[uint64][]*model.Profile{}
	for i := range d.w.Needs {
		p := d.w.Needs[i].Profile
		spec := model.ProfileSpec{
			Requirements: p.Requirements(), Spread: p.Spread(), Priority: step * int32(d.IntN(levels)), Interruption: p.Interruption(), Reclamation: p.Reclamation(),
		}
		if p.Same() == nil && len(spec.Spread) == 0 && d.chance(0.2) {
			spec.Spread = []model.Spread{{Key: model.KeyZone, MaxSkew: 1 + int32(d.IntN(2)), WhenUnsatisfiable: model.DoNotSchedule}}
		}
		q, err := model.NewProfile(spec)
		if err != nil {
			panic(err) // the profile that it is made of was valid
		}
		note := func(by map[uint64][]*model.Profile, of *model.Profile) {
			by[of.Fingerprint()] = append(by[of.Fingerprint()], q)
		}
		note(byProfile, p)
		note(byFold, p.Folded())
		note(byOwner, p.WithoutSame())
		d.w.Needs[i].Profile = q
	}
	for i := range d.w.Machines {
		m := &d.w.Machines[i]
		if list := byProfile[m.Assigned.Fingerprint]; len(list) > 0 {
			q := pick(d, list...)
			m.Assigned.Fingerprint, m.Assigned.Priority = q.Fingerprint(), q.Priority()
		} else if list := byFold[m.Assigned.Fingerprint]; len(list) > 0 {
			q := pick(d, list...)
			m.Assigned.Fingerprint, m.Assigned.Priority = q.Folded().Fingerprint(), q.Priority()
		}
		if list := byOwner[m.Reservation.Owner.Fingerprint]; len(list) > 0 {
			q := pick(d, list...)
			m.Reservation.Owner.Fingerprint, m.Reservation.Priority = q.WithoutSame().Fingerprint(), q.Priority()
		}
	}
	return d.w
}
