package kubee2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	api "github.com/tonnage/tonnage/api/v1alpha1"
	"github.com/tonnage/tonnage/benches/buying"
	"github.com/tonnage/tonnage/operator/rollup"
)

const (
	// readEvery is how often pods and machines are counted.
	readEvery = time.Second
	// boundEvery is at how many of these readings the linear bound is computed.
	boundEvery = 5
	// againWithin is how soon after a reclaim a machine of its class must not be bought.
	againWithin = 10 * time.Minute
)

// reading is what there was at one moment.
type reading struct {
	At      float64 `json:"at"` // seconds since the pods were made
	Phase   string  `json:"phase"`
	Pods    int     `json:"pods"`
	Pending int     `json:"pending"`
	Nodes   int     `json:"nodes"`
	Bill    float64 `json:"bill"`            // dollars an hour, of the machines of the cluster
	Paid    float64 `json:"paid"`            // the same with those that are on their way, idle or leave
	Bound   float64 `json:"bound,omitempty"` // 0 = it was not computed
	Load    float64 `json:"load"`            // average over a minute
	Rows    []rowOf `json:"rows,omitempty"`  // as requests say, at every boundEvery-th reading

	sizes map[buying.Pod]int
}

// bought is one machine that was bought, or bound from the idle ones, after one of its class was reclaimed.
type bought struct {
	Class string  `json:"class"`
	After float64 `json:"after"` // seconds after the reclaim
	At    float64 `json:"at"`
	Idle  bool    `json:"idle"` // it was there, idle
}

// rowOf is what the requests of one row ask for: thousandths of a core and MiB.
type rowOf struct {
	Row    string   `json:"row"` // its kind and size class; "new" = it was not acknowledged, "group" = of gangs
	Pods   int      `json:"pods"`
	CPU    int64    `json:"cpu"`
	Memory int64    `json:"memory"`
	Least  [2]int64 `json:"least"` // what it asks for at the least
}

// event is a machine that changed its state.
type event struct {
	At    float64 `json:"at"`
	What  string  `json:"what"` // its new state
	Class string  `json:"class"`
	ID    string  `json:"id"`
}

// meter counts everything of a run.
type meter struct {
	f     *fleet
	types []marketType
	price map[string]float64
	begun time.Time
	stop  func()
	left  int // pods that were told to go
	reads int // of one goroutine

	mu        sync.Mutex
	phase     string
	phases    []string
	since     map[string]time.Time
	readings  []reading
	states    map[string]pb.MachineState
	reclaimed map[string][]time.Time // by class
	bought    []bought
	wereBound []string // machines that were reclaimed
	events    []event
	purchases int
	reclaims  int
	bill      float64
	paid      float64
}

func newMeter(f *fleet, types []marketType) *meter {
	m := &meter{
		f: f, types: types, price: map[string]float64{}, begun: time.Now(), since: map[string]time.Time{},
		states: map[string]pb.MachineState{}, reclaimed: map[string][]time.Time{},
	}
	for i := range types {
		m.price[types[i].Name] = types[i].Price
	}
	f.maker.mu.Lock()
	f.maker.see = m.machines
	f.maker.mu.Unlock()
	f.record.show([]panelOf{
		{"pods that are pending", []line{{"pending", "#b2182b", nth(0)}}},
		{"dollars an hour", []line{{"of the cluster", "#2166ac", nth(1)}, {"all", "#e08214", nth(2)}}},
	}, m.figures)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(readEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				m.read()
			}
		}
	})
	m.stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	f.t.Cleanup(m.stop)
	return m
}

func (m *meter) begin(phase string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.phase == "" {
		m.begun = time.Now()
	}
	m.phase, m.phases, m.since[phase] = phase, append(m.phases, phase), time.Now()
}

func (m *meter) finish() { m.stop() }

// figures are what the further panels of the picture show.
func (m *meter) figures() []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.readings) == 0 {
		return nil
	}
	last := &m.readings[len(m.readings)-1]
	return []int{last.Pending, int(last.Bill + 0.5), int(last.Paid + 0.5)}
}

// machines is shown what the provider has, and notes what was bought and reclaimed.
func (m *meter) machines(all map[string]*pb.Machine) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.bill, m.paid = 0, 0
	for id, x := range all {
		price := m.price[x.InstanceType]
		m.paid += price
		switch x.State {
		case pb.MachineState_MACHINE_STATE_CONFIGURING, pb.MachineState_MACHINE_STATE_CONFIGURED, pb.MachineState_MACHINE_STATE_DRAINING:
			m.bill += price
		}
		was, known := m.states[id]
		if m.states[id] = x.State; known && was == x.State {
			continue
		}
		if x.State != pb.MachineState_MACHINE_STATE_SPECULATIVE {
			state := strings.ToLower(strings.TrimPrefix(x.State.String(), "MACHINE_STATE_"))
			m.events = append(m.events, event{now.Sub(m.begun).Seconds(), state, x.InstanceType, id})
		}
		switch x.State {
		case pb.MachineState_MACHINE_STATE_CREATING:
			m.purchases++
			m.noteBought(x, now, false)
		case pb.MachineState_MACHINE_STATE_CONFIGURING:
			if was == pb.MachineState_MACHINE_STATE_IDLE && len(m.reclaimed[x.InstanceType]) > 0 && slices.Contains(m.wereBound, id) {
				m.noteBought(x, now, true)
			}
		case pb.MachineState_MACHINE_STATE_DRAINING:
			m.reclaims++
			m.wereBound = append(m.wereBound, id)
			m.reclaimed[x.InstanceType] = append(m.reclaimed[x.InstanceType], now)
		}
	}
	maps.DeleteFunc(m.states, func(id string, _ pb.MachineState) bool { return all[id] == nil })
}

