package livefleet

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/workload"
)

// reportInterval is how often each cluster reports its demand, changed or not.
const reportInterval = 10 * time.Second

// scene is a scenario: what there is, and when. Times are seconds of its period.
type scene struct {
	name, about string
	period      int
	machines    []model.Machine
	needs       []sceneNeed
	moves       []move
	tenancy     engine.Tenancy
	trials      []Trial
}

// sceneNeed is a Need that is there from a second on, until another; 0, 0 = always.
type sceneNeed struct {
	name string
	model.Need
	from, until int
}

// at tells whether the Need is there in a second of the period.
func (n *sceneNeed) at(second int) bool {
	return n.from == 0 && n.until == 0 || n.from <= second && second < n.until
}

// move takes machines away at a second, or puts back those that were taken, as they were at the
// start.
type move struct {
	at      int
	machine []string
	back    bool
}

// Scenario is a scene being played. It has one owner and is not safe for concurrent use, but for
// Names.
type Scenario struct {
	scene    *scene
	names    map[identity]string
	clusters []string
	byID     map[string]*model.Machine
	start    int64
	started  bool
	sent     []sentAt // by cluster
	moved    int64    // seconds since the start up to which machines were moved
}

// sentAt is what a cluster reported last.
type sentAt struct {
	at     int64
	needs  []int // of the scene
	anyYet bool
}

// Scenarios lists the scenarios by name and what each shows.
func Scenarios() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, build := range scenes {
			if s := build(); !yield(s.name, s.about) {
				return
			}
		}
	}
}

// ScenarioNames returns the names of all scenarios.
func ScenarioNames() (names []string) {
	for name := range Scenarios() {
		names = append(names, name)
	}
	return names
}

// Period returns after how many seconds the scenario of a name repeats; 0 if there is none.
func Period(name string) int {
	for _, build := range scenes {
		if s := build(); s.name == name {
			return s.period
		}
	}
	return 0
}

// Play returns the scenario of a name.
func Play(name string) (*Scenario, error) {
	for _, build := range scenes {
		if s := build(); s.name == name {
			return newScenario(s), nil
		}
	}
	return nil, fmt.Errorf("no scenario named %q", name)
}

func newScenario(s *scene) *Scenario {
	p := &Scenario{scene: s, byID: map[string]*model.Machine{}}
	seen := map[string]bool{}
	for i := range s.needs {
		seen[s.needs[i].Cluster] = true
	}
	for i := range s.machines {
		p.byID[s.machines[i].ID] = &s.machines[i]
	}
	p.clusters = slices.Sorted(maps.Keys(seen))
	p.sent = make([]sentAt, len(p.clusters))
	p.names = namesOf(func(yield func(string, *model.Need)) {
		for i := range s.needs {
			yield(s.needs[i].name, &s.needs[i].Need)
		}
	})
	return p
}

// Describe says in one line what the scenario is.
func (p *Scenario) Describe() string {
	s := p.scene
	tenants := ""
	if n := len(s.tenancy.Tenants); n > 0 {
		tenants = fmt.Sprintf(" of %d tenants", n)
	}
	return fmt.Sprintf("scenario %s (%s): %d clusters%s, %d machines, %d needs; it repeats every %d s",
		s.name, s.about, len(p.clusters), tenants, len(s.machines), len(s.needs), s.period)
}

// Clusters returns the ids of the clusters, sorted.
func (p *Scenario) Clusters() []string { return p.clusters }

// Options returns the settings of the engine that the scenario asks for.
func (p *Scenario) Options() engine.Options {
	o := engine.DefaultOptions()
	o.Tenancy = p.scene.tenancy
	return o
}

// Trials returns what is worth trying.
func (p *Scenario) Trials() []Trial { return p.scene.trials }

// Name returns the name of a Need of a cluster, "" when it has none. It is safe for concurrent
// use.
func (p *Scenario) Name(cluster string, n *model.Need) string { return p.names[identityOf(cluster, n)] }

// Machines yields the fleet as it is at the start.
func (p *Scenario) Machines(now int64) iter.Seq[*model.Machine] {
	return func(yield func(*model.Machine) bool) {
		for i := range p.scene.machines {
			m := p.scene.machines[i]
			if m.State == model.Idle {
				m.IdleSince = now
			}
			if !yield(&m) {
				return
			}
		}
	}
}

// Done reports false: a scenario repeats.
func (p *Scenario) Done() bool { return false }

// elapsed returns the whole seconds since the start; the first call starts the clock.
func (p *Scenario) elapsed(now int64) int64 {
	if !p.started {
		p.start, p.started = now, true
	}
	return max(now-p.start, 0) / int64(time.Second)
}

// Due returns the roll-ups that are due: of clusters whose demand has changed, and of those that
// have not reported for an interval.
func (p *Scenario) Due(now int64) (out []workload.Rollup) {
	second := int(p.elapsed(now) % int64(p.scene.period))
	for c, cluster := range p.clusters {
		var there []int
		for i := range p.scene.needs {
			if n := &p.scene.needs[i]; n.Cluster == cluster && n.at(second) {
				there = append(there, i)
			}
		}
		last := &p.sent[c]
		if last.anyYet && now-last.at < int64(reportInterval) && slices.Equal(last.needs, there) {
			continue
		}
		*last = sentAt{at: now, needs: there, anyYet: true}
		needs := make([]model.Need, len(there))
		for k, i := range there {
			needs[k] = p.scene.needs[i].Need
		}
		out = append(out, workload.Rollup{Cluster: cluster, At: now, Needs: needs})
	}
	return out
}

// Move takes machines away and puts them back, as far as that fell due. It says what happened.
func (p *Scenario) Move(now int64, fleet Fleet) (said []string) {
	until, period := p.elapsed(now), int64(p.scene.period)
	if until-p.moved > period {
		p.moved = until - period // a process that stood still need not catch up
	}
	for ; p.moved <= until; p.moved++ {
		for i := range p.scene.moves {
			if m := &p.scene.moves[i]; int64(m.at) == p.moved%period {
				said = append(said, p.make(m, now, fleet))
			}
		}
	}
	return said
}

func (p *Scenario) make(m *move, now int64, fleet Fleet) string {
	if !m.back {
		return fmt.Sprintf("scenario: machines lost: %d", fleet.Lose(m.machine...))
	}
	n := 0
	for _, id := range m.machine {
		back := *p.byID[id]
		if back.State == model.Idle {
			back.IdleSince = now
		}
		if fleet.Add(back) == nil { // otherwise it was never lost
			n++
		}
	}
	return fmt.Sprintf("scenario: machines that came back: %d", n)
}
