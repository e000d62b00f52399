package world

import (
	"fmt"
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
	// Needs are Needs of the world as they are to be, by their names.
	Needs []Need
	// Machines join the world, after its own.
	Machines []model.Machine
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
	world   *World
	book    book
	now     int64
	weights engine.Weights
	name    string // of a question of a batch
}

var editsSchema = document.NewSchema(editsFields()...)

func editsFields() []document.Field[editsFile] {
	needs := document.ListOf(document.ObjectOf("need", func() []document.Description { return needSchema.Describe() }))
	return []document.Field[editsFile]{
		{Key: "add", Is: needs, About: "Needs that come, as in the world.",
			Read: func(r *reader, n *node, f *editsFile) { f.Add = f.book.addNeeds(r, n, f.now) }},
		{Key: "remove", Is: document.ListOf(document.Is(document.TypeName)), About: "Needs that go, by name.",
			Read: func(r *reader, n *node, f *editsFile) {
				r.List(n, func(_ int, n *node) {
					if need := f.book.readNeed(r, n); need != nil {
						f.Remove = append(f.Remove, need.Name)
					}
				})
			}},
		{Key: "needs", Is: needs, About: "Needs of the world that change: `name`, and the keys that are to be otherwise, such as `priority`, `aggregate` or `requirements`.",
			Read: func(r *reader, n *node, f *editsFile) { r.List(n, func(_ int, n *node) { f.changeNeed(r, n) }) }},
		{Key: "addMachines", Is: document.ListOf(document.ObjectOf("machine", func() []document.Description { return machineSchema.Describe() })), About: "Machines that join, as in the world.",
			Read: func(r *reader, n *node, f *editsFile) { r.List(n, func(_ int, n *node) { f.addMachine(r, n) }) }},
		{Key: "pools", Is: document.ListOf(document.ObjectOf("pool", func() []document.Description { return poolSchema.Describe() })), About: "Machines that join, like some that are there.",
			Read: func(r *reader, n *node, f *editsFile) { r.List(n, func(_ int, n *node) { f.addPool(r, n) }) }},
		{Key: "lose", Is: document.ListOf(document.Is(document.TypeName)), About: "Machines that go, by id.",
			Read: func(r *reader, n *node, f *editsFile) {
				r.List(n, func(_ int, n *node) {
					var id string
					if f.book.readMachine(r, n, &id); id != "" {
						f.Lose = append(f.Lose, id)
					}
				})
			}},
		{Key: "loseWhere", Is: document.ListOf(document.ObjectOf("attribute", func() []document.Description { return attributeSchema.Describe() })), About: "Machines that go, by what they are: a rack, a zone.",
			Read: func(r *reader, n *node, f *editsFile) { r.List(n, func(_ int, n *node) { f.loseWhere(r, n) }) }},
		{Key: "change", Is: document.ListOf(document.ObjectOf("change", func() []document.Description { return changeSchema.Describe() })), About: "What the provider says of machines from now on.",
			Read: func(r *reader, n *node, f *editsFile) {
				r.List(n, func(_ int, n *node) {
					c := changeFile{book: &f.book}
					changeSchema.Read(r, n, &c)
					f.Change = append(f.Change, c.Change)
				})
			}},
		{Key: "changePools", Is: document.ListOf(document.ObjectOf("poolChange", func() []document.Description { return poolChangeSchema.Describe() })), About: "What the provider says of all machines of a kind from now on.",
			Read: func(r *reader, n *node, f *editsFile) { r.List(n, func(_ int, n *node) { f.changePool(r, n) }) }},
		{Key: "weights", Is: document.ObjectOf("weights", func() []document.Description { return weightsSchema.Describe() }), About: "Weights of the victim score.",
			Read: func(r *reader, n *node, f *editsFile) {
				weightsSchema.Read(r, n, &f.weights)
				f.Weights = &f.weights
			}},
	}
}

// ReadEdits reads, in JSON or YAML, what is to change in the world. The error is
// a *Faults when the file is at fault, and what reading it gave otherwise.
func (w *World) ReadEdits(in io.Reader) (*Edits, error) {
	doc, err := load(in)
	if err != nil {
		return nil, err
	}
	r := document.Reader{Of: doc}
	f := w.editsFile()
	editsSchema.Read(&r, &doc.Root, f)
	if err := faultsOf(&r); err != nil {
		return nil, err
	}
	return &f.Edits, nil
}

func (w *World) editsFile() *editsFile {
	return &editsFile{world: w, book: w.book(), now: w.Now, weights: w.Options.Engine.Weights}
}

// Question is one of a batch.
type Question struct {
	Name string
	Edits
}

