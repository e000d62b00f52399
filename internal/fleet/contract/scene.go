package contract

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/reference"
)

// scene is a world being written down. Clusters that are named in it have
// reported, unless it says otherwise.
type scene struct {
	*testing.T
	decide Decide
	in     reference.Input
}

// sceneStart is the time of every scene.
const sceneStart = int64(1_800_000_000) * 1e9

func newScene(t *testing.T, decide Decide) *scene {
	return &scene{T: t, decide: decide, in: reference.Input{
		Reported: map[string]bool{}, Now: sceneStart, Options: reference.DefaultOptions(),
	}}
}

// The states, short.
const (
	spec     = model.Speculative
	creating = model.Creating
	idle     = model.Idle
	binding  = model.Configuring
	bound    = model.Configured
	draining = model.Draining
)

// rackKey is the label that stands for a co-location domain.
const rackKey = "topology.kubernetes.io/rack"

// vec makes a vector of names and amounts.
func vec(pairs ...any) model.Resources {
	var amounts []model.Amount
	for i := 0; i < len(pairs); i += 2 {
		v, ok := pairs[i+1].(int64)
		if !ok {
			v = int64(pairs[i+1].(int))
		}
		amounts = append(amounts, model.Amount{Name: pairs[i].(string), Value: v})
	}
	return model.NewResources(amounts...)
}

func cpu(v int64) model.Resources { return vec("cpu", v) }

// machineOpt changes a machine, needOpt a row.
type (
	machineOpt func(*model.Machine)
	needOpt    func(*row)
)

// row is a Need and its place in the input.
type row struct {
	model.Need
	spec model.ProfileSpec
	at   int
}

// foldOf is the Need that a row is when folded alone, for stamps and reservations.
func foldOf(n *row) *row {
	return &row{Need: model.Need{Cluster: n.Cluster, Profile: n.Profile.Folded()}}
}

// machine adds a machine that offers what it has.
func (s *scene) machine(id string, state model.State, has model.Resources, opts ...machineOpt) {
	s.Helper()
	m := model.Machine{ID: id, State: state, Resources: has, Labels: map[string]string{}}
	if state == idle {
		m.IdleSince = s.in.Now
	}
	for _, o := range opts {
		o(&m)
	}
	if err := m.Validate(false); err != nil {
		s.Fatal(err)
	}
	if _, said := s.in.Reported[m.Cluster]; m.Cluster != "" && !said {
		s.in.Reported[m.Cluster] = true
	}
	s.in.Machines = append(s.in.Machines, m)
}

// machines adds one machine for each id of a list separated by spaces.
func (s *scene) machines(ids string, state model.State, has model.Resources, opts ...machineOpt) {
	s.Helper()
	for _, id := range strings.Fields(ids) {
		s.machine(id, state, has, opts...)
	}
}

// lost adds a Need of cluster v with a priority, its machine v1, and the Need of cluster a, row 0, that preempts it.
func (s *scene) lost(priority int32) *row {
	s.Helper()
	s.need("a", 50, cpu(4), requires("k", model.Exists))
	n := s.need("v", priority, cpu(4), unit(cpu(4)))
	s.machine("v1", bound, cpu(4), of("v"), serving(n), label("k", "yes"))
	return n
}

func of(cluster string) machineOpt { return func(m *model.Machine) { m.Cluster = cluster } }
func price(v float64) machineOpt   { return func(m *model.Machine) { m.PricePerHour = v } }
func risk(p float64) machineOpt    { return func(m *model.Machine) { m.InterruptionProbability = p } }
func kind(v string) machineOpt     { return func(m *model.Machine) { m.InstanceType = v } }
func zone(v string) machineOpt     { return func(m *model.Machine) { m.Zone = v } }
func rack(v string) machineOpt     { return label(rackKey, v) }
func label(k, v string) machineOpt { return func(m *model.Machine) { m.Labels[k] = v } }
func alloc(r model.Resources) machineOpt {
	return func(m *model.Machine) { m.Allocatable = r }
}
func capacity(c model.CapacityType, idleFor time.Duration) machineOpt {
	return func(m *model.Machine) { m.CapacityType, m.IdleSince = c, sceneStart-int64(idleFor) }
}

