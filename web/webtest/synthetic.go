// Package webtest makes frames of a fleet that does not exist, for tests of the
// page: a cold start that fills up, then a steady state with churn, a burst now
// and then, and a shortage that does not go away. Nothing outside tests uses it.
package webtest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/tonnage/tonnage/web"
)

// Synthetic makes the frames of one fleet, one per Next.
type Synthetic struct {
	rnd      *rand.Rand
	scale    float64 // machines that demand wants in all
	clusters int
	cycle    uint64
	now      time.Time
	bound    float64 // machines
	creating float64
	draining float64
	idle     float64
	total    int64
}

// New returns the generator of a fleet of about so many Configured machines.
func New(seed uint64, machines, clusters int, start time.Time) *Synthetic {
	return &Synthetic{
		rnd: rand.New(rand.NewPCG(seed, 7)), scale: float64(machines), clusters: clusters,
		now: start, idle: 0.35 * float64(machines),
	}
}

// Next returns the frame of the next cycle, one second after the one before.
func (s *Synthetic) Next() web.Frame {
	s.cycle++
	s.now = s.now.Add(time.Second)
	t := float64(s.cycle)
	want := s.scale * (0.92 + 0.06*math.Sin(t/60) + burst(t))
	actions := s.step(want)
	f := web.Frame{
		Cycle: s.cycle, At: s.now.UnixMilli(), Clusters: s.clusters,
		Machines: [8]int{
			int(2.75 * s.scale), int(s.creating), int(s.idle), int(0.3 * s.creating), int(s.bound),
			int(s.draining), int(0.02 * s.draining), int(s.scale * 0.0004),
		},
		Rows: int(0.8*s.scale) + 300, Needs: int(0.06*s.scale) + 40, Actions: actions,
		InFlight: int(s.creating * 1.3), Faults: int64(s.cycle / 9),
	}
	for _, n := range actions {
		s.total += int64(n)
	}
	f.ActionsTotal = s.total
	s.timing(&f, actions)
	s.money(&f)
	missing := max(0.012, 1-s.bound/want)
	s.demand(&f, want, missing)
	s.unmet(&f, missing)
	s.did(&f)
	return f
}

func burst(t float64) float64 {
	if math.Mod(t, 240) > 200 {
		return 0.05
	}
	return 0
}

// step moves machines towards what is wanted and returns the actions.
func (s *Synthetic) step(want float64) [5]int {
	jitter := func(v float64) float64 { return v * (0.6 + 0.8*s.rnd.Float64()) }
	arrive := s.creating * 0.2
	s.creating -= arrive
	s.bound += arrive
	drained := s.draining * 0.12
	s.draining -= drained
	s.idle += drained
	var a [5]int
	short := want - s.bound - s.creating
	if short > 0 {
		boot := min(short, jitter(s.scale*0.02), s.idle)
		s.idle -= boot
		s.bound += boot
		provision := min(short-boot, jitter(s.scale*0.015))
		s.creating += max(provision, 0)
		a[0], a[1] = int(boot), int(max(provision, 0))
	}
	if over := s.bound - want; over > 0 {
		reclaim := min(over, jitter(s.scale*0.004))
		s.bound -= reclaim
		s.draining += reclaim
		a[3] = int(reclaim)
	}
	if s.rnd.Float64() < 0.25 {
		a[2] = int(jitter(s.scale * 0.0006))
		s.bound -= float64(a[2])
		s.draining += float64(a[2])
	}
	if s.idle > 0.25*s.scale {
		a[4] = int(jitter(s.scale * 0.001))
		s.idle -= float64(a[4])
	}
	return a
}

func (s *Synthetic) timing(f *web.Frame, actions [5]int) {
	size := s.scale / 57_000
	noise := func(ms float64) float64 { return ms * (0.85 + 0.3*s.rnd.Float64()) }
	f.PhaseMillis = [7]float64{
		noise(4*size + 0.1), noise(9*size + 0.12), noise(38*size + 0.3 + float64(actions[0]+actions[1])*0.004),
		noise(8*size + 0.05 + float64(actions[2])*0.05), noise(3*size + 0.04), noise(0.6*size + 0.02),
		noise(1.4*size + 0.05 + 0.001*float64(actions[0])),
	}
	if s.rnd.Float64() < 0.02 {
		f.PhaseMillis[2] *= 2.2
	}
	for _, ms := range f.PhaseMillis {
		f.CycleMillis += ms
	}
}

