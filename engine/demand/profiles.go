package demand

import "github.com/tonnage/tonnage/engine/model"

// profiles interns profiles by canonical form and counts who holds them, so
// that demand which comes and goes does not leave its profiles behind.
type profiles struct {
	byID    []*model.Profile
	refs    []uint32
	ids     map[string]uint32
	free    []uint32
	version uint64 // changes whenever an id gets a meaning
}

func newProfiles() profiles { return profiles{ids: map[string]uint32{}} }

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
	}
	p.refs[id]++
	return id
}

func (p *profiles) release(id uint32) {
	if p.refs[id]--; p.refs[id] == 0 {
		delete(p.ids, p.byID[id].Canonical())
		p.byID[id] = nil
		p.free = append(p.free, id)
	}
}
