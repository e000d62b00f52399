package supply

import (
	"fmt"
	"maps"

	"github.com/tonnage/tonnage/engine/model"
)

const (
	// MatchersMax is the most different sets of requirements that demand may
	// have at one time.
	MatchersMax = 1 << 16
	// matcherIdleCycles is after how many calls of Use an unused matcher goes if
	// there are many; after keyIdleCycles it goes anyhow.
	matcherIdleCycles = 64
	// idleMatchersKept is how many matchers, and profiles, are remembered
	// beside as many as are in use.
	idleMatchersKept = 64
)

// Use makes sure that the table tracks everything that these profiles look at
// and lets go of what has not been used for a while. Afterwards Matcher
// answers for each of them. When it returns an error, because demand looks at
// more than the table keeps track of, Matcher may not answer for all of them.
// Cost: O(profiles + keys) without allocation when none is new, O(machines)
// when one is.
func (t *Table) Use(profiles []*model.Profile) error {
	t.matchers.tick++
	var unknown []*model.Profile
	for _, p := range profiles {
		if u, ok := t.matchers.byProfile[p]; ok {
			t.touch(u)
		} else {
			unknown = append(unknown, p)
		}
	}
	if len(unknown) > 0 {
		if err := t.learn(unknown); err != nil {
			return err
		}
	}
	t.forget(len(profiles))
	t.settleDims()
	return nil
}

// touch notes that a profile is in use.
func (t *Table) touch(u *profileUse) {
	tick := t.matchers.tick
	u.lastUsed = tick
	m := &t.matchers.list[u.matcher]
	if m.lastUsed != tick {
		m.lastUsed = tick
		for _, k := range m.keys {
			t.keys[k].lastUsed = tick
		}
		if m.sameKey >= 0 {
			t.keys[m.sameKey].lastUsed = tick
		}
	}
	for _, k := range u.spread {
		t.useSpread(k)
	}
}

// learn makes the table track profiles that it has not seen. The columns of
// all keys come first, then the classes are formed anew, if other keys split
// them now, then the matchers are decided on them.
func (t *Table) learn(profiles []*model.Profile) error {
	uses := make([]profileUse, len(profiles))
	for i, p := range profiles {
		spread, err := t.useKeysOf(p)
		if err != nil {
			return err
		}
		uses[i].spread = spread
	}
	var fresh []uint32
	for i, p := range profiles {
		canonical := canonicalRequirements(p)
		id, ok := t.matchers.ids[canonical]
		if !ok {
			if err := t.makeRoom(); err != nil {
				t.admitAll(fresh)
				return err
			}
			id = t.addMatcher(p, canonical)
			fresh = append(fresh, id)
		}
		uses[i].matcher = id
		t.matchers.byProfile[p] = &uses[i]
		t.touch(&uses[i])
	}
	t.admitAll(fresh)
	return nil
}

// useKeysOf gives every key of a profile a column and returns those of its
// hard spread.
func (t *Table) useKeysOf(p *model.Profile) (spread []int, err error) {
	for i := range p.Requirements() {
		r := &p.Requirements()[i]
		if r == p.WasSame() {
			_, err = t.useFoldKey(r)
		} else {
			_, err = t.useKey(r.Key)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, s := range p.HardSpread() {
		k, err := t.useKey(s.Key)
		if err != nil {
			return nil, err
		}
		t.useSpread(k)
		spread = append(spread, k)
	}
	return spread, nil
}

// admitAll admits the new matchers to classes that split as they must now.
func (t *Table) admitAll(fresh []uint32) {
	t.resplit()
	if len(fresh) > 0 {
		t.admit(fresh)
	}
}

// makeRoom makes sure that there is a number for one more matcher.
func (t *Table) makeRoom() error {
	if len(t.matchers.ids) < MatchersMax {
		return nil
	}
	t.dropMatchers(func(m *matcher) bool { return m.ready && m.lastUsed < t.matchers.tick })
	if len(t.matchers.ids) >= MatchersMax {
		return fmt.Errorf("demand has more than %d different sets of requirements", MatchersMax)
	}
	return nil
}

// forget lets go of what has not been used for a while: sooner if it outnumbers
// what is in use.
func (t *Table) forget(inUse int) {
	x := &t.matchers
	stale := func(last uint64, cycles uint64) bool { return last+cycles <= x.tick }
	if len(x.ids) > 2*inUse+idleMatchersKept {
		t.dropMatchers(func(m *matcher) bool { return stale(m.lastUsed, matcherIdleCycles) })
	} else if x.tick%matcherIdleCycles == 0 {
		t.dropMatchers(func(m *matcher) bool { return stale(m.lastUsed, keyIdleCycles) })
	}
	if len(x.byProfile) > 2*inUse+idleMatchersKept {
		maps.DeleteFunc(x.byProfile, func(_ *model.Profile, u *profileUse) bool { return u.lastUsed < x.tick })
	}
	idle := false
	for i := range t.keys {
		k := &t.keys[i]
		idle = idle || k.live() && stale(k.lastUsed, keyIdleCycles)
		if k.lastSpread > 0 && stale(k.lastSpread, keyIdleCycles) {
			k.lastSpread, k.rows, k.tooMany = 0, nil, false
		}
	}
	if idle {
		t.dropKeys(func(k *keyColumn) bool { return stale(k.lastUsed, keyIdleCycles) })
	}
	t.resplit()
}