func (s *Synthetic) money(f *web.Frame) {
	perHour := 0.42 * (s.bound + s.draining)
	f.Spend = [5]float64{0, 0, 0.22 * perHour, 0.55*perHour + 0.2*s.idle, 0.23*perHour + 0.3*s.creating}
}

func (s *Synthetic) demand(f *web.Frame, want, missing float64) {
	add := func(name string, unit, factor, miss float64) {
		f.Resources = append(f.Resources, web.Resource{
			Name: name, Demand: int64(want * unit * factor), Deficit: int64(want * unit * factor * miss),
			Bound: int64(s.bound * unit * factor * 1.04), Idle: int64(s.idle * unit * factor),
		})
	}
	const gib = 1 << 30
	add("cpu", 16_000, 1, missing*0.8)
	add("memory", 62*gib, 1, missing*0.6)
	add("nvidia.com/gpu", 8, 0.05, min(1, missing*3+0.03))
}

var archetypes = []string{
	"a3-highgpu-8g · one rack · gang", "c6i.4xlarge, m6i.2xlarge · spread by zone", "r6i.xlarge, r6i.2xlarge · one rack",
	"m6i.large, m6i.xlarge · zone-a, zone-b, zone-c", "gpu-model T4 · 1 GPU each",
}

var reasons = []string{"priority_starved", "no_matching_supply", "awaiting_drain", "topology_unsatisfiable", "spread_unsatisfiable", "parked", "preemption_exhausted", "insufficient_supply"}

func (s *Synthetic) unmet(f *web.Frame, missing float64) {
	n := min(int(float64(f.Needs)*missing*0.9)+2, f.Needs)
	f.Satisfied = f.Needs - n
	left := n
	for i, reason := range reasons {
		c := left * (i + 1) / len(reasons)
		if i == len(reasons)-1 {
			c = left
		}
		left -= c
		if c > 0 {
			f.Reasons = append(f.Reasons, web.ReasonCount{Reason: reason, Count: c})
		}
	}
	for i := range min(n, web.MaxUnmet+3) {
		r := i % len(f.Reasons)
		f.Unmet = append(f.Unmet, web.UnmetNeed{
			Cluster: fmt.Sprintf("cluster-%03d", (i*37)%s.clusters), Profile: archetypes[i%len(archetypes)],
			Priority: []int32{1_000_000, 1000, 1000, 100, 100}[i*5/(web.MaxUnmet+3)],
			Deficit:  []web.Amount{{Name: "cpu", Value: int64(64_000 * (i + 1))}, {Name: "memory", Value: int64(i+1) * 256 << 30}, {Name: "nvidia.com/gpu", Value: int64(8 * (i % 3))}},
			Missing:  1 / float64(1+i%4), Reason: f.Reasons[r].Reason, AgeSeconds: float64(min(int(s.cycle), 1+i*i*7)),
		})
	}
}

var ruleOf = []string{"phase1.idle", "phase1.speculative", "phase2.preempt", "phase3.excess", "phase3.release"}

func (s *Synthetic) did(f *web.Frame) {
	for k, n := range f.Actions {
		for g := 0; n > 0 && g < 4; g++ {
			c := max(n/(g+2), 1)
			n -= c
			a := web.Action{
				Kind: web.Kinds[k], Count: c, Machine: fmt.Sprintf("m-%06d", s.rnd.IntN(int(4*s.scale))),
				Type: []string{"m6i.xlarge", "c6i.4xlarge", "r6i.2xlarge", "a3-highgpu-8g"}[s.rnd.IntN(4)], Reason: ruleOf[k],
			}
			if k < 4 {
				a.Cluster = fmt.Sprintf("cluster-%03d", s.rnd.IntN(s.clusters))
			}
			if k < 3 {
				a.Need = archetypes[s.rnd.IntN(len(archetypes))]
			}
			if k == 2 {
				a.From = fmt.Sprintf("cluster-%03d", s.rnd.IntN(s.clusters))
			}
			f.Did = append(f.Did, a)
		}
	}
}
