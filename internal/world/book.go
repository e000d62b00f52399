package world

import (
	"fmt"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/world/document"
)

// book is what one part of a file may refer to in another: Needs by name and
// machines by id.
type book struct {
	needs     map[string]int // index of list
	list      []Need
	names     []string // of the Needs, in the order of the file
	machines  map[string]int
	ids       []string
	clusterOf map[string]string // need name → cluster, over all roll-ups of a run
}

func newBook() book {
	return book{needs: make(map[string]int), machines: make(map[string]int), clusterOf: make(map[string]string)}
}

// unknown is the message for a name that the file does not define.
func unknown(what, name string, names []string) string {
	if near := document.Nearest(name, names[:min(len(names), hintNamesMax)]); near != "" {
		return fmt.Sprintf("no %s is named %s; did you mean %s?", what, document.Quote(name), document.Quote(near))
	}
	return fmt.Sprintf("no %s is named %s", what, document.Quote(name))
}

// readNeed reads the name of a Need of the file. A Need that is itself at
// fault is found, but has no profile.
func (b *book) readNeed(r *document.Reader, n *document.Node) *Need {
	var name string
	if readNeedName(r, n, &name); name == "" {
		return nil
	}
	i, ok := b.needs[name]
	if !ok {
		r.Fault("%s", unknown("need", name, b.names))
		return nil
	}
	return &b.list[i]
}

// readMachine reads the id of a machine of the file.
func (b *book) readMachine(r *document.Reader, n *document.Node, into *string) {
	var id string
	if r.Name(n, &id); id == "" {
		return
	}
	if _, ok := b.machines[id]; !ok {
		r.Fault("%s", unknown("machine", id, b.ids))
		return
	}
	*into = id
}

// readPenalty reads a penalty in dollars, or "pinned", into its bucket.
func readPenalty(r *document.Reader, n *document.Node, into *model.Bucket) {
	switch {
	case n.Kind == document.Text && n.Text == "pinned":
		*into = model.BucketPinned
	case n.Kind == document.Number:
		dollars := -1.0
		r.Float(n, 0, inf, &dollars)
		if dollars >= 0 {
			*into = model.BucketForDollars(dollars)
		}
	default:
		r.Fault(`must be an amount in dollars or "pinned", got %s`, document.Describe(n))
	}
}

// readLabels reads a map of texts.
func readLabels(r *document.Reader, n *document.Node, into *map[string]string) {
	labels := make(map[string]string, len(n.Items))
	r.Map(n, func(key string, v *document.Node) {
		var text string
		r.Plain(v, &text)
		labels[key] = text
	})
	*into = labels
}
