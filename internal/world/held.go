package world

import (
	"math"
	"strconv"
	"time"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/internal/world/document"
	"github.com/tonnage/tonnage/shard"
)

// HeldBack is what the rails of a running shard hold back, as its world says. Explain tells of
// it; nothing else does, and no decision depends on it.
type HeldBack struct {
	Disposition shard.Disposition // of decisions
	Reason      string            // why it is not Execute
	Interval    time.Duration     // in which budgets are filled once; 0 = each cycle
	Starting    bool              // the first interval after the start is not over: budgets are empty
	Actions     []HeldAction      // of the last cycle
	More        int               // actions of the last cycle that are not listed
}

// HeldAction is an action that the last cycle of a shard held back.
type HeldAction struct {
	Machine string
	Kind    engine.Kind
	By      shard.HeldBy
	Need    string // that it is for; empty = none
}

var (
	dispositionNames = namesOf(shard.Fenced + 1)
	heldByNames      = namesOf(shard.HeldBy(shard.NumHeldBy))
)

// namesOf names the values of an enumeration that are below a bound.
func namesOf[T interface {
	~uint8
	String() string
}](bound T) (names []string) {
	for v := range bound {
		names = append(names, v.String())
	}
	return names
}

// readEnum reads the name of a value of an enumeration.
func readEnum[T ~uint8](r *reader, n *node, what string, names []string, into *T) {
	readChoice(r, n, what, names, func(text string) bool {
		for i, name := range names {
			if name == text {
				*into = T(i)
				return true
			}
		}
		return false
	})
}

// heldFile is HeldBack while it is read.
type heldFile struct {
	HeldBack
	book *book
}

var heldSchema = document.NewSchema(
	document.Field[heldFile]{Key: "disposition",
		Is: document.WordOf(dispositionNames...), Default: "execute", About: "What becomes of decisions.",
		Read: func(r *reader, n *node, f *heldFile) {
			readEnum(r, n, "disposition", dispositionNames, &f.Disposition)
		}},
	document.Field[heldFile]{Key: "reason",
		Is: document.Is(document.TypeText), About: "Why that is not execute.",
		Read: func(r *reader, n *node, f *heldFile) { r.Text(n, &f.Reason) }},
	document.Field[heldFile]{Key: "interval",
		Is: document.Is(document.TypeDuration), Default: "none", About: "Budgets are filled once in it.",
		Read: func(r *reader, n *node, f *heldFile) { r.Duration(n, math.MaxInt64, &f.Interval) }},
	document.Field[heldFile]{Key: "starting",
		Is: document.Is(document.TypeBool), Default: "false", About: "The first interval after the start is not over: budgets are empty.",
		Read: func(r *reader, n *node, f *heldFile) { r.Bool(n, &f.Starting) }},
	document.Field[heldFile]{Key: "actions",
		Is: document.ListOf(document.ObjectOf("heldAction", func() []document.Description { return heldActionSchema.Describe() })), Default: "none", About: "What the last cycle held back; at most 4,096.",
		Read: func(r *reader, n *node, f *heldFile) {
			if len(n.Items) > shard.HeldActionsMax {
				r.Fault("has %d actions; at most %d are accepted", len(n.Items), shard.HeldActionsMax)
				return
			}
			r.List(n, func(_ int, n *node) {
				a := heldActionFile{book: f.book}
				heldActionSchema.Read(r, n, &a)
				f.Actions = append(f.Actions, a.HeldAction)
			})
		}},
	document.Field[heldFile]{Key: "more",
		Is: document.IntegerOf(0, math.MaxInt32), Default: "0", About: "Further actions of the last cycle.",
		Read: func(r *reader, n *node, f *heldFile) { readInt(r, n, 0, math.MaxInt32, &f.More) }},
)

// heldActionFile is HeldAction while it is read.
type heldActionFile struct {
	HeldAction
	book *book
}

var heldActionSchema = document.NewSchema(
	document.Field[heldActionFile]{Key: "machine", Required: true,
		Is: document.Is(document.TypeName), About: "A machine of the file, by id.",
		Read: func(r *reader, n *node, f *heldActionFile) {
			f.book.readMachine(r, n, &f.Machine)
		}},
	document.Field[heldActionFile]{Key: "kind", Required: true,
		Is: document.WordOf(kindNames...), About: "What was to be done.",
		Read: func(r *reader, n *node, f *heldActionFile) {
			readEnum(r, n, "kind", kindNames, &f.Kind)
		}},
	document.Field[heldActionFile]{Key: "by", Required: true,
		Is: document.WordOf(heldByNames...), About: "Which rail held it.",
		Read: func(r *reader, n *node, f *heldActionFile) {
			readEnum(r, n, "rail", heldByNames, &f.By)
		}},
	document.Field[heldActionFile]{Key: "need",
		Is: document.Is(document.TypeText), Default: "none", About: "The need that it is for.",
		Read: func(r *reader, n *node, f *heldActionFile) {
			if need := f.book.readNeed(r, n); need != nil {
				f.Need = need.Name
			}
		}},
)

// readHeld reads what the rails of a shard hold back.
func readHeld(r *reader, n *node, b *book) *HeldBack {
	f := heldFile{book: b}
	heldSchema.Read(r, n, &f)
	return &f.HeldBack
}

// held writes what the rails of a shard hold back; nothing when that is nothing.
func (x *inputWriter) held(h *HeldBack) {
	if h == nil {
		return
	}
	j := &x.j
	j.line(" ")
	j.key("heldBack")
	j.open('{')
	if h.Disposition != shard.Execute {
		j.word("disposition", h.Disposition.String())
		j.word("reason", h.Reason)
	}
	if h.Interval > 0 {
		j.word("interval", h.Interval.String())
	}
	j.flag("starting", h.Starting)
	x.integer("more", int64(h.More))
	j.key("actions")
	j.open('[')
	for i := range h.Actions {
		a := &h.Actions[i]
		j.line("  ")
		j.open('{')
		j.word("machine", a.Machine)
		j.word("kind", a.Kind.String())
		j.word("by", a.By.String())
		j.word("need", a.Need)
		j.close('}')
		x.flush()
	}
	j.close(']')
	j.close('}')
}

// nameOfRow names a row of the demand of a cluster.
func nameOfRow(cluster string, row int) string { return cluster + "/" + strconv.Itoa(row) }
