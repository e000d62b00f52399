package fleetview

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/world"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/web"
)

// MachinesAnswer lists machines.
type MachinesAnswer struct {
	Total    int          `json:"total"`    // that match
	Price    float64      `json:"price"`    // of all that match, USD an hour
	Machines []MachineRow `json:"machines"` // in the order of ids, or the dearest first
}

// MachineRow is a machine in a list.
type MachineRow struct {
	ID        string  `json:"id"`
	State     string  `json:"state"`
	Type      string  `json:"type"`
	Capacity  string  `json:"capacity"`
	Cluster   string  `json:"cluster,omitempty"`
	Group     string  `json:"group,omitempty"`
	Priority  int32   `json:"priority"`
	Price     float64 `json:"price"`     // USD an hour
	Effective float64 `json:"effective"` // with what interruptions cost
	IdleSince int64   `json:"idleSince,omitempty"`
}

// row describes a machine.
func (f *fleet) row(i int) MachineRow {
	c := &f.classes[f.class[i]]
	idleSince := int64(0)
	if f.state[i] == model.Idle {
		idleSince = f.idleSince[i] / 1e6
	}
	return MachineRow{
		ID: f.ids[i], State: f.state[i].String(), Type: c.instanceType, Capacity: f.capacity[i].String(),
		Cluster: f.names[f.cluster[i]], Group: f.names[f.group[i]], Priority: f.priority[i],
		Price: c.price, Effective: f.effective(i), IdleSince: idleSince,
	}
}

// filter returns a test of machines: q is text in the id, state, cluster, type and capacity are equal, and key
// and value name a domain.
func (f *fleet) filter(q url.Values) (func(i int) bool, error) {
	var state model.State
	if text := q.Get("state"); text != "" {
		var ok bool
		if state, ok = model.ParseState(text); !ok {
			return nil, fmt.Errorf("%w: there is no state %.40q", web.ErrBadQuery, text)
		}
	}
	text, cluster, kind, capacity := strings.ToLower(q.Get("q")), q.Get("cluster"), q.Get("type"), q.Get("capacity")
	column, value := f.domains[q.Get("key")], q.Get("value")
	if column == nil && q.Get("key") != "" {
		return nil, f.noKey(q.Get("key"))
	}
	return func(i int) bool {
		return (state == 0 || f.state[i] == state) &&
			(cluster == "" || f.names[f.cluster[i]] == cluster) &&
			(kind == "" || f.classes[f.class[i]].instanceType == kind) &&
			(capacity == "" || f.capacity[i].String() == capacity) &&
			(column == nil || f.values[column[i]] == value) &&
			(text == "" || strings.Contains(strings.ToLower(f.ids[i]), text))
	}, nil
}

// machines lists machines; with sort=price the dearest come first.
func (v *View) machines(_ context.Context, q url.Values) (any, error) {
	w, err := windowOf(q)
	if err != nil {
		return nil, err
	}
	f, err := v.copy()
	if err != nil {
		return nil, err
	}
	matches, err := f.filter(q)
	if err != nil {
		return nil, err
	}
	out := MachinesAnswer{Machines: []MachineRow{}}
	var all []int
	for i := range f.ids {
		if matches(i) {
			all = append(all, i)
			out.Price += f.classes[f.class[i]].price
		}
	}
	if q.Get("sort") == "price" {
		slices.SortStableFunc(all, func(a, b int) int {
			return cmp.Compare(f.classes[f.class[b]].price, f.classes[f.class[a]].price)
		})
	}
	out.Total = len(all)
	for _, i := range cut(w, all) {
		out.Machines = append(out.Machines, f.row(i))
	}
	return out, nil
}

// StateGone is the state of a machine that the fleet no longer has, and whose past is kept.
const StateGone = "gone"

// MachineAnswer is all that is known of one machine without deciding again.
type MachineAnswer struct {
	ID           string            `json:"id"`
	State        string            `json:"state"`
	Type         string            `json:"type"`
	Capacity     string            `json:"capacity"`
	Zone         string            `json:"zone"`
	Host         string            `json:"host"`
	Cluster      string            `json:"cluster"`
	Labels       map[string]string `json:"labels"`
	Offers       []Amount          `json:"offers"`
	Price        float64           `json:"price"`
	Probability  float64           `json:"probability"` // of an interruption in an hour
	Effective    float64           `json:"effective"`
	IdleSince    int64             `json:"idleSince,omitempty"`
	LastError    string            `json:"lastError,omitempty"`
	Priority     int32             `json:"priority"`
	Group        string            `json:"group,omitempty"`
	Interruption string            `json:"interruption"` // of the workload, dollars
	Reclamation  string            `json:"reclamation"`
	Reserved     *ReservedFor      `json:"reserved,omitempty"`
	// Need is what it serves by its stamp, as explain takes it; empty = none, or the Need is gone. Alike
	// counts the rows that it may be, this one included.
	Need    string              `json:"need,omitempty"`
	NeedKey string              `json:"needKey,omitempty"`
	Profile string              `json:"profile,omitempty"`
	Alike   int                 `json:"alike,omitempty"`
	Domains []DomainName        `json:"domains"`
	Cheaper []CheaperRow        `json:"cheaper"` // why its Need has this machine and not a cheaper one
	Covers  float64             `json:"covers"`  // of what its Need asks for
	History []TimedMachineEvent `json:"history"` // newest first
}

