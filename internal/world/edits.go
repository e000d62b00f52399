package world

import (
	"io"
	"maps"
	"slices"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/sim"
	"github.com/tonnage/tonnage/internal/world/document"
)

// Edits are what `what-if` changes in a world before it decides again.
type Edits struct {
	// Add are Needs that the world does not have; they stand after its own.
	Add []Need
	// Remove names Needs of the world.
	Remove []string
	// Lose names machines of the world, as if the provider listed them no more.
	Lose []string
	// Change is what the provider says of machines from now on.
	Change []sim.Change
	// Weights replace those of the world when not nil.
	Weights *engine.Weights
}

// editsFile is Edits while they are read.
type editsFile struct {
	Edits
	book    book
	now     int64
	weights engine.Weights
}

var editsSchema = document.NewSchema(
	document.Field[editsFile]{Key: "add", Read: func(r *reader, n *node, f *editsFile) {
		f.Add = f.book.addNeeds(r, n, f.now)
	}},
	document.Field[editsFile]{Key: "remove", Read: func(r *reader, n *node, f *editsFile) {
		r.List(n, func(_ int, n *node) {
			if need := f.book.readNeed(r, n); need != nil {
				f.Remove = append(f.Remove, need.Name)
			}
		})
	}},
	document.Field[editsFile]{Key: "lose", Read: func(r *reader, n *node, f *editsFile) {
		r.List(n, func(_ int, n *node) {
			var id string
			if f.book.readMachine(r, n, &id); id != "" {
				f.Lose = append(f.Lose, id)
			}
		})
	}},
	document.Field[editsFile]{Key: "change", Read: func(r *reader, n *node, f *editsFile) {
		r.List(n, func(_ int, n *node) {
			c := changeFile{book: &f.book}
			changeSchema.Read(r, n, &c)
			f.Change = append(f.Change, c.Change)
		})
	}},
	document.Field[editsFile]{Key: "weights", Read: func(r *reader, n *node, f *editsFile) {
		weightsSchema.Read(r, n, &f.weights)
		f.Weights = &f.weights
	}},
)

// ReadEdits reads, in JSON or YAML, what is to change in the world. The error is
// a *Faults when the file is at fault, and what reading it gave otherwise.
func (w *World) ReadEdits(in io.Reader) (*Edits, error) {
	doc, err := load(in)
	if err != nil {
		return nil, err
	}
	r := document.Reader{Of: doc}
	f := editsFile{book: w.book(), now: w.Now, weights: w.Options.Engine.Weights}
	editsSchema.Read(&r, &doc.Root, &f)
	if err := faultsOf(&r); err != nil {
		return nil, err
	}
	return &f.Edits, nil
}

// book returns what edits of the world may refer to.
func (w *World) book() book {
	b := newBook()
	b.list = w.Needs
	for i := range w.Needs {
		b.needs[w.Needs[i].Name] = i
		b.names = append(b.names, w.Needs[i].Name)
		b.clusterOf[w.Needs[i].Name] = w.Needs[i].Cluster
	}
	for i := range w.Machines {
		b.machines[w.Machines[i].ID] = i
		b.ids = append(b.ids, w.Machines[i].ID)
	}
	return b
}

// addNeeds reads Needs whose names the world does not know yet.
func (b *book) addNeeds(r *reader, n *node, now int64) []Need {
	if n.Kind != document.List {
		r.Fault("must be a list of needs, got %s", document.Describe(n))
		return nil
	}
	names := maps.Clone(b.needs)
	var out []Need
	r.List(n, func(i int, n *node) {
		f := needFile{}
		needSchema.Read(r, n, &f)
		f.finish(r, n, now, "")
		if _, taken := b.needs[f.Name]; taken {
			r.FaultKey("name", "%s is the name of a need of the world already", document.Quote(f.Name))
			return
		}
		b.enter(r, &f.Need, i, names)
		out = append(out, f.Need)
	})
	return out
}

// With returns the world as the edits make it; the world itself stays.
func (w *World) With(e *Edits) *World {
	out := *w
	out.Needs = slices.DeleteFunc(slices.Clone(w.Needs), func(n Need) bool { return slices.Contains(e.Remove, n.Name) })
	out.Needs = append(out.Needs, e.Add...)
	for i := range out.Needs {
		out.Needs[i].Parked = false // what has waited in vain is tried again when something changes
	}
	lost := make(map[string]bool, len(e.Lose))
	for _, id := range e.Lose {
		lost[id] = true
	}
	out.Machines = slices.DeleteFunc(slices.Clone(w.Machines), func(m model.Machine) bool { return lost[m.ID] })
	changes := make(map[string][]*sim.Change, len(e.Change))
	for i := range e.Change {
		changes[e.Change[i].Machine] = append(changes[e.Change[i].Machine], &e.Change[i])
	}
	if len(changes) > 0 {
		for i := range out.Machines {
			for _, c := range changes[out.Machines[i].ID] {
				applyChange(c, &out.Machines[i])
			}
		}
	}
	out.Reported = slices.Clone(w.Reported)
	for i := range e.Add {
		if at, known := slices.BinarySearch(out.Reported, e.Add[i].Cluster); !known {
			out.Reported = slices.Insert(out.Reported, at, e.Add[i].Cluster)
		}
	}
	if e.Weights != nil {
		out.Options.Engine.Weights = *e.Weights
	}
	out.indexRows()
	return &out
}

// Without returns the world without the machines in a state.
func (w *World) Without(state model.State) *World {
	out := *w
	out.Machines = slices.DeleteFunc(slices.Clone(w.Machines), func(m model.Machine) bool { return m.State == state })
	return &out
}

// applyChange makes the machine what the provider says of it.
func applyChange(c *sim.Change, m *model.Machine) {
	if c.PricePerHour != nil {
		m.PricePerHour = *c.PricePerHour
	}
	if c.InterruptionProbability != nil {
		m.InterruptionProbability = *c.InterruptionProbability
	}
	if c.Labels != nil {
		m.Labels = c.Labels
	}
	if c.Allocatable != nil {
		m.Allocatable = *c.Allocatable
	}
}
