package world

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/sim"
	"github.com/tonnage/tonnage/internal/world/document"
)

// How many machines a pool of a question may add, and all pools together.
const (
	PoolCountMax     = 100_000
	MachinesAddedMax = 1_000_000 // of all pools of a question
)

// kindFile names machines of one kind: those like one of them, or by what they are.
type kindFile struct {
	like, instanceType, zone string
	capacity                 model.CapacityType
	capacitySet, zoneSet     bool
}

// matches tells whether a machine is of the kind.
func (k *kindFile) matches(m *model.Machine) bool {
	return m.InstanceType == k.instanceType && (!k.capacitySet || m.CapacityType == k.capacity) && (!k.zoneSet || m.Zone == k.zone)
}

// of returns the machines of the kind; none is a fault.
func (k *kindFile) of(r *reader, f *editsFile) (out []*model.Machine) {
	machines := f.world.Machines
	if k.like != "" {
		return []*model.Machine{&machines[f.book.machines[k.like]]}
	}
	var types []string
	for i := range machines {
		if m := &machines[i]; k.matches(m) {
			out = append(out, m)
		} else if !slices.Contains(types, m.InstanceType) && len(types) < hintNamesMax {
			types = append(types, m.InstanceType)
		}
	}
	if len(out) == 0 {
		what := fmt.Sprintf("no machine of the world is of instance type %s", document.Quote(k.instanceType))
		if k.capacitySet || k.zoneSet {
			what += " with this capacity type and zone"
		} else if near := document.Nearest(k.instanceType, types); near != "" {
			what += "; did you mean " + document.Quote(near) + "?"
		}
		r.Fault("%s", what)
	}
	return out
}

// poolFile is machines to add while they are read.
type poolFile struct {
	kindFile
	book   *book
	count  int
	state  model.State
	labels map[string]string
}

var poolSchema = document.NewSchema(append(kindFields(func(f *poolFile) (*kindFile, *book) { return &f.kindFile, f.book }),
	document.Field[poolFile]{Key: "count", Is: document.IntegerOf(1, PoolCountMax), Default: "1", About: "How many join.",
		Read: func(r *reader, n *node, f *poolFile) { readInt(r, n, 1, PoolCountMax, &f.count) }},
	document.Field[poolFile]{Key: "state", Is: document.WordOf(model.Idle.String(), model.Speculative.String()), Default: "Idle for BareMetal and Reserved, Speculative otherwise",
		About: "Whether they are there, or can be bought.",
		Read: func(r *reader, n *node, f *poolFile) {
			readChoice(r, n, "state", []string{model.Idle.String(), model.Speculative.String()}, func(text string) (ok bool) {
				f.state, ok = model.ParseState(text)
				return ok && (f.state == model.Idle || f.state == model.Speculative)
			})
		}},
	document.Field[poolFile]{Key: "labels", Is: document.Is(document.TypeTexts), Default: "those of the pattern", About: "Labels that they have otherwise, such as another rack.",
		Read: func(r *reader, n *node, f *poolFile) { readLabels(r, n, &f.labels) }},
)...)

// kindFields are the keys that name a kind of machines.
func kindFields[T any](of func(*T) (*kindFile, *book)) []document.Field[T] {
	return []document.Field[T]{
		{Key: "like", Is: document.Is(document.TypeName), About: "A machine of the world, by id; in place of the next three.",
			Read: func(r *reader, n *node, f *T) {
				k, b := of(f)
				b.readMachine(r, n, &k.like)
			}},
		{Key: "instanceType", Is: document.Is(document.TypeText), About: "The type of machines of the world.",
			Read: func(r *reader, n *node, f *T) {
				k, _ := of(f)
				r.Text(n, &k.instanceType)
			}},
		{Key: "capacityType", Is: document.WordOf(capacityNames...), Default: "any", About: "And how they are paid for.",
			Read: func(r *reader, n *node, f *T) {
				k, _ := of(f)
				var m machineFile
				readCapacityType(r, n, &m)
				k.capacity, k.capacitySet = m.CapacityType, true
			}},
		{Key: "zone", Is: document.Is(document.TypeText), Default: "any", About: "And where they are.",
			Read: func(r *reader, n *node, f *T) {
				k, _ := of(f)
				r.Text(n, &k.zone)
				k.zoneSet = true
			}},
	}
}

// named tells whether an object names a kind, and says so when it does not.
func (k *kindFile) named(r *reader, n *node, before int) bool {
	if n.Kind != document.Object || r.Count() != before {
		return false
	}
	if k.like == "" && !has(n, "instanceType") {
		r.Fault("give like (a machine) or instanceType")
		return false
	}
	return true
}

