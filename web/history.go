package web

import "math"

// tier is one resolution of the history: points that each cover about width
// milliseconds, the newest capacity of them.
type tier struct {
	width    int64
	capacity int
	points   []point // a ring once it is full
	next     int     // where the next point goes
}

// The tiers, finest first. The first is a little narrower than a second so
// that a cycle of 1 s that jitters keeps a point of its own.
func newTiers() []*tier {
	return []*tier{
		{width: 900, capacity: 600},     // 10 minutes by the second
		{width: 10_000, capacity: 360},  // an hour
		{width: 60_000, capacity: 1440}, // a day
	}
}

// point is the history of one span of time. Gauges hold their last value,
// counts their sum, and the phases are those of the span's slowest cycle:
// a mean would hide what one looks for.
type point struct {
	start, end int64 // Unix milliseconds of the first and the last cycle in it
	since      int64 // end of the point before, where its counts begin
	machines   [len(States)]int
	actions    [len(Kinds)]int
	spend      [len(CapacityTypes)]float64
	slowest    float64
	phases     [len(Phases)]float64
	needs      int
	satisfied  int
	demand     [MaxResources]float64
	deficit    [MaxResources]float64
	bound      [MaxResources]float64
}

// add puts a frame into the current point, or opens the next one.
func (t *tier) add(f *Frame, slots []int, interval int64) {
	last := t.last()
	if last == nil || f.At-last.start >= t.width || f.At < last.start {
		since := f.At - interval
		if last != nil {
			since = last.end
		}
		p := point{start: f.At, since: since}
		if len(t.points) < t.capacity {
			t.points = append(t.points, p)
		} else {
			t.points[t.next] = p
		}
		t.next = (t.next + 1) % t.capacity
		last = t.last()
	}
	last.take(f, slots)
}

func (p *point) take(f *Frame, slots []int) {
	p.end = f.At
	p.machines, p.spend = f.Machines, f.Spend
	p.needs, p.satisfied = f.Needs, f.Satisfied
	for k, n := range f.Actions {
		p.actions[k] += n
	}
	if f.CycleMillis >= p.slowest {
		p.slowest, p.phases = f.CycleMillis, f.PhaseMillis
	}
	for i, slot := range slots {
		if slot < 0 {
			continue
		}
		r := &f.Resources[i]
		p.demand[slot], p.deficit[slot], p.bound[slot] = float64(r.Demand), float64(r.Deficit), float64(r.Bound)
	}
}

// last returns the newest point, nil when there is none.
func (t *tier) last() *point {
	if len(t.points) == 0 {
		return nil
	}
	return &t.points[(t.next-1+t.capacity)%t.capacity]
}

// at returns the i-th point, oldest first.
func (t *tier) at(i int) *point {
	if len(t.points) < t.capacity {
		return &t.points[i]
	}
	return &t.points[(t.next+i)%t.capacity]
}

// collect returns the points of all tiers as one line of time: each tier
// reaches back from where the finer one begins.
func collect(tiers []*tier) []*point {
	var out []*point
	until := int64(math.MaxInt64)
	for _, t := range tiers {
		var part []*point
		for i := range t.points {
			if p := t.at(i); p.end < until {
				part = append(part, p)
			}
		}
		if len(part) > 0 {
			until = part[0].start
		}
		out = append(part, out...)
	}
	return out
}

// row is a point as the page takes it; short names keep the history small.
type row struct {
	T         int64     `json:"t"`
	Machines  []int     `json:"m"`
	Actions   []float64 `json:"a"` // per second
	Spend     []float64 `json:"s"`
	Phases    []float64 `json:"p"`
	Needs     int       `json:"n"`
	Satisfied int       `json:"ok"`
	Demand    []float64 `json:"d"`
	Deficit   []float64 `json:"x"`
	Bound     []float64 `json:"b"`
}

// row returns the point with its first n resources.
func (p *point) row(n int) row {
	seconds := max(float64(p.end-p.since)/1000, 0.001)
	rates := make([]float64, len(Kinds))
	for k, c := range p.actions {
		rates[k] = digits(float64(c) / seconds)
	}
	return row{
		T: p.start, Machines: p.machines[:], Actions: rates,
		Spend: rounded(p.spend[:]), Phases: rounded(p.phases[:]),
		Needs: p.needs, Satisfied: p.satisfied,
		Demand: rounded(p.demand[:n]), Deficit: rounded(p.deficit[:n]), Bound: rounded(p.bound[:n]),
	}
}

func rounded(v []float64) []float64 {
	out := make([]float64, len(v))
	for i := range v {
		out[i] = digits(v[i])
	}
	return out
}

// digits rounds to six significant digits: as fine as a read-out shows.
func digits(v float64) float64 {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0 // JSON has no other numbers
	}
	scale := math.Pow(10, 5-math.Floor(math.Log10(math.Abs(v))))
	if math.IsInf(scale, 0) || scale == 0 {
		return 0
	}
	return math.Round(v*scale) / scale
}
