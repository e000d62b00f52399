package fleetview

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/world"
	"github.com/tonnage/tonnage/shard"
)

// UnmetKeptMax is how many unmet Needs of the last cycle can be listed, by the order
// of the page; the others are counted.
const UnmetKeptMax = 2048

// unmetRow is an unmet Need, with what the page orders them by.
type unmetRow struct {
	row      int32 // its number in the plan
	priority int32
	since    int64 // Unix nanoseconds
	rank     int32

	key     needKey
	called  string // its name; empty = that of its cluster and row
	number  int    // its row in the cluster's demand
	reason  engine.Unmet
	profile *model.Profile
	deficit int // where its vector begins in the list's deficits; −1 = it has none
}

// name is what explain and what-if call the Need.
func (x *unmetRow) name() string {
	if x.called != "" {
		return x.called
	}
	return nameOfRow(x.key.cluster, x.number)
}

// nameAt returns what a row of the demand is called.
func nameAt(in engine.Input, names world.Names, cluster string, row int) string {
	if names == nil {
		return nameOfRow(cluster, row)
	}
	n := in.Demand.Row(in.Demand.Block(cluster), row)
	return names.Of(cluster, row, &n)
}

func nameOfRow(cluster string, row int) string { return cluster + "/" + strconv.Itoa(row) }

// text writes a key for the page: what tells a Need from others of its cluster from one cycle to the
// next.
func (k *needKey) text() string {
	if k.group == "" {
		return fmt.Sprintf("%016x", k.fingerprint)
	}
	return fmt.Sprintf("%016x %s", k.fingerprint, k.group)
}

// before orders the page's list: highest priority first, then longest unmet.
func (x *unmetRow) before(b *unmetRow) int {
	return cmp.Or(cmp.Compare(b.priority, x.priority), cmp.Compare(x.since, b.since), cmp.Compare(x.rank, b.rank))
}

// worstUnmet keeps, of all unmet Needs, the first by the page's order. Amortized
// O(log most) for each that is offered.
type worstUnmet struct {
	most int
	rows []unmetRow // at most 2 × most; the first most are the first of those before the last cut once full is set
	full bool
}

func (w *worstUnmet) offer(x *unmetRow) {
	if w.full && w.rows[w.most-1].before(x) <= 0 {
		return
	}
	w.rows = append(w.rows, *x)
	if len(w.rows) >= 2*w.most {
		w.sort()
	}
}

// sort orders the rows and cuts them.
func (w *worstUnmet) sort() {
	slices.SortFunc(w.rows, func(a, b unmetRow) int { return a.before(&b) })
	w.full = w.full || len(w.rows) >= w.most
	w.rows = w.rows[:min(len(w.rows), w.most)]
}

// clusterShort is what one cluster is short of.
type clusterShort struct {
	cluster string
	short   int
	reasons [engine.NumUnmet]int
	top     int32   // the highest priority of an unmet Need
	deficit []int64 // over the list's dimensions
}

// unmetList is what a cycle left unmet.
type unmetList struct {
	cycle    uint64
	at       int64 // Unix nanoseconds
	total    int
	reasons  [engine.NumUnmet]int
	dims     []string
	deficit  []int64 // of all
	rows     []unmetRow
	deficits []int64        // of the rows, one vector after the other
	clusters []clusterShort // that are short of something, by id
	roster   roster
}

// vector returns what a row is short of.
func (l *unmetList) vector(x *unmetRow) model.Resources {
	if x.deficit < 0 {
		return nil
	}
	return amountsOf(l.dims, l.deficits[x.deficit:x.deficit+len(l.dims)])
}

func amountsOf(dims []string, vector []int64) model.Resources {
	var list []model.Amount
	for d, v := range vector {
		if v > 0 {
			list = append(list, model.Amount{Name: dims[d], Value: v})
		}
	}
	return model.NewResources(list...)
}

// listUnmet takes the unmet Needs from a plan.
func (p *Recorder) listUnmet(in engine.Input, plan *engine.Plan) unmetList {
	l := unmetList{cycle: p.cycle, at: in.Now, dims: slices.Clone(plan.Dims()), roster: rosterOf(in, plan)}
	worst := worstUnmet{most: UnmetKeptMax}
	var of *clusterShort
	for i := range plan.Len() {
		if plan.Satisfied(i) || int(plan.Fold(i)) != i {
			continue
		}
		key := keyOf(in, plan, i)
		if of == nil || of.cluster != key.cluster { // rows are numbered by cluster
			l.clusters = append(l.clusters, clusterShort{cluster: key.cluster, top: plan.Profile(i).Priority(), deficit: make([]int64, len(l.dims))})
			of = &l.clusters[len(l.clusters)-1]
		}
		_, number := plan.Identity(i)
		x := unmetRow{
			row: int32(i), priority: plan.Profile(i).Priority(), rank: plan.Rank(i),
			key: key, number: number, reason: plan.Unmet(i), profile: plan.Profile(i), deficit: -1,
		}
		x.since = p.age(in, &x)
		l.roster.rows[i] = l.roster.rows[i]&standsFolded | (standsShort + standing(x.reason))
		l.total++
		l.reasons[x.reason]++
		of.short++
		of.reasons[x.reason]++
		of.top = max(of.top, x.priority)
		plan.AddDeficit(of.deficit, i)
		worst.offer(&x)
	}
	worst.sort()
	l.rows, l.deficit = worst.rows, make([]int64, len(l.dims))
	for i := range l.clusters {
		for d, v := range l.clusters[i].deficit {
			l.deficit[d] = model.SatAdd(l.deficit[d], v)
		}
	}
	l.deficits = make([]int64, len(l.rows)*len(l.dims))
	for i := range l.rows {
		x := &l.rows[i]
		x.deficit = i * len(l.dims)
		plan.AddDeficit(l.deficits[x.deficit:x.deficit+len(l.dims)], int(x.row))
		if p.cfg.Names != nil {
			x.called = nameAt(in, p.cfg.Names, x.key.cluster, x.number)
		}
	}
	return l
}

