package kubee2e

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/tonnage/tonnage/benches/buying"
)

// waitsOf is how long the pods that were made in a phase took to run, seconds.
type waitsOf struct {
	Phase string  `json:"phase"`
	Pods  int     `json:"pods"`
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
	Max   float64 `json:"max"`
	Worst string  `json:"worst"` // its kind
}

// podsResult is what one run showed.
type podsResult struct {
	Region    string    `json:"region"`
	Profile   string    `json:"profile"`
	Feed      string    `json:"feed"`
	Seed      uint64    `json:"seed"`
	Nominate  bool      `json:"nominate"`
	Failed    bool      `json:"failed"` // it ended before its time
	Waits     []waitsOf `json:"waits"`
	Bill      float64   `json:"bill"`  // dollars an hour, mean while pods came and went and after
	Paid      float64   `json:"paid"`  // with machines that were idle or on their way
	Bound     float64   `json:"bound"` // mean of the linear bound of the pods that were there
	EndBill   float64   `json:"endBill"`
	EndBound  float64   `json:"endBound"`
	FillBill  float64   `json:"fillBill"` // when all pods ran for the first time
	FillBound float64   `json:"fillBound"`
	Purchases int       `json:"purchases"`
	Reclaims  int       `json:"reclaims"`
	Moved     int       `json:"moved"` // pods whose machine was reclaimed
	Left      int       `json:"left"`  // pods that were told to go
	Load      float64   `json:"load"`  // mean load average
	Again     []bought  `json:"again"`
	Readings  []reading `json:"readings"`
	Events    []event   `json:"events"`
}

// result sums a run up, and computes the bounds.
func (m *meter) result(*podsWorkload) *podsResult {
	m.f.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	r := &podsResult{Purchases: m.purchases, Reclaims: m.reclaims, Left: m.left, Again: m.bought, Readings: m.readings, Events: m.events}
	var bills, paid, bounds, loads, n float64
	for i := range m.readings {
		x := &m.readings[i]
		loads += x.Load
		fillEnds := x.Phase == "fill" && i+1 < len(m.readings) && m.readings[i+1].Phase != "fill"
		if last := i == len(m.readings)-1; i%boundEvery != 0 && !last && !fillEnds {
			continue
		}
		x.Bound = m.bound(x.sizes)
		switch {
		case fillEnds:
			r.FillBill, r.FillBound = x.Bill, x.Bound
		case x.Phase != "fill":
			bills, paid, bounds, n = bills+x.Bill, paid+x.Paid, bounds+x.Bound, n+1
		}
		r.EndBill, r.EndBound = x.Bill, x.Bound
	}
	if n > 0 {
		r.Bill, r.Paid, r.Bound = bills/n, paid/n, bounds/n
	}
	r.Load = loads / float64(max(1, len(m.readings)))
	for _, phase := range m.phases {
		r.Waits = append(r.Waits, m.waits(phase))
	}
	r.Moved = m.f.watches[0].movedCount()
	return r
}

// bound is the least bill for pods.
func (m *meter) bound(sizes map[buying.Pod]int) float64 {
	var pods []buying.Pod
	for size, n := range sizes {
		for range n {
			pods = append(pods, size)
		}
	}
	least, err := buying.Bound(m.types, pods)
	if err != nil {
		m.f.t.Fatal(err)
	}
	return least
}

// waits says how long the pods that were made in a phase took to run. A pod that was gone before counts
// with the time that it was there.
func (m *meter) waits(phase string) waitsOf {
	from, to := m.since[phase], time.Now()
	if i := slices.Index(m.phases, phase); i+1 < len(m.phases) {
		to = m.since[m.phases[i+1]]
	}
	out := waitsOf{Phase: phase}
	w := m.f.watches[0]
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []time.Duration
	for _, s := range w.pods {
		if s.created.Before(from) || !s.created.Before(to) {
			continue
		}
		var took time.Duration
		switch {
		case !s.running.IsZero():
			took = s.running.Sub(s.created)
		case !s.ended.IsZero():
			took = s.ended.Sub(s.created)
		default:
			took = time.Since(s.created)
		}
		if len(all) == 0 || took.Seconds() > out.Max {
			out.Max, out.Worst = took.Seconds(), s.kind
		}
		all = append(all, took)
	}
	slices.Sort(all)
	out.Pods, out.P50, out.P99 = len(all), quantile(all, 0.5), quantile(all, 0.99)
	return out
}