// addPool adds machines like some that are there.
func (f *editsFile) addPool(r *reader, n *node) {
	before := r.Count()
	p := poolFile{book: &f.book, count: 1}
	poolSchema.Read(r, n, &p)
	if !p.named(r, n, before) {
		return
	}
	of := p.of(r, f)
	switch {
	case len(of) == 0:
		return
	case len(f.Machines)+p.count > MachinesAddedMax:
		r.FaultKey("count", "more than %d machines are added in all", MachinesAddedMax)
		return
	}
	f.Machines = append(f.Machines, f.book.more(of[0], p.count, p.state, p.labels, f.now)...)
}

// Pool returns the keys of an edit that name a kind of machines as people write it: a machine of the world, or
// TYPE, TYPE/CAPACITY or TYPE/CAPACITY/ZONE.
func (w *World) Pool(name string) map[string]any {
	if w.HasMachine(name) {
		return map[string]any{"like": name}
	}
	pool := map[string]any{}
	for i, part := range strings.SplitN(name, "/", 3) {
		pool[[...]string{"instanceType", "capacityType", "zone"}[i]] = part
	}
	return pool
}

// WithoutRequirements writes the requirements of a Need, as an edit of it has them, but for those on a key. ok is false where it has none on
// the key.
func WithoutRequirements(n *Need, key string) (list []any, ok bool) {
	list = []any{}
	for _, q := range n.Profile.Requirements() {
		if q.Key == key {
			ok = true
			continue
		}
		item := map[string]any{"key": q.Key, "operator": q.Operator.String()}
		if len(q.Values) > 0 {
			item["values"] = q.Values
		}
		list = append(list, item)
	}
	return list, ok
}

// Need returns a Need by its name, nil if there is none.
func (w *World) Need(name string) *Need {
	for i := range w.Needs {
		if w.Needs[i].Name == name {
			return &w.Needs[i]
		}
	}
	return nil
}

// Adder makes machines like those of a world, under names that are free.
type Adder struct {
	book book
	now  int64
}

// Adder returns one that knows which names the world has. Cost: O(machines and Needs).
func (w *World) Adder() *Adder { return &Adder{book: w.book(), now: w.Now} }

// More returns machines like one of the world, as they join: Idle when they are owned or reserved, else
// Speculative. No two calls give one name.
func (a *Adder) More(like *model.Machine, count int) []model.Machine {
	return a.book.more(like, count, model.StateUnspecified, nil, a.now)
}

func (b *book) more(like *model.Machine, count int, state model.State, labels map[string]string, now int64) []model.Machine {
	m := model.Machine{
		State: state, InstanceType: like.InstanceType, Zone: like.Zone, CapacityType: like.CapacityType, Resources: like.Resources,
		Allocatable: like.Allocatable, PricePerHour: like.PricePerHour, InterruptionProbability: like.InterruptionProbability, Labels: like.Labels,
	}
	if state == model.StateUnspecified {
		if m.State = model.Speculative; m.CapacityType == model.BareMetal || m.CapacityType == model.Reserved {
			m.State = model.Idle
		}
	}
	if m.State == model.Idle {
		m.IdleSince = now
	}
	if len(labels) > 0 {
		all := make(map[string]string, len(like.Labels)+len(labels))
		for _, from := range []map[string]string{like.Labels, labels} {
			for k, v := range from {
				all[k] = v
			}
		}
		m.Labels = all
	}
	out := make([]model.Machine, count)
	number := 1
	for i := range out {
		for ; ; number++ {
			m.ID = fmt.Sprintf("added-%d", number)
			if m.InstanceType != "" && len(m.InstanceType) < document.NameBytesMax/2 {
				m.ID = fmt.Sprintf("added-%s-%d", m.InstanceType, number)
			}
			if _, taken := b.machines[m.ID]; !taken && !b.added[m.ID] {
				b.added[m.ID] = true
				break
			}
		}
		out[i] = m
	}
	return out
}

// addMachine adds a machine by its record.
func (f *editsFile) addMachine(r *reader, n *node) {
	m := machineFile{book: &f.book, now: f.now}
	machineSchema.Read(r, n, &m)
	m.finish(r)
	if _, taken := f.book.machines[m.ID]; (taken || f.book.added[m.ID]) && m.ID != "" {
		r.FaultKey("id", "%s is the id of a machine already", document.Quote(m.ID))
		return
	}
	f.book.added[m.ID] = true
	f.Machines = append(f.Machines, m.Machine)
}

