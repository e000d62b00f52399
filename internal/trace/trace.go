package trace

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/workload"
)

// Trace is a trace being replayed. It has one owner and is not safe for
// concurrent use.
type Trace struct {
	opt      Options
	nodes    int
	machines []model.Machine
	list     *podList
	names    []string // of the clusters
	groups   []string // names of the row kinds
	sent     []int64  // per cluster, number of the last roll-up plus one
	start    int64    // Unix nanoseconds of the trace's clockStart
	started  bool
	clock    int64 // seconds of the trace since clockStart, at the last call
	sums     []sum // working memory of one roll-up, by row kind
}

// sum is the demand of one row while it is added up.
type sum struct {
	cpuMilli, memory, gpuMilli          int64
	maxCPUMilli, maxMemory, maxGPUMilli int64
	created                             int64
	pods                                int
}

// Open reads a trace: dir is its folder openb, with the folders topology and
// catalog beside it. An error names the file, the place and the remedy.
func Open(dir string, o Options) (*Trace, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	list, err := readPods(dir, o)
	if err != nil {
		return nil, err
	}
	machines, err := readNodes(dir)
	if err != nil {
		return nil, err
	}
	t := &Trace{opt: o, nodes: len(machines), list: list, sent: make([]int64, o.Clusters), sums: make([]sum, len(list.kinds))}
	slots, err := readOffer(dir, o.Offer)
	if err != nil {
		return nil, err
	}
	t.machines = slices.Concat(machines, slots)
	for c := range o.Clusters {
		name := "openb"
		if o.Clusters > 1 {
			name = fmt.Sprintf("openb-%03d", c)
		}
		t.names = append(t.names, name)
	}
	for _, k := range list.kinds {
		t.groups = append(t.groups, k.name())
	}
	return t, nil
}

// Describe says in one line what is replayed and how.
func (t *Trace) Describe() string {
	what := fmt.Sprintf("trace openb, list %s: %d pods on %d nodes, %d cluster", t.opt.List, t.list.pods, t.nodes, t.opt.Clusters)
	if t.opt.Clusters > 1 {
		what += "s"
	}
	if t.span() == 0 {
		return what + ", all at once"
	}
	how := "from creation to deletion"
	if t.opt.ArrivalsOnly {
		how = "arrivals only"
	}
	span := time.Duration(t.span()) * time.Second
	return fmt.Sprintf("%s, %s; %s at %gx take %s", what, how, length(span), t.opt.Speed, length(time.Duration(float64(span)/t.opt.Speed)))
}

// Progress says where in the trace the last call of Due was.
func (t *Trace) Progress() string {
	if t.span() == 0 {
		return "all pods at once"
	}
	if t.Done() {
		return "the trace is over"
	}
	const day = 86_400
	return fmt.Sprintf("day %.1f of %.0f of the trace", float64(t.clock)/day, float64(t.span())/day)
}

// length writes a time in the unit that suits it.
func length(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%.0f days", d.Hours()/24)
	case d >= 2*time.Hour:
		return fmt.Sprintf("%.1f h", d.Hours())
	case d >= 2*time.Minute:
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}

// span is how many seconds of the trace are replayed.
func (t *Trace) span() int64 { return max(t.list.end-clockStart, 0) }

// Clusters returns the ids of the clusters, sorted; do not modify.
func (t *Trace) Clusters() []string { return t.names }

// Machines yields the nodes, Idle since now, and the slots on sale.
func (t *Trace) Machines(now int64) iter.Seq[*model.Machine] {
	return func(yield func(*model.Machine) bool) {
		var m model.Machine
		for i := range t.machines {
			m = t.machines[i]
			if m.State == model.Idle {
				m.IdleSince = now
			}
			if !yield(&m) {
				return
			}
		}
	}
}

// Done reports whether every cluster has sent its last roll-up: the trace is
// over and the demand stays as it is.
func (t *Trace) Done() bool {
	for c := range t.sent {
		if t.sent[c] <= t.last(c) {
			return false
		}
	}
	return true
}

