package world

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
	"github.com/tonnage/tonnage/internal/sim"
	"github.com/tonnage/tonnage/internal/world/document"
)

// World is what `decide` decides about.
type World struct {
	Now      int64 // Unix nanoseconds
	Machines []model.Machine
	Needs    []Need
	// Reported are the clusters that have reported, sorted.
	Reported []string
	Options  Options
	// HeldBack is what the rails of the shard hold back that the world is of; nil = nothing, or
	// the world is of no shard.
	HeldBack *HeldBack
	// Hints are what the file says that is allowed and worth a look; HintsMore counts those that
	// are not listed.
	Hints     []Hint
	HintsMore int

	rows map[string][]int // cluster → its Needs, by row, as indexes of Needs
	// asked are interruption penalties, by name of the Need, that the file writes otherwise than
	// they count: in dollars.
	asked map[string]float64
}

// Hint is something in a file that is allowed, and worth a look.
type Hint = document.Hint

// Need is a row of demand and the name that outputs give it.
type Need = sim.Need

// Options are the settings that a file may carry.
type Options struct {
	Engine engine.Options
	// ReclaimCapFraction is the share of a cluster's Configured machines that
	// may be reclaimed in one cycle; 0 = no limit. ReclaimCapSet tells whether
	// the file says so itself.
	ReclaimCapFraction float64
	ReclaimCapSet      bool
	// DrainSeconds are drain times by instance type, for decide; simulate takes
	// the default for every machine.
	DrainSeconds map[string]float64
}

// Faults is everything that is wrong with a file, as one error.
type Faults struct {
	// File is the name of the file that faults are in, for messages; empty = they name none.
	File string
	List []document.Fault
	More int // faults beyond those listed
}

// Error returns one fault a line, and how many more there are.
func (f *Faults) Error() string {
	var b strings.Builder
	for i := range f.List {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(f.List[i].In(f.File))
	}
	if f.More > 0 {
		fmt.Fprintf(&b, "\n... and %d more", f.More)
	}
	return b.String()
}

// faultsOf returns the reader's faults as an error, nil when there are none.
func faultsOf(r *document.Reader) error {
	list, more := r.Faults()
	if len(list) == 0 {
		return nil
	}
	return &Faults{List: list, More: more}
}

// Read reads a world in JSON or YAML. The error is a *Faults when the file is
// at fault, and what reading it gave otherwise.
func Read(r io.Reader) (*World, error) {
	doc, err := load(r)
	if err != nil {
		return nil, err
	}
	reader := document.Reader{Of: doc}
	w, _ := readWorld(&reader, &doc.Root)
	if err := faultsOf(&reader); err != nil {
		return nil, err
	}
	w.Hints, w.HintsMore = reader.Hints()
	return w, nil
}

func load(r io.Reader) (*document.Document, error) {
	doc, fault, err := document.LoadLarge(r)
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot read the input: %w", err)
	case fault != nil:
		return nil, &Faults{List: []document.Fault{*fault}}
	}
	return doc, nil
}

// worldFile is a world while it is read.
type worldFile struct {
	World
	book         book
	reportedRead bool
}

