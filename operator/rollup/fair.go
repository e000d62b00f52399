package rollup

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
	"strings"

	api "github.com/tonnage/tonnage/api/v1alpha1"
)

// When requests make more than a shard accepts, some rows are left out: rows of the
// namespaces that cause the excess, not of others. Each namespace takes a share of every
// limit with the rows of its requests; its largest share counts. Rows are taken over one
// by one: the next is always the one of the namespace whose largest share is the least
// with it, ties go by name. Within a namespace the order is that of the roll-up: by
// priority from the highest. A row that does not fit any more is left out, and the next
// one is tried. So a namespace that stays below its part of every limit has all of its
// rows, whatever others ask for, and the choice depends on the requests alone.

// what is a limit of a roll-up.
type what uint8

const (
	ofRows what = iota
	ofGangs
	ofSets
	ofKeys
	ofBytes
	limitsNum
)

// limitNames say what there is too much of, and which flag of the shard raises it.
var limitNames = [limitsNum]struct{ plural, remedy string }{
	{"rows, each of requests that are alike", "make requests alike"},
	{"groups that share a domain", "use fewer co-locations, or raise --cluster-gangs-max of the shard"},
	{"different sets of requirements", "use fewer, or raise --cluster-requirement-sets-max of the shard"},
	{"different keys in requirements and spread", "use fewer, or raise --cluster-keys-max of the shard"},
	{"bytes", "shorten the requirements of requests"},
}

// amounts of each limit.
type tally [limitsNum]int

// budget is what there is of each limit.
func (l *Limits) budget() tally { return tally{l.Rows, l.Gangs, l.Sets, l.Keys, BytesMax} }

// count is what rows take up, each set and key once.
type count struct {
	sums tally
	sets map[uint32]bool
	keys map[uint32]bool
}

func newCount() count { return count{sets: map[uint32]bool{}, keys: map[uint32]bool{}} }

// with returns the sums with one more row.
func (c *count) with(r *row, bytes int) tally {
	sums := c.sums
	sums[ofRows]++
	sums[ofBytes] += bytes
	if r.gang {
		sums[ofGangs]++
	}
	if !c.sets[r.set] {
		sums[ofSets]++
	}
	for _, k := range r.keys {
		if !c.keys[k] {
			sums[ofKeys]++
		}
	}
	return sums
}

// add takes a row up; with has returned the sums.
func (c *count) add(r *row, sums tally) {
	c.sums = sums
	c.sets[r.set] = true
	for _, k := range r.keys {
		c.keys[k] = true
	}
}

// fits tells whether all rows of the roll-up are within the limits. O(rows).
func (g *Aggregator) fits(order []uint32, budget *tally) bool {
	var sums tally
	sets, keys := make([]bool, len(g.sets)), make([]bool, len(g.keys))
	once := func(seen []bool, at uint32, w what) {
		if !seen[at] {
			seen[at] = true
			sums[w]++
		}
	}
	for _, at := range order {
		r := &g.rows[at]
		sums[ofRows]++
		sums[ofBytes] += g.bytesOf(r)
		if r.gang {
			sums[ofGangs]++
		}
		once(sets, r.set, ofSets)
		for _, k := range r.keys {
			once(keys, k, ofKeys)
		}
	}
	_, over := exceeds(&sums, budget)
	return !over
}

// exceeds returns the first limit that is exceeded.
func exceeds(sums, budget *tally) (what, bool) {
	for w := range limitsNum {
		if sums[w] > budget[w] {
			return w, true
		}
	}
	return 0, false
}

// bytesOf estimates how long a row's message is, rather too high.
func (g *Aggregator) bytesOf(r *row) int {
	const perRow, perAmount = 64, 2 * 32
	n := r.bytes + perRow
	for i := range r.amounts {
		n += perAmount + 2*len(g.dims.names[r.amounts[i].dim])
	}
	return n
}

