package fleetview

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/world"
	"github.com/tonnage/tonnage/shard"
)

// standing is what a cycle found of a row of the demand: a reason on top of standsShort, standsFolded added to what is
// walked as the fold of several rows.
type standing uint8

const (
	standsWithin standing = iota // in a fold that has the name of another row
	standsMet
	standsUnknown // no cycle has decided about it yet
	standsShort
	standsFolded standing = 0x80
)

// reason returns why a row is short, engine.UnmetNone if it is not.
func (s standing) reason() engine.Unmet {
	if s &^= standsFolded; s >= standsShort {
		return engine.Unmet(s - standsShort)
	}
	return 0
}

// roster is how all rows stood in a cycle, a byte for each.
type roster struct {
	rows   []standing
	blocks []rosterBlock // by cluster
}

// rosterBlock is the part of one cluster.
type rosterBlock struct {
	cluster    string
	from, rows int
	sum        uint64 // of what its rows were
}

// sumOf tells the rows of a block from others by their profiles, O(rows). Versions do not: they also count what the shard
// itself notes in a row.
func sumOf(b *demand.Block) uint64 {
	const prime = 0x100000001b3
	sum := uint64(b.Len())
	for _, p := range b.Profiles() {
		sum = (sum ^ uint64(p)) * prime
	}
	return sum
}

// rosterOf notes which rows are Needs of their own, and that these are satisfied; listUnmet notes those that are not.
func rosterOf(in engine.Input, plan *engine.Plan) roster {
	clusters := in.Demand.Clusters()
	x := roster{rows: make([]standing, plan.Len()), blocks: make([]rosterBlock, 0, len(clusters))}
	if plan.Len() != in.Demand.Len() {
		return x
	}
	same := map[uint32]bool{} // by profile: whether rows of it may fold into one
	at := 0
	for _, cluster := range clusters {
		b := in.Demand.Block(cluster)
		x.blocks = append(x.blocks, rosterBlock{cluster, at, b.Len(), sumOf(b)})
		for _, id := range b.Profiles() {
			folds, known := same[id]
			if !known {
				folds = in.Demand.Profile(id).Same() != nil
				same[id] = folds
			}
			if int(plan.Fold(at)) == at {
				x.rows[at] = standsMet
				if folds && plan.Profile(at).Same() == nil {
					x.rows[at] |= standsFolded
				}
			}
			at++
		}
	}
	return x
}

// of returns how the rows of a cluster stood; nil if they were others.
func (x *roster) of(b *demand.Block) []standing {
	i, ok := slices.BinarySearchFunc(x.blocks, b.Cluster(), func(a rosterBlock, name string) int { return strings.Compare(a.cluster, name) })
	if !ok || x.blocks[i].rows != b.Len() || x.blocks[i].sum != sumOf(b) {
		return nil
	}
	return x.rows[x.blocks[i].from:][:b.Len()]
}

// needScanRows is how many rows are looked at while a shard is locked once.
const needScanRows = 2048

// needEntry is a Need that a question finds.
type needEntry struct {
	part, row int
	cluster   string
	priority  int32
	standing  standing
}

func (a *needEntry) before(b *needEntry) int {
	return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.part, b.part), strings.Compare(a.cluster, b.cluster), cmp.Compare(a.row, b.row))
}

// needScan goes through the rows of one shard.
type needScan struct {
	part     int
	names    world.Names
	roster   *roster
	clusters []string // that are still to be looked at
	row      int      // in the first of them

	cluster, reason, state, text string

	profiles map[uint32]string // in small letters
	most     int               // entries that are wanted
	found    []needEntry       // the first ones, and at most as many more
	matches  int
	all      int
}

// States by which Needs are filtered.
const (
	needShort     = "short"
	needSatisfied = "satisfied"
)

// take goes on for needScanRows rows. It runs with the shard locked.
func (s *needScan) take(in engine.Input) {
	for left := needScanRows; left > 0 && len(s.clusters) > 0; {
		b := in.Demand.Block(s.clusters[0])
		if b == nil || s.row >= b.Len() {
			s.clusters, s.row = s.clusters[1:], 0
			left--
			continue
		}
		stood := s.roster.of(b)
		to := min(b.Len(), s.row+left)
		left -= to - s.row
		for ; s.row < to; s.row++ {
			stands := standsUnknown
			if stood != nil {
				stands = stood[s.row]
			}
			if stands == standsWithin {
				continue
			}
			s.all++
			if s.matchesRow(in, b, s.row, stands) {
				s.matches++
				s.offer(needEntry{s.part, s.row, b.Cluster(), in.Demand.Profile(b.Profile(s.row)).Priority(), stands})
			}
		}
	}
}

func (s *needScan) matchesRow(in engine.Input, b *demand.Block, row int, stands standing) bool {
	met := stands&^standsFolded == standsMet
	switch {
	case s.cluster != "" && s.cluster != b.Cluster(),
		s.state == needSatisfied && !met, s.state == needShort && stands.reason() == 0,
		s.reason != "" && (stands.reason() == 0 || s.reason != stands.reason().String()):
		return false
	case s.text == "":
		return true
	}
	id := b.Profile(row)
	says, known := s.profiles[id]
	if !known {
		says = strings.ToLower(shard.Describe(in.Demand.Profile(id)))
		s.profiles[id] = says
	}
	return strings.Contains(says, s.text) || strings.Contains(strings.ToLower(b.Cluster()+" "+b.Group(row)+" "+nameAt(in, s.names, b.Cluster(), row)), s.text)
}

