package demand

import "github.com/tonnage/tonnage/engine/model"

// profiles interns profiles by canonical form and counts who holds them, so
// that demand which comes and goes does not leave its profiles behind.
type profiles struct {
	byID    []*model.Profile
	refs    []uint32
	ids     map[string]uint32
	free    []uint32
	version uint64          // changes whenever an id gets a meaning
	uses    map[uint64]uses // by fingerprint
	// turned are fingerprints that count for something else than when they were taken last, some more than once; allTurned: there were too many.
	turned    []uint64
	allTurned bool
}

// turnedMax is how many of them are kept.
const turnedMax = 1 << 12

// uses counts the profiles that stamp machines with a fingerprint: those that ask for one domain, which stamp them with that of their fold too,
// and all others.
type uses struct{ group, row int32 }

func newProfiles() profiles { return profiles{ids: map[string]uint32{}, uses: map[uint64]uses{}} }

func (p *profiles) hold(x *model.Profile) uint32 {
	id, ok := p.ids[x.Canonical()]
	if !ok {
		if n := len(p.free); n > 0 {
			id, p.free = p.free[n-1], p.free[:n-1]
			p.byID[id] = x
		} else {
			id = uint32(len(p.byID))
			p.byID = append(p.byID, x)
			p.refs = append(p.refs, 0)
		}
		p.ids[x.Canonical()] = id
		p.version++
		p.use(x, 1)
	}
	p.refs[id]++
	return id
}

func (p *profiles) release(id uint32) {
	if p.refs[id]--; p.refs[id] == 0 {
		delete(p.ids, p.byID[id].Canonical())
		p.use(p.byID[id], -1)
		p.byID[id] = nil
		p.free = append(p.free, id)
	}
}

// use counts a profile by the fingerprints that it stamps machines with.
func (p *profiles) use(x *model.Profile, by int32) {
	if x.Same() == nil {
		p.add(x.Fingerprint(), uses{row: by})
		return
	}
	p.add(x.Fingerprint(), uses{group: by})
	p.add(x.Folded().Fingerprint(), uses{group: by})
}

func (p *profiles) add(fingerprint uint64, by uses) {
	was := p.uses[fingerprint]
	now := uses{was.group + by.group, was.row + by.row}
	if p.uses[fingerprint] = now; now == (uses{}) {
		delete(p.uses, fingerprint)
	}
	if was.countedFor() != now.countedFor() && now != (uses{}) {
		if p.turned = append(p.turned, fingerprint); len(p.turned) > turnedMax {
			p.turned, p.allTurned = p.turned[:0], true
		}
	}
}

// countedFor is the value of model.LabelCountedFor; empty where nobody can tell.
func (u uses) countedFor() string {
	switch {
	case u.group > 0 && u.row == 0:
		return model.CountedForGroup
	case u.row > 0 && u.group == 0:
		return model.CountedForRow
	}
	return ""
}