// tenant is a namespace whose rows are taken over.
type tenant struct {
	name  string
	rows  []uint32 // in the order of the roll-up; the first is next
	has   count
	next  tally   // with the next row
	share float64 // the largest of next
}

// look works out what the tenant has with its next row; false when there is none.
func (t *tenant) look(g *Aggregator, budget *tally) bool {
	if len(t.rows) == 0 {
		return false
	}
	r := &g.rows[t.rows[0]]
	t.next, t.share = t.has.with(r, g.bytesOf(r)), 0
	for w, n := range t.next {
		t.share = max(t.share, float64(n)/float64(budget[w]))
	}
	return true
}

// choose returns the rows that are reported when not all can be, and of the others what
// they were too much of.
func (g *Aggregator) choose(requests []*api.CapacityRequest, rowOf, order []uint32, budget *tally) (kept []uint32, left map[uint32]what) {
	line := tenants(g.tenants(requests, rowOf, order))
	line = slices.DeleteFunc(line, func(t *tenant) bool { return !t.look(g, budget) })
	heap.Init(&line)
	taken, left, all := make([]bool, len(g.rows)), map[uint32]what{}, newCount()
	for len(line) > 0 {
		t := line[0]
		at := t.rows[0]
		r := &g.rows[at]
		if _, gone := left[at]; !gone && !taken[at] {
			sums := all.with(r, g.bytesOf(r))
			if w, over := exceeds(&sums, budget); over {
				left[at] = w
			} else {
				taken[at] = true
				all.add(r, sums)
			}
		}
		if taken[at] {
			t.has.add(r, t.next)
		}
		t.rows = t.rows[1:]
		if t.look(g, budget) {
			heap.Fix(&line, 0)
		} else {
			heap.Pop(&line)
		}
	}
	kept = slices.DeleteFunc(slices.Clone(order), func(at uint32) bool { return !taken[at] })
	return kept, left
}

// tenants returns the namespaces with the rows of their requests.
func (g *Aggregator) tenants(requests []*api.CapacityRequest, rowOf, order []uint32) []*tenant {
	place := make([]uint32, len(g.rows))
	for i, at := range order {
		place[at] = uint32(i)
	}
	by := map[string]*tenant{}
	for i, request := range requests {
		if rowOf[i] == nowhere {
			continue
		}
		t := by[request.Namespace]
		if t == nil {
			t = &tenant{name: request.Namespace, has: newCount()}
			by[t.name] = t
		}
		t.rows = append(t.rows, rowOf[i])
	}
	all := make([]*tenant, 0, len(by))
	for _, t := range by {
		slices.SortFunc(t.rows, func(x, y uint32) int { return cmp.Compare(place[x], place[y]) })
		t.rows = slices.Compact(t.rows)
		all = append(all, t)
	}
	return all
}

// tenants are a heap: whose share is the least with the next row.
type tenants []*tenant

func (l tenants) Len() int      { return len(l) }
func (l tenants) Swap(i, j int) { l[i], l[j] = l[j], l[i] }
func (l tenants) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(l[i].share, l[j].share), strings.Compare(l[i].name, l[j].name)) < 0
}
func (l *tenants) Push(x any) { *l = append(*l, x.(*tenant)) }
func (l *tenants) Pop() any {
	last := len(*l) - 1
	x := (*l)[last]
	*l = (*l)[:last]
	return x
}

// leaveOut takes the requests of some rows out.
func leaveOut(requests []*api.CapacityRequest, rowOf []uint32, left map[uint32]what, budget *tally) (refused []Refusal) {
	for i, at := range rowOf {
		if at == nowhere {
			continue
		}
		if w, gone := left[at]; gone {
			rowOf[i] = nowhere
			name := &limitNames[w]
			refused = append(refused, Refusal{requests[i], fmt.Errorf(
				"%w: the cluster may have %d %s, and namespace %q, with others that have this request's like, is among those that take up most: %s",
				ErrMany, budget[w], name.plural, requests[i].Namespace, name.remedy)})
		}
	}
	return refused
}