// worth stamps penalties, at stamps a priority, neither for any Need.
func worth(interruption, reclamation model.Bucket) machineOpt {
	return func(m *model.Machine) { m.Assigned.Interruption, m.Assigned.Reclamation = interruption, reclamation }
}
func at(priority int32) machineOpt { return func(m *model.Machine) { m.Assigned.Priority = priority } }

// serving stamps the machine for the row.
func serving(n *row) machineOpt {
	return func(m *model.Machine) {
		m.Assigned.Fingerprint, m.Assigned.Group = n.Profile.Fingerprint(), n.Group
		m.Assigned.Priority = n.Profile.Priority()
	}
}

// held reserves the machine for the row; a Creating one is stamped for it too.
func held(n *row) machineOpt {
	return func(m *model.Machine) {
		m.Reservation = model.Reservation{
			Owner: n.Owner(), Priority: n.Profile.Priority(), Interruption: n.Profile.Interruption(),
			Reclamation: n.Profile.Reclamation(), Arrival: n.Arrival, Deadline: sceneStart + int64(time.Minute),
		}
		if m.State == creating {
			serving(n)(m)
		}
	}
}

// heldBy reserves the machine for an owner that is not in the demand.
func heldBy(cluster string, priority int32) machineOpt {
	return func(m *model.Machine) {
		m.Reservation = model.Reservation{Owner: model.Owner{Cluster: cluster, Fingerprint: 99}, Priority: priority}
	}
}

// until sets the reservation's deadline, from now.
func until(d time.Duration) machineOpt {
	return func(m *model.Machine) { m.Reservation.Deadline = sceneStart + int64(d) }
}

// need adds a row.
func (s *scene) need(cluster string, priority int32, wants model.Resources, opts ...needOpt) *row {
	s.Helper()
	n := &row{Need: model.Need{Cluster: cluster, Aggregate: wants}, at: len(s.in.Needs)}
	n.spec.Priority = priority
	for _, o := range opts {
		o(n)
	}
	p, err := model.NewProfile(n.spec)
	if err != nil {
		s.Fatal(err)
	}
	n.Profile = p
	s.in.Reported[cluster] = true
	s.in.Needs = append(s.in.Needs, n.Need)
	return n
}

func unit(r model.Resources) needOpt { return func(n *row) { n.MinUnit = r } }
func group(g string) needOpt         { return func(n *row) { n.Group = g } }
func arrival(t int64) needOpt        { return func(n *row) { n.Arrival = t } }
func parked(n *row)                  { n.Parked = true }
func interruption(b model.Bucket) needOpt {
	return func(n *row) { n.spec.Interruption = b }
}
func reclamation(b model.Bucket) needOpt {
	return func(n *row) { n.spec.Reclamation = b }
}
func requires(key string, op model.Operator, values ...string) needOpt {
	return func(n *row) {
		n.spec.Requirements = append(n.spec.Requirements, model.Requirement{Key: key, Operator: op, Values: values})
	}
}
func same(key string, values ...string) needOpt { return requires(key, model.Same, values...) }
func spread(key string, skew int32, when model.WhenUnsatisfiable) needOpt {
	return func(n *row) {
		n.spec.Spread = append(n.spec.Spread, model.Spread{Key: key, MaxSkew: skew, WhenUnsatisfiable: when})
	}
}
func hard(key string, skew int32) needOpt { return spread(key, skew, model.DoNotSchedule) }

// outcome is the plan of a scene, and what to say of it.
type outcome struct {
	*scene
	plan reference.Plan
}