// ReservedFor is whom a machine is held for.
type ReservedFor struct {
	Cluster  string `json:"cluster"`
	Group    string `json:"group,omitempty"`
	Priority int32  `json:"priority"`
	Domain   string `json:"domain,omitempty"`
	Until    int64  `json:"until,omitempty"` // Unix milliseconds
}

// DomainName is a domain that a machine is in.
type DomainName struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// TimedMachineEvent is what happened to a machine in a cycle: a change of its state, or an action.
type TimedMachineEvent struct {
	At    int64         `json:"at"`
	Cycle uint64        `json:"cycle"`
	Moved *MachineEvent `json:"moved,omitempty"`
	Did   *ActionEvent  `json:"did,omitempty"`
}

// machine answers with one machine, by its id.
func (v *View) machine(_ context.Context, q url.Values) (any, error) {
	id, err := wanted(q, "id")
	if err != nil {
		return nil, err
	}
	out := &MachineAnswer{Domains: []DomainName{}, History: []TimedMachineEvent{}, Cheaper: []CheaperRow{}}
	p, ok := v.partOf(func(in engine.Input) bool { _, ok := in.Supply.Lookup(id); return ok })
	v.addMachinePast(out, id)
	if !ok {
		if len(out.History) == 0 {
			return nil, fmt.Errorf("%w: there is no machine %.80q", web.ErrNotFound, id)
		}
		out.ID, out.State = id, StateGone
		return out, nil
	}
	err = p.Inspect(func(in engine.Input, opts engine.Options, _ *shard.HeldBack) error {
		out.describe(in, &opts, p.names(), id)
		return nil
	})
	return out, err
}

func (out *MachineAnswer) describe(in engine.Input, opts *engine.Options, names world.Names, id string) {
	r, ok := in.Supply.Lookup(id)
	if !ok {
		out.ID, out.State = id, StateGone
		return
	}
	m := in.Supply.Get(r)
	out.ID, out.State, out.Type, out.Capacity, out.Zone, out.Host, out.Cluster = m.ID, m.State.String(), m.InstanceType, m.CapacityType.String(), m.Zone, m.Host, m.Cluster
	out.Labels, out.Offers, out.Price, out.Probability, out.Effective = m.Labels, vectorOf(m.EffectiveAllocatable()), m.PricePerHour, m.InterruptionProbability, m.PricePerHour
	out.LastError = m.LastError
	if m.State == model.Idle {
		out.IdleSince = m.IdleSince / 1e6
	}
	a := &m.Assigned
	out.Priority, out.Group, out.Interruption, out.Reclamation = a.Priority, a.Group, a.Interruption.Label(), a.Reclamation.Label()
	if a.Interruption != model.BucketPinned {
		out.Effective += m.InterruptionProbability * a.Interruption.Dollars()
	}
	if res := &m.Reservation; res.Active() {
		out.Reserved = &ReservedFor{Cluster: res.Owner.Cluster, Group: res.Owner.Group, Priority: res.Priority, Domain: res.Domain, Until: res.Deadline / 1e6}
	}
	for _, key := range domainKeys(in, opts) {
		if value, ok := m.Attribute(key); ok && value != "" {
			out.Domains = append(out.Domains, DomainName{key, value})
		}
	}
	out.serves(in, names, &m)
}

// serves finds the row that a machine's stamp is of.
func (out *MachineAnswer) serves(in engine.Input, names world.Names, m *model.Machine) {
	first, alike := rowOf(in, m.Cluster, m.Assigned)
	if first < 0 {
		return
	}
	out.Alike = alike
	need := in.Demand.Row(in.Demand.Block(m.Cluster), first)
	out.Need, out.Profile = names.Of(m.Cluster, first, &need), inShort(shard.Describe(need.Profile))
	key := needKey{m.Cluster, need.Profile.Fingerprint(), need.Group}
	out.NeedKey = key.text()
	out.Cheaper, out.Covers = cheaperThan(in, m, &need, out.Effective), partOfNeed(m, &need)
}

// addMachinePast adds what is kept of a machine's past.
func (v *View) addMachinePast(out *MachineAnswer, id string) {
	for _, p := range v.parts {
		p.Recorder.history.visit(0, math.MaxInt64, func(c *cycleRecord) {
			for i := range c.machines {
				if c.machines[i].Machine == id {
					out.History = append(out.History, TimedMachineEvent{At: c.row.At, Cycle: c.row.Cycle, Moved: &c.machines[i]})
				}
			}
			for i := range c.actions {
				if c.actions[i].Machine == id {
					out.History = append(out.History, TimedMachineEvent{At: c.row.At, Cycle: c.row.Cycle, Did: &c.actions[i]})
				}
			}
		})
	}
	slices.Reverse(out.History)
	out.History = out.History[:min(len(out.History), listDefault)]
}