// QuestionsMax is how many questions a batch may have.
const QuestionsMax = 1000

// batchSchema is a file of several questions about one world.
var batchSchema = document.NewSchema(
	document.Field[batchFile]{Key: "questions", Required: true,
		Is:    document.ListOf(document.ObjectOf("question", func() []document.Description { return questionSchema.Describe() })),
		About: "Each is asked of the world as it is, and not of what those before it make of it.",
		Read: func(r *reader, n *node, f *batchFile) {
			if len(n.Items) > QuestionsMax {
				r.Fault("has %d questions; at most %d are accepted", len(n.Items), QuestionsMax)
				return
			}
			r.List(n, func(i int, n *node) {
				q := f.world.editsFile()
				questionSchema.Read(r, n, q)
				if q.name == "" {
					q.name = fmt.Sprintf("question %d", i+1)
				}
				f.questions = append(f.questions, Question{q.name, q.Edits})
			})
		}},
)

// batchFile is a batch while it is read.
type batchFile struct {
	world     *World
	questions []Question
}

var questionSchema = document.NewSchema(append([]document.Field[editsFile]{{
	Key: "name", Is: document.Is(document.TypeText), Default: "question 1, 2 and so on", About: "What the answer calls it.",
	Read: func(r *reader, n *node, f *editsFile) { r.Plain(n, &f.name) },
}}, editsFields()...)...)

// ReadBatch reads several questions. Errors are those of ReadEdits.
func (w *World) ReadBatch(in io.Reader) ([]Question, error) {
	doc, err := load(in)
	if err != nil {
		return nil, err
	}
	r := document.Reader{Of: doc}
	f := batchFile{world: w}
	batchSchema.Read(&r, &doc.Root, &f)
	if err := faultsOf(&r); err != nil {
		return nil, err
	}
	return f.questions, nil
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
	removed := make(map[string]bool, len(e.Remove))
	for _, name := range e.Remove {
		removed[name] = true
	}
	out.Needs = slices.DeleteFunc(slices.Clone(w.Needs), func(n Need) bool { return removed[n.Name] })
	out.Needs = append(out.Needs, e.Add...)
	changed := make(map[string]*Need, len(e.Needs))
	for i := range e.Needs {
		changed[e.Needs[i].Name] = &e.Needs[i]
	}
	for i := range out.Needs {
		if n := changed[out.Needs[i].Name]; n != nil {
			out.Needs[i] = *n
		}
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
	out.Machines = append(out.Machines, e.Machines...)
	out.Reported = slices.Clone(w.Reported)
	for _, n := range slices.Concat(e.Add, e.Needs) {
		if at, known := slices.BinarySearch(out.Reported, n.Cluster); !known {
			out.Reported = slices.Insert(out.Reported, at, n.Cluster)
		}
	}
	if e.Weights != nil {
		out.Options.Engine.Weights = *e.Weights
	}
	out.indexRows()
	return &out
}

// Join returns the edits with others after them. What both say of one thing, the others say.
func (e *Edits) Join(o *Edits) *Edits {
	out := *e
	changed := make(map[string]bool, len(o.Needs))
	for i := range o.Needs {
		changed[o.Needs[i].Name] = true
	}
	out.Needs = append(slices.DeleteFunc(slices.Clone(e.Needs), func(n Need) bool { return changed[n.Name] }), o.Needs...)
	out.Add = slices.Concat(e.Add, o.Add)
	out.Remove = slices.Concat(e.Remove, o.Remove)
	out.Lose = slices.Concat(e.Lose, o.Lose)
	out.Change = slices.Concat(e.Change, o.Change)
	taken := make(map[string]bool, len(e.Machines))
	for i := range e.Machines {
		taken[e.Machines[i].ID] = true
	}
	out.Machines = slices.Clone(e.Machines)
	for _, m := range o.Machines {
		for n := 2; taken[m.ID]; n++ { // both may have added some of one type
			m.ID = fmt.Sprintf("%s.%d", o.Machines[0].ID, len(out.Machines)+n)
		}
		taken[m.ID] = true
		out.Machines = append(out.Machines, m)
	}
	if o.Weights != nil {
		out.Weights = o.Weights
	}
	return &out
}

// HasMachine tells whether the world has a machine of that id.
func (w *World) HasMachine(id string) bool {
	return slices.ContainsFunc(w.Machines, func(m model.Machine) bool { return m.ID == id })
}

// HasType tells whether some machine of the world is of the instance type.
func (w *World) HasType(name string) bool {
	return slices.ContainsFunc(w.Machines, func(m model.Machine) bool { return m.InstanceType == name })
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