// offset is by how much of an interval a cluster reports after the first.
func (t *Trace) offset(c int) int64 {
	return int64(t.opt.Interval) * int64(c) / int64(t.opt.Clusters)
}

// last returns the number of a cluster's last roll-up: the first at or after
// the last change.
func (t *Trace) last(c int) int64 {
	left := t.span()*int64(time.Second) - t.offset(c)
	if left <= 0 {
		return 0
	}
	interval := int64(t.opt.Interval)
	return (left + interval - 1) / interval
}

// Due returns the roll-ups that are due: of each cluster the latest, with
// everything that is live at its time. Those in between are skipped, for a
// roll-up is complete by itself.
func (t *Trace) Due(now int64) []workload.Rollup {
	if !t.started {
		t.start, t.started = now, true
	}
	// Nanoseconds of the trace since clockStart.
	clock := min(float64(max(now-t.start, 0))*t.opt.Speed, math.MaxInt64/2)
	t.clock = min(int64(clock)/int64(time.Second), t.span())
	type due struct {
		at      int64
		cluster int
	}
	var list []due
	interval := int64(t.opt.Interval)
	for c := range t.sent {
		if int64(clock) < t.offset(c) {
			continue
		}
		n := min((int64(clock)-t.offset(c))/interval, t.last(c))
		if n >= t.sent[c] {
			list = append(list, due{n*interval + t.offset(c), c})
		}
	}
	slices.SortFunc(list, func(a, b due) int { return cmp.Or(cmp.Compare(a.at, b.at), a.cluster-b.cluster) })
	if len(list) > workload.RollupsPerCallMax {
		list = list[:workload.RollupsPerCallMax]
	}
	out := make([]workload.Rollup, len(list))
	for i, d := range list {
		t.sent[d.cluster] = (d.at-t.offset(d.cluster))/interval + 1
		out[i] = workload.Rollup{
			Cluster: t.names[d.cluster],
			At:      t.start + int64(float64(d.at)/t.opt.Speed),
			Needs:   t.live(d.cluster, clockStart+d.at/int64(time.Second)),
		}
	}
	return out
}

// live returns what the live pods of a cluster need at a time of the trace, in
// seconds.
func (t *Trace) live(c int, at int64) []model.Need {
	clear(t.sums)
	pods := t.list.clusters[c]
	for i := range pods {
		p := &pods[i]
		if p.created > at {
			break
		}
		if p.deleted > at {
			t.sums[p.row].add(p)
		}
	}
	var needs []model.Need
	for k := range t.sums {
		s := &t.sums[k]
		aggregate := resources(s.cpuMilli, s.memory, s.gpuMilli)
		if aggregate.IsZero() {
			continue
		}
		needs = append(needs, model.Need{
			Cluster:   t.names[c],
			Profile:   t.list.profiles[k],
			Aggregate: aggregate,
			MinUnit:   resources(s.maxCPUMilli, s.maxMemory, s.maxGPUMilli),
			Group:     t.groups[k],
			Arrival:   t.wall(s.created),
		})
	}
	return needs
}

// add adds a pod; the first one is the oldest.
func (s *sum) add(p *pod) {
	if s.pods == 0 {
		s.created = p.created
	}
	s.pods++
	s.cpuMilli += p.cpuMilli
	s.memory += p.memory
	s.gpuMilli += p.gpuMilli
	s.maxCPUMilli = max(s.maxCPUMilli, p.cpuMilli)
	s.maxMemory = max(s.maxMemory, p.memory)
	s.maxGPUMilli = max(s.maxGPUMilli, p.gpuMilli)
}

// wall returns when a time of the trace, in seconds, is or was replayed, in
// Unix nanoseconds; at least 1, for 0 means unknown.
func (t *Trace) wall(seconds int64) int64 {
	return max(t.start+int64(float64(seconds-clockStart)*float64(time.Second)/t.opt.Speed), 1)
}