// changeNeed reads what of a Need is to be otherwise.
func (f *editsFile) changeNeed(r *reader, n *node) {
	if n.Kind != document.Object {
		needSchema.Read(r, n, &needFile{}) // says so
		return
	}
	before := r.Count()
	r.Enter("name")
	name := document.Find(n, "name")
	if name == nil {
		r.Leave()
		r.FaultKey("name", "is missing")
		return
	}
	need := f.book.readNeed(r, name)
	r.Leave()
	if need == nil || need.Profile == nil {
		return
	}
	p := need.Profile
	x := needFile{Need: *need, shortSinceSet: true, spec: model.ProfileSpec{
		Priority: p.Priority(), Interruption: p.Interruption(), Reclamation: p.Reclamation(), Requirements: slices.Clone(p.Requirements()), Spread: slices.Clone(p.Spread()),
	}}
	if has(n, "requirements") {
		x.spec.Requirements = nil
	}
	if has(n, "spread") {
		x.spec.Spread = nil
	}
	needSchema.Read(r, n, &x)
	x.finish(r, n, f.now, "")
	if slices.ContainsFunc(f.Needs, func(n Need) bool { return n.Name == x.Name }) {
		r.FaultKey("name", "%s changes twice", document.Quote(x.Name))
	}
	if r.Count() == before {
		f.Needs = append(f.Needs, x.Need)
	}
}

// attributeFile is an attribute of machines.
type attributeFile struct{ key, value string }

var attributeSchema = document.NewSchema(
	document.Field[attributeFile]{Key: "key", Required: true, Is: document.Is(document.TypeName), About: "`topology.kubernetes.io/rack`, `topology.kubernetes.io/zone`, another label, or `node.kubernetes.io/instance-type`.",
		Read: func(r *reader, n *node, a *attributeFile) { r.Name(n, &a.key) }},
	document.Field[attributeFile]{Key: "value", Required: true, Is: document.Is(document.TypeText), About: "Its value.",
		Read: func(r *reader, n *node, a *attributeFile) { r.Plain(n, &a.value) }},
)

// loseWhere loses all machines with a value of an attribute.
func (f *editsFile) loseWhere(r *reader, n *node) {
	var a attributeFile
	before := r.Count()
	attributeSchema.Read(r, n, &a)
	if r.Count() != before || n.Kind != document.Object {
		return
	}
	found, has := 0, map[string]bool{}
	for i := range f.world.Machines {
		m := &f.world.Machines[i]
		value, there := m.Attribute(a.key)
		if there && len(has) < hintNamesMax {
			has[value] = true
		}
		if there && value == a.value {
			found++
			f.Lose = append(f.Lose, m.ID)
		}
	}
	switch {
	case found > 0:
	case len(has) == 0:
		r.FaultKey("key", "no machine of the world has %s", document.Quote(a.key))
	default:
		r.FaultKey("value", "no machine of the world has %s as its %s; there are %s", document.Quote(a.value), a.key, someOf(has))
	}
}

// poolChangeFile is what changes of all machines of a kind.
type poolChangeFile struct {
	kindFile
	book   *book
	change sim.Change
}

var poolChangeSchema = document.NewSchema(append(kindFields(func(f *poolChangeFile) (*kindFile, *book) { return &f.kindFile, f.book }),
	document.Field[poolChangeFile]{Key: "pricePerHour", Is: document.NumberOf(0, inf), Default: "as it is", About: "Dollars an hour.",
		Read: func(r *reader, n *node, f *poolChangeFile) {
			f.change.PricePerHour = new(float64)
			r.Float(n, 0, inf, f.change.PricePerHour)
		}},
	document.Field[poolChangeFile]{Key: "interruptionProbability", Is: document.NumberOf(0, 1), Default: "as it is", About: "Per hour.",
		Read: func(r *reader, n *node, f *poolChangeFile) {
			f.change.InterruptionProbability = new(float64)
			r.Float(n, 0, 1, f.change.InterruptionProbability)
		}},
)...)

// changePool changes all machines of a kind.
func (f *editsFile) changePool(r *reader, n *node) {
	before := r.Count()
	c := poolChangeFile{book: &f.book}
	poolChangeSchema.Read(r, n, &c)
	if !c.named(r, n, before) {
		return
	}
	for _, m := range c.of(r, f) {
		change := c.change
		change.Machine = m.ID
		f.Change = append(f.Change, change)
	}
}