// run decides, and checks what holds of every plan.
func (s *scene) run() *outcome {
	s.Helper()
	o := &outcome{s, s.decide(s.in)}
	for _, fault := range Faults(s.in, o.plan) {
		s.Error(fault)
	}
	return o
}

// does: these are all the actions, in this order, each "Kind machine" or, where
// a Need acts, "Kind machine row".
func (o *outcome) does(want ...string) *outcome {
	o.Helper()
	var got []string
	for _, a := range o.plan.Actions {
		text := a.Kind + " " + a.Machine
		if a.Need >= 0 {
			text += fmt.Sprintf(" %d", a.Need)
		}
		got = append(got, text)
	}
	if !slices.Equal(got, want) {
		o.Errorf("actions: got %q, want %q", got, want)
	}
	return o
}

// claims: the row claims these machines, in this order.
func (o *outcome) claims(n *row, ids string) *outcome {
	o.Helper()
	if got := strings.Join(o.plan.Needs[n.at].Claimed, " "); got != ids {
		o.Errorf("row %d claims %q, want %q", n.at, got, ids)
	}
	return o
}

// lacks: this is the row's deficit.
func (o *outcome) lacks(n *row, want model.Resources) *outcome {
	o.Helper()
	r := o.plan.Needs[n.at]
	if !r.Deficit.Equal(want) || r.Satisfied != want.IsZero() {
		o.Errorf("row %d: deficit %v, satisfied %v; want %v", n.at, r.Deficit, r.Satisfied, want)
	}
	return o
}

func (o *outcome) satisfied(n *row) *outcome { o.Helper(); return o.lacks(n, nil) }

func (o *outcome) gathers(n *row, domain string) *outcome {
	o.Helper()
	if got := o.plan.Needs[n.at].Domain; got != domain {
		o.Errorf("row %d: domain %q, want %q", n.at, got, domain)
	}
	return o
}

func (o *outcome) unmet(n *row, reason string) *outcome {
	o.Helper()
	if got := o.plan.Needs[n.at].Unmet; got != reason {
		o.Errorf("row %d: unmet %q, want %q", n.at, got, reason)
	}
	return o
}

func (o *outcome) couldCover(n *row, want bool) *outcome {
	o.Helper()
	if got := o.plan.Needs[n.at].CouldCover; got != want {
		o.Errorf("row %d: could cover %v, want %v", n.at, got, want)
	}
	return o
}

func (o *outcome) awaits(n *row, want model.Resources) *outcome {
	o.Helper()
	if got := o.plan.Needs[n.at].InFlight; !got.Equal(want) {
		o.Errorf("row %d: in flight %v, want %v", n.at, got, want)
	}
	return o
}

// ends: the reservations of these machines are over.
func (o *outcome) ends(ids string) *outcome {
	o.Helper()
	if got := strings.Join(o.plan.Ended, " "); got != ids {
		o.Errorf("ended reservations: got %q, want %q", got, ids)
	}
	return o
}

// reserves: the plans reserve these, each "machine row".
func (o *outcome) reserves(want ...string) *outcome {
	o.Helper()
	var got []string
	for _, r := range o.plan.Reserved {
		got = append(got, fmt.Sprintf("%s %d", r.Machine, r.Need))
	}
	if !slices.Equal(got, want) {
		o.Errorf("reserved: got %q, want %q", got, want)
	}
	return o
}

// action returns the action on a machine.
func (o *outcome) action(machine string) reference.Action {
	o.Helper()
	for _, a := range o.plan.Actions {
		if a.Machine == machine {
			return a
		}
	}
	o.Errorf("no action on %s", machine)
	return reference.Action{}
}

func (o *outcome) grace(machine string, seconds int) *outcome {
	o.Helper()
	if got := o.action(machine).Grace; got != seconds {
		o.Errorf("grace of %s: got %d s, want %d s", machine, got, seconds)
	}
	return o
}