// age notes that a Need is unmet in this cycle, and returns since when it has
// been, in Unix nanoseconds. A change of its reason is an event, but for one cycle in which a parked Need is tried again.
func (p *Recorder) age(in engine.Input, x *unmetRow) int64 {
	now := in.Now
	if p.ages == nil {
		p.ages = map[needKey]*needAge{}
	}
	a := p.ages[x.key]
	if a == nil {
		if len(p.ages) >= agesMax {
			return now
		}
		a = &needAge{since: now, name: nameAt(in, p.cfg.Names, x.key.cluster, x.number), says: inShort(shard.Describe(x.profile)), prio: x.priority}
		p.ages[x.key] = a
	}
	// A parked Need that is tried again and fits nowhere is parked again in the next cycle.
	if a.reason == engine.UnmetParked && x.reason != engine.UnmetParked && x.reason != engine.UnmetAwaitingDrain {
		tried := a.retry
		if a.retry = p.cycle; tried+1 != p.cycle {
			x.reason = engine.UnmetParked
		}
	}
	if a.reason != x.reason {
		p.made.needChanged(x.key, a, a.reason.String(), x.reason.String())
		a.reason = x.reason
	}
	a.cycle = p.cycle
	return a.since
}

// What becomes of a Need that is not unmet any more.
const (
	needMet  = "satisfied"
	needGone = "gone" // its cluster does not ask for it any more
)

// forgetMet drops the Needs that are not unmet any more, each an event.
func (p *Recorder) forgetMet(in engine.Input, plan *engine.Plan) {
	gone := map[string][]needKey{}
	for k, a := range p.ages {
		if a.cycle != p.cycle {
			gone[k.cluster] = append(gone[k.cluster], k)
		}
	}
	if len(gone) == 0 {
		return
	}
	there := map[needKey]bool{}
	for i := range plan.Len() {
		if cluster, _ := plan.Identity(i); gone[cluster] != nil {
			there[keyOf(in, plan, i)] = true
		}
	}
	for _, keys := range gone {
		for _, k := range keys {
			to := needGone
			if there[k] {
				to = needMet
			}
			p.made.needChanged(k, p.ages[k], p.ages[k].reason.String(), to)
			delete(p.ages, k)
		}
	}
}

// mostly names what most of the listed Needs have in common: a value that they require, a
// resource, or a cluster. It is empty when more than half of them have nothing in common.
func (l *unmetList) mostly() string {
	profiles := map[*model.Profile]int{}
	clusters := map[string]int{}
	for i := range l.rows {
		profiles[l.rows[i].profile]++
		clusters[l.rows[i].key.cluster]++
	}
	values, places, resources := map[string]int{}, map[string]int{}, map[string]int{}
	for p, n := range profiles {
		for i := range p.Requirements() {
			countValues(&p.Requirements()[i], n, values, places)
		}
	}
	for at, amount := range l.deficits {
		if name := l.dims[at%len(l.dims)]; amount > 0 && !model.AlwaysOffered(name) {
			resources[strings.TrimSuffix(name[strings.LastIndexByte(name, '/')+1:], "-milli")]++
		}
	}
	for _, among := range []map[string]int{values, resources, places, clusters} {
		if most := commonest(among); 2*among[most] > len(l.rows) {
			return most
		}
	}
	return ""
}

// valuesNamed is the most values of a requirement that say what a Need wants.
const valuesNamed = 2

// countValues counts what a requirement asks for by name. Zones and capacity types say
// where and how rather than what.
func countValues(r *model.Requirement, n int, values, places map[string]int) {
	if r.Operator != model.In || len(r.Values) > valuesNamed {
		return
	}
	into := values
	if r.Key == model.KeyZone || r.Key == model.KeyCapacityType {
		into = places
	}
	for _, v := range r.Values {
		into[v] += n
	}
}

// commonest returns the key with the largest count; of several the first by name.
func commonest(counts map[string]int) (best string) {
	for k, n := range counts {
		if n > counts[best] || n == counts[best] && (best == "" || k < best) {
			best = k
		}
	}
	return best
}
