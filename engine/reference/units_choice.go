package reference

import (
	"slices"

	"github.com/tonnage/tonnage/engine/model"
)

// substitutionsMax bounds how many substitutions a plan tries.
const substitutionsMax = 64

// selection is how units are chosen for one Need in one scope.
type selection struct {
	p       *pass
	units   []*unit
	missing model.Resources // what the units are chosen for
	// ledger, where tenants share, says whether the unit may go beside the
	// chosen ones, and how far above its share its tenant then is.
	ledger func(chosen []*unit, u *unit) (tenant int64, admitted bool)
}

// key measures the unit beside what is chosen.
func (s *selection) key(chosen []*unit, u *unit, missing model.Resources) (unitKey, bool) {
	k := s.p.keyOfUnit(u, missing, gone(chosen))
	if s.ledger == nil {
		return k, true
	}
	var admitted bool
	k.tenant, admitted = s.ledger(chosen, u)
	k.band = 0
	return k, admitted
}

// gone returns what leaves with the units.
func gone(units []*unit) map[*model.Machine]bool {
	out := map[*model.Machine]bool{}
	for _, u := range units {
		for _, m := range u.members {
			out[m] = true
		}
	}
	return out
}

// locals returns what the Need can use of the units.
func locals(units []*unit) []*model.Machine {
	var ms []*model.Machine
	for _, u := range units {
		ms = append(ms, u.local...)
	}
	return ms
}

// choose takes, until nothing is missing, the unit with the smallest key of
// those that free something still missing. A whole gang takes in what was
// chosen of its members.
func (s *selection) choose() (chosen []*unit, left model.Resources) {
	left = s.missing
	for !left.IsZero() {
		u := s.next(chosen, left)
		if u == nil {
			break
		}
		if u.class == classWhole {
			chosen = dropUnits(chosen, func(o *unit) bool { return o.gang == u.gang })
		}
		chosen = append(chosen, u)
		left = s.missing.Sub(sum(locals(chosen)))
	}
	return chosen, left
}

func (s *selection) next(chosen []*unit, left model.Resources) *unit {
	var best *unit
	var bestKey unitKey
	taken := gone(chosen)
	for _, u := range s.units {
		if !slices.ContainsFunc(u.local, func(m *model.Machine) bool { return !taken[m] && useful(m, left) }) {
			continue
		}
		k, admitted := s.key(chosen, u, left)
		if admitted && (best == nil || k.compare(bestKey) < 0) {
			best, bestKey = u, k
		}
	}
	return best
}

// reprieve goes from the last chosen back and drops each unit without which as
// much of what is missing is freed as with it.
func (s *selection) reprieve(chosen []*unit) []*unit {
	kept := chosen
	for _, u := range slices.Backward(chosen) {
		rest := dropUnits(kept, func(o *unit) bool { return o == u })
		if reach(locals(rest), s.missing).Equal(reach(locals(kept), s.missing)) {
			kept = rest
		}
	}
	return kept
}

// substitute goes once over the chosen units, from the last chosen back, and
// puts in the place of each the gentlest unit outside that is gentler and
// covers what only this one covers. Gentler = a smaller key, measured on that.
func (s *selection) substitute(chosen []*unit) []*unit {
	tries := 0
	for _, u := range slices.Backward(chosen) {
		rest := dropUnits(chosen, func(o *unit) bool { return o == u })
		for _, v := range s.gentler(chosen, rest, u) {
			if tries++; tries > substitutionsMax {
				return chosen
			}
			if with := append(slices.Clone(rest), v); sum(locals(with)).Covers(s.missing) {
				chosen = with
				break
			}
		}
	}
	return chosen
}

// gentler lists, by key, the units that are neither chosen nor part of a chosen
// gang, and go before u.
func (s *selection) gentler(chosen, rest []*unit, u *unit) []*unit {
	taken := gone(rest)
	only := s.missing.Sub(sum(locals(rest)))
	limit, _ := s.key(rest, u, only)
	keys := map[*unit]unitKey{}
	var out []*unit
	for _, v := range s.units {
		overlaps := slices.ContainsFunc(v.members, func(m *model.Machine) bool { return taken[m] })
		useless := !slices.ContainsFunc(v.local, func(m *model.Machine) bool { return useful(m, only) })
		if overlaps || useless || slices.Contains(chosen, v) {
			continue
		}
		if k, admitted := s.key(rest, v, only); admitted && k.compare(limit) < 0 {
			keys[v] = k
			out = append(out, v)
		}
	}
	slices.SortFunc(out, func(a, b *unit) int { return keys[a].compare(keys[b]) })
	return out
}

// minimal chooses units that cover what is missing, with nothing to spare;
// where not everything can be covered, ok is false.
func (s *selection) minimal() (chosen []*unit, ok bool) {
	chosen, left := s.choose()
	if !left.IsZero() {
		return nil, false
	}
	return s.substitute(s.reprieve(chosen)), true
}

// part chooses what can be freed without breaking a gang.
func (s *selection) part() []*unit {
	singles := *s
	singles.units = dropUnits(s.units, func(u *unit) bool { return u.class == classWhole })
	chosen, _ := singles.choose()
	return singles.reprieve(chosen)
}

func dropUnits(units []*unit, test func(*unit) bool) []*unit {
	var out []*unit
	for _, u := range units {
		if !test(u) {
			out = append(out, u)
		}
	}
	return out
}