// movedCount is how many pods lost their node to a reclaim.
func (w *watch) movedCount() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.pods {
		if s.moved {
			n++
		}
	}
	return n
}

func over(bill, bound float64) float64 {
	if bound == 0 {
		return 0
	}
	return 100 * (bill/bound - 1)
}

// log prints the run as tables.
func (r *podsResult) log(t *testing.T) {
	t.Helper()
	var b strings.Builder
	out := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(out, "pods made while\tpods\tp50 s\tp99 s\tmax s\tlongest of\n")
	for _, w := range r.Waits {
		fmt.Fprintf(out, "%s\t%d\t%.1f\t%.1f\t%.1f\t%s\n", w.Phase, w.Pods, w.P50, w.P99, w.Max, w.Worst)
	}
	fmt.Fprintf(out, "\ntime s\tpods\tpending\tnodes\tbill $/h\tbound $/h\tover %%\tload\n")
	step := max(1, len(r.Readings)/20)
	for i := range r.Readings {
		x := &r.Readings[i]
		if x.Bound > 0 && (i%step < boundEvery || i == len(r.Readings)-1) {
			fmt.Fprintf(out, "%.0f\t%d\t%d\t%d\t%.2f\t%.2f\t%.1f\t%.1f\n", x.At, x.Pods, x.Pending, x.Nodes, x.Bill, x.Bound, over(x.Bill, x.Bound), x.Load)
		}
	}
	out.Flush()
	t.Log("\n" + b.String())
	t.Logf("bill over the bound: %.1f %% on average, %.1f %% when all ran first, %.1f %% in the end; with idle machines %.1f %%",
		over(r.Bill, r.Bound), over(r.FillBill, r.FillBound), over(r.EndBill, r.EndBound), over(r.Paid, r.Bound))
	again, bound := 0, 0
	for _, x := range r.Again {
		if x.Idle {
			bound++
		} else {
			again++
		}
		t.Logf("a %s at %.0f s, %.0f s after one was reclaimed (it was idle: %v)", x.Class, x.At, x.After, x.Idle)
	}
	t.Logf("%d machines bought, %d reclaimed, %d bought and %d bound again within %v of a reclaim of their class; %d pods told to go, %d moved; load average %.1f",
		r.Purchases, r.Reclaims, again, bound, againWithin, r.Left, r.Moved, r.Load)
}

// judge holds the run against what was asked for.
func (r *podsResult) judge(t *testing.T) {
	t.Helper()
	for _, w := range r.Waits {
		if *podsWithin > 0 && w.Max > podsWithin.Seconds() {
			t.Errorf("a pod of %s took %.1f s to run, the most is %v", w.Worst, w.Max, *podsWithin)
		}
	}
	if *podsAgain && slices.ContainsFunc(r.Again, func(b bought) bool { return !b.Idle }) {
		t.Errorf("machines were bought within %v after one of their class was reclaimed", againWithin)
	}
	for _, text := range strings.Split(*podsOver, ",") {
		name, percent, _ := strings.Cut(text, "=")
		if name != r.Region+"/"+r.Profile {
			continue
		}
		limit, err := strconv.ParseFloat(percent, 64)
		if err != nil {
			t.Fatalf("-pods-over: %q is no number of percent", text)
		}
		if o := over(r.Bill, r.Bound); o > limit {
			t.Errorf("the bill is %.1f %% above the bound, the most is %v %%", o, limit)
		}
	}
}
