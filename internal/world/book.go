package world

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/terminal"
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
	added     map[string]bool    // ids of machines that edits add
	asked     map[string]float64 // interruption penalties that were rounded up, by name of the Need
	clusterOf map[string]string  // need name → cluster, over all roll-ups of a run
}

func newBook() book {
	return book{needs: make(map[string]int), machines: make(map[string]int), clusterOf: make(map[string]string), asked: make(map[string]float64), added: make(map[string]bool)}
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

// readPenalty reads a penalty in dollars, or "pinned", into its bucket. It returns the dollars of
// one that was rounded up, else 0.
func readPenalty(r *document.Reader, n *document.Node, into *model.Bucket) (asked float64) {
	switch {
	case n.Kind == document.Text && n.Text == "pinned":
		*into = model.BucketPinned
	case n.Kind == document.Number:
		dollars := -1.0
		r.Float(n, 0, inf, &dollars)
		if dollars >= 0 {
			*into = model.BucketForDollars(dollars)
			if of := into.Dollars(); of != dollars {
				asked = dollars
				if math.IsInf(of, 1) {
					r.Note("$%s is above the largest bucket and counts as pinned", terminal.Amount(dollars))
					return asked
				}
				r.Note("$%s counts as $%s: penalties are rounded up to a power of two", terminal.Amount(dollars), terminal.Amount(of))
			}
		}
	default:
		r.Fault(`must be an amount in dollars or "pinned", got %s`, document.Describe(n))
	}
	return asked
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

// someOf lists some of a set of texts, in order.
func someOf(set map[string]bool) string {
	const most = 8
	all := slices.Sorted(maps.Keys(set))
	quoted := make([]string, 0, most)
	for _, text := range all[:min(len(all), most)] {
		quoted = append(quoted, document.Quote(text))
	}
	out := strings.Join(quoted, ", ")
	if more := len(all) - most; more > 0 {
		out += fmt.Sprintf(" and %d more", more)
	}
	return out
}