func (s *needScan) offer(e needEntry) {
	s.found = append(s.found, e)
	if len(s.found) >= 2*s.most+needScanRows {
		s.sort()
	}
}

func (s *needScan) sort() {
	slices.SortFunc(s.found, func(a, b needEntry) int { return a.before(&b) })
	s.found = s.found[:min(len(s.found), s.most)]
}

// everyNeed lists Needs whether they are short or not, by priority.
func (v *View) everyNeed(ctx context.Context, q url.Values, w window) (any, error) {
	v.listing.Lock() // one at a time: it looks at all rows
	defer v.listing.Unlock()
	out := NeedsAnswer{Needs: []NeedRow{}}
	var lists []*unmetList
	v.unmetNow(func(l *unmetList) {
		kept := *l
		lists = append(lists, &kept)
		out.Unmet += l.total
		out.Kept += len(l.rows)
	})
	var found []needEntry
	for n, p := range v.parts {
		s := needScan{
			part: n, names: p.names(), roster: &lists[n].roster, most: w.offset + w.limit, profiles: map[uint32]string{},
			cluster: q.Get("cluster"), reason: q.Get("reason"), state: q.Get("state"), text: strings.ToLower(q.Get("q")),
		}
		_ = p.Inspect(func(in engine.Input, _ engine.Options, _ *shard.HeldBack) error {
			s.clusters = slices.Clone(in.Demand.Clusters())
			return nil
		})
		for len(s.clusters) > 0 {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			_ = p.Inspect(func(in engine.Input, _ engine.Options, _ *shard.HeldBack) error {
				s.take(in)
				return nil
			})
		}
		s.sort()
		found = append(found, s.found...)
		out.Total += s.matches
		out.All += s.all
	}
	slices.SortStableFunc(found, func(a, b needEntry) int { return a.before(&b) })
	found = cut(w, found)
	stamps := make([]stampSet, len(found))
	out.Needs = make([]NeedRow, len(found))
	for n, p := range v.parts {
		_ = p.Inspect(func(in engine.Input, _ engine.Options, _ *shard.HeldBack) error {
			for i := range found {
				if found[i].part == n {
					stamps[i] = out.Needs[i].describe(in, p.names(), &found[i], lists[n])
				}
			}
			return nil
		})
	}
	f, err := v.copy()
	if err != nil {
		return nil, err
	}
	f.countHeld(out.Needs, stamps)
	return out, nil
}

// describe fills a row of a list, and returns the stamps that its machines may carry.
func (r *NeedRow) describe(in engine.Input, names world.Names, e *needEntry, l *unmetList) stampSet {
	b := in.Demand.Block(e.cluster)
	*r = NeedRow{Name: nameOfRow(e.cluster, e.row), Cluster: e.cluster, Priority: e.priority, Deficit: []Amount{}, Rows: 1}
	if b == nil || e.row >= b.Len() { // it has gone since
		return stampSet{}
	}
	n := in.Demand.Row(b, e.row)
	folded := n.Profile.Folded()
	s := stampSet{cluster: e.cluster, own: needKey{e.cluster, n.Profile.Fingerprint(), n.Group}, fold: needKey{e.cluster, folded.Fingerprint(), ""}, canFold: n.Profile.Same() != nil}
	key, profile, wants := s.own, n.Profile, n.Aggregate
	if e.standing&standsFolded != 0 {
		key, profile = s.fold, folded
		r.Rows, wants = foldOf(in, b, e.row, s.fold.fingerprint, l.roster.of(b))
	}
	r.Name, r.Key, r.Group, r.Profile = names.Of(e.cluster, e.row, &n), key.text(), key.group, inShort(shard.Describe(profile))
	r.Wants, r.Satisfied = vectorOf(wants), e.standing&^standsFolded == standsMet
	if e.standing.reason() == 0 {
		return s
	}
	r.Reason = e.standing.reason().String()
	for i := range l.rows {
		if x := &l.rows[i]; x.key == key && x.number == e.row {
			r.Deficit, r.Age = vectorOf(l.vector(x)), float64(l.at-x.since)/1e9
		}
	}
	return s
}

// foldOf adds up the rows of a fold that has the name of its first.
func foldOf(in engine.Input, b *demand.Block, first int, fingerprint uint64, stood []standing) (rows int, wants model.Resources) {
	sum := map[string]int64{}
	for i := range b.Len() {
		if i != first && (stood == nil || stood[i] != standsWithin) || in.Demand.Profile(b.Profile(i)).Folded().Fingerprint() != fingerprint {
			continue
		}
		rows++
		n := in.Demand.Row(b, i)
		for _, a := range n.Aggregate {
			sum[a.Name] = model.SatAdd(sum[a.Name], a.Value)
		}
	}
	list := make([]model.Amount, 0, len(sum))
	for name, v := range sum {
		list = append(list, model.Amount{Name: name, Value: v})
	}
	return rows, model.NewResources(list...)
}

// countHeld counts the machines that carry the stamps of Needs.
func (f *fleet) countHeld(rows []NeedRow, stamps []stampSet) {
	of := map[needKey][]int{}
	for i := range stamps {
		s := &stamps[i]
		if s.cluster == "" {
			continue
		}
		of[s.own] = append(of[s.own], i)
		if s.canFold && s.fold != s.own {
			of[s.fold] = append(of[s.fold], i)
		}
	}
	if len(of) == 0 {
		return
	}
	for i := range f.ids {
		if f.fingerprint[i] == 0 {
			continue
		}
		for _, n := range of[needKey{f.names[f.cluster[i]], f.fingerprint[i], f.names[f.group[i]]}] {
			rows[n].Machines++
		}
	}
}