var worldSchema = document.NewSchema(
	document.Field[worldFile]{Key: "now",
		Is: document.Is(document.TypeTime), Default: "1970-01-01T00:00:00Z", About: "The time of the decision; never the clock of the machine.",
		Read: func(r *document.Reader, n *document.Node, w *worldFile) {
			r.Time(n, &w.Now)
		}},
	document.Field[worldFile]{Key: "needs",
		Is: document.ListOf(document.ObjectOf("need", func() []document.Description { return needSchema.Describe() })), Default: "none", About: "The demand. Of needs of one cluster that agree in rank, the first of the file goes first.",
		Read: func(r *document.Reader, n *document.Node, w *worldFile) {
			w.Needs = w.book.readNeeds(r, n, w.Now, "")
		}},
	document.Field[worldFile]{Key: "machines",
		Is: document.ListOf(document.ObjectOf("machine", func() []document.Description { return machineSchema.Describe() })), Default: "none", About: "The supply: what is there, what is bound, and what could be bought.",
		Read: func(r *document.Reader, n *document.Node, w *worldFile) {
			w.Machines = w.book.readMachines(r, n, w.Now)
		}},
	document.Field[worldFile]{Key: "reported",
		Is: document.ListOf(document.Is(document.TypeName)), Default: "every cluster that the file names", About: "Clusters that have reported their demand; nothing is reclaimed of others.",
		Read: func(r *document.Reader, n *document.Node, w *worldFile) {
			w.reportedRead = true
			r.Names(n, &w.Reported)
		}},
	document.Field[worldFile]{Key: "options",
		Is: document.ObjectOf("options", func() []document.Description { return optionsSchema.Describe() }), About: "Settings of the engine.",
		Read: func(r *document.Reader, n *document.Node, w *worldFile) {
			optionsSchema.Read(r, n, &w.Options)
		}},
	document.Field[worldFile]{Key: "heldBack",
		Is: document.ObjectOf("heldBack", func() []document.Description { return heldSchema.Describe() }), Default: "none", About: "What the rails of a shard hold back, in the world that a running shard serves. `explain` shows it; decisions ignore it.",
		Read: func(r *document.Reader, n *document.Node, w *worldFile) {
			w.HeldBack = readHeld(r, n, &w.book)
		}},
)

// readWorld reads a world from the current place of the reader. The book holds
// what the rest of a file may refer to.
func readWorld(r *document.Reader, n *document.Node) (*World, book) {
	f := worldFile{book: newBook(), World: World{Options: defaultOptions()}}
	worldSchema.Read(r, n, &f)
	w := &f.World
	w.asked = f.book.asked
	if !f.reportedRead {
		w.Reported = clustersOf(w)
	}
	slices.Sort(w.Reported)
	w.indexRows()
	return w, f.book
}

// indexRows notes which Needs are the rows of each cluster.
func (w *World) indexRows() {
	w.rows = make(map[string][]int)
	for i := range w.Needs {
		w.rows[w.Needs[i].Cluster] = append(w.rows[w.Needs[i].Cluster], i)
	}
}

// clustersOf returns every cluster that the world names.
func clustersOf(w *World) []string {
	seen := make(map[string]bool)
	var out []string
	add := func(cluster string) {
		if cluster != "" && !seen[cluster] {
			seen[cluster] = true
			out = append(out, cluster)
		}
	}
	for i := range w.Needs {
		add(w.Needs[i].Cluster)
	}
	for i := range w.Machines {
		add(w.Machines[i].Cluster)
	}
	return out
}

// Tables returns the world as the engine takes it: supply, and each cluster's
// Needs in the order of the file.
func (w *World) Tables() (*supply.Table, *demand.Table, error) { return w.TablesInParts(func() {}) }

// TablesInParts is Tables in parts of about a thousand machines or Needs. It calls next before each.
func (w *World) TablesInParts(next func()) (*supply.Table, *demand.Table, error) {
	s, d := supply.New(), demand.New()
	for i := range w.Machines {
		if i%partRows == 0 {
			next()
		}
		if err := s.Put(&w.Machines[i]); err != nil {
			return nil, nil, fmt.Errorf("machines[%d]: %w", i, err)
		}
	}
	rows := partRows
	for _, roll := range w.rollups() {
		if rows >= partRows {
			next()
			rows = 0
		}
		rows += len(roll.Needs) + 1
		needs := make([]model.Need, len(roll.Needs))
		for i := range roll.Needs {
			needs[i] = roll.Needs[i].Need
		}
		// Rows of a cluster that is not listed as reported count all the same.
		if err := d.Load(roll.Cluster, needs); err != nil {
			return nil, nil, err
		}
	}
	for _, cluster := range w.Reported {
		d.MarkReported(cluster)
	}
	return s, d, nil
}