func (m *meter) noteBought(x *pb.Machine, now time.Time, idle bool) {
	before := m.reclaimed[x.InstanceType]
	if len(before) == 0 || now.Sub(before[len(before)-1]) > againWithin {
		return
	}
	m.bought = append(m.bought, bought{x.InstanceType, now.Sub(before[len(before)-1]).Seconds(), now.Sub(m.begun).Seconds(), idle})
}

// read counts once.
func (m *meter) read() {
	sizes, pending := m.f.watches[0].sizes()
	_, nodes := m.f.watches[0].counts()
	r := reading{Pending: pending, Nodes: nodes, Load: loadAverage(), sizes: sizes}
	for _, n := range sizes {
		r.Pods += n
	}
	if m.reads++; m.reads%boundEvery == 1 {
		r.Rows = m.rows()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.phase == "" {
		return
	}
	r.At, r.Phase, r.Bill, r.Paid = time.Since(m.begun).Seconds(), m.phase, m.bill, m.paid
	m.readings = append(m.readings, r)
}

// rows are those of the requests that the cluster has.
func (m *meter) rows() []rowOf {
	var all api.CapacityRequestList
	ctx, cancel := brief()
	defer cancel()
	if err := m.f.clusters[0].client.List(ctx, &all); err != nil {
		return nil // the next time
	}
	byName := map[string]*rowOf{}
	for i := range all.Items {
		x := &all.Items[i]
		name, overhead := "new", x.Labels[api.LabelPackingOverhead]
		switch id, err := rollup.RowOf(x); {
		case overhead != "":
			name = overhead
		case err == nil:
			name = id.Tag
		case x.Status.Phase == api.RequestAcknowledged:
			name = "group"
		}
		r := byName[name]
		if r == nil {
			r = &rowOf{Row: name}
			byName[name] = r
		}
		cpu, memory := x.Spec.Resources.Cpu().MilliValue(), x.Spec.Resources.Memory().Value()>>20
		if overhead != "" {
			r.Least = [2]int64{cpu, memory}
			continue
		}
		r.Pods, r.CPU, r.Memory = r.Pods+1, r.CPU+cpu, r.Memory+memory
	}
	var out []rowOf
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		out = append(out, *byName[name])
	}
	return out
}

// loadAverage is that of the last minute; 0 where the system does not say it.
func loadAverage() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), " ")
	load, _ := strconv.ParseFloat(first, 64)
	return load
}

// sizes counts the pods that are there and stay, by what they ask for, and those that do not run.
func (w *watch) sizes() (out map[buying.Pod]int, pending int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	out = map[buying.Pod]int{}
	for _, p := range w.live {
		if p.DeletionTimestamp != nil {
			continue
		}
		out[sizeOf(p)]++
		if p.Status.Phase != corev1.PodRunning {
			pending++
		}
	}
	return out, pending
}

// pending returns the kinds of the pods that do not run.
func (w *watch) pending() (kinds []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.live {
		if p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodRunning {
			kinds = append(kinds, p.Labels[kindLabel])
		}
	}
	slices.Sort(kinds)
	return kinds
}

// podName names a pod and its kind.
type podName struct{ name, kind string }

// plainRunning returns the pods of plain shapes that run, by name.
func (w *watch) plainRunning() (out []podName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.live {
		if kind := p.Labels[kindLabel]; runs(p) && strings.HasPrefix(kind, "shape-") {
			out = append(out, podName{p.Name, kind})
		}
	}
	slices.SortFunc(out, func(a, b podName) int { return strings.Compare(a.name, b.name) })
	return out
}

// writeResults writes what was measured as JSON.
func writeResults(t *testing.T, all []*podsResult) {
	t.Helper()
	if *podsJSON == "" || len(all) == 0 {
		return
	}
	text, err := json.MarshalIndent(all, "", " ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(*podsJSON), 0o755)
	}
	if err == nil {
		err = os.WriteFile(*podsJSON, append(text, '\n'), 0o644)
	}
	if err != nil {
		t.Error(fmt.Errorf("what was measured is not written: %w", err))
	}
}
