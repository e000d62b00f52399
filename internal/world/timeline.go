package world

import (
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/sim"
	"github.com/tonnage/tonnage/internal/world/document"
)

// eventFile is an event of the timeline while it is read.
type eventFile struct {
	sim.Event
	run *runFile
}

var eventSchema = document.NewSchema(
	document.Field[eventFile]{Key: "at", Required: true,
		Is: document.IntegerOf(1, CyclesMax), About: "It happens before this cycle decides.",
		Read: func(r *reader, n *node, e *eventFile) {
			readInt(r, n, 1, CyclesMax, &e.At)
			if last := e.run.Cycles; last > 0 && e.At > last {
				r.Fault("is after the last cycle, %d", last)
			}
		}},
	document.Field[eventFile]{Key: "replace",
		Is: document.ObjectOf("rollup", func() []document.Description { return rollupSchema.Describe() }), About: "A roll-up, sent once: the whole demand of a cluster.",
		Read: func(r *reader, n *node, e *eventFile) {
			f := rollupFile{run: e.run}
			rollupSchema.Read(r, n, &f)
			e.Replace = &f.Rollup
		}},
	document.Field[eventFile]{Key: "lose",
		Is: document.ListOf(document.Is(document.TypeName)), About: "Machines that the provider lists no more.",
		Read: func(r *reader, n *node, e *eventFile) {
			r.List(n, func(_ int, n *node) {
				var id string
				e.run.book.readMachine(r, n, &id)
				e.Lose = append(e.Lose, id)
			})
		}},
	document.Field[eventFile]{Key: "restart",
		Is: document.Is(document.TypeBool), Default: "false", About: "The shard loses its memory, and knows no demand of a cluster until its next `replace`.",
		Read: func(r *reader, n *node, e *eventFile) { r.Bool(n, &e.Restart) }},
	document.Field[eventFile]{Key: "resend",
		Is: document.Is(document.TypeBool), Default: "false", About: "Beside `restart`: the last roll-up of each cluster is sent again in the cycle after.",
		Read: func(r *reader, n *node, e *eventFile) { r.Bool(n, &e.Resend) }},
	document.Field[eventFile]{Key: "pause",
		Is: document.Is(document.TypeBool), About: "Stop or go on carrying things out.",
		Read: func(r *reader, n *node, e *eventFile) {
			e.Pause = new(bool)
			r.Bool(n, e.Pause)
		}},
	document.Field[eventFile]{Key: "change",
		Is: document.ObjectOf("change", func() []document.Description { return changeSchema.Describe() }), About: "What the provider says of a machine from now on.",
		Read: func(r *reader, n *node, e *eventFile) {
			f := changeFile{book: &e.run.book}
			changeSchema.Read(r, n, &f)
			e.Change = &f.Change
		}},
)

func (f *runFile) readEvent(r *reader, n *node) {
	e := eventFile{run: f}
	eventSchema.Read(r, n, &e)
	if n.Kind != document.Object {
		return
	}
	switch {
	case e.Resend && !e.Restart:
		r.FaultKey("resend", "stands beside restart only")
	case e.Replace == nil && e.Lose == nil && !e.Restart && e.Pause == nil && e.Change == nil && len(n.Items) <= 1:
		r.Fault("nothing happens here; give one of replace, lose, restart, pause, change")
	}
	f.Timeline = append(f.Timeline, e.Event)
}

// rollupFile is a roll-up of the timeline while it is read.
type rollupFile struct {
	sim.Rollup
	run *runFile
}

var rollupSchema = document.NewSchema(
	document.Field[rollupFile]{Key: "cluster", Required: true,
		Is: document.Is(document.TypeName), About: "Whose demand it is.",
		Read: func(r *reader, n *node, f *rollupFile) { r.Name(n, &f.Cluster) }},
	document.Field[rollupFile]{Key: "needs", Required: true,
		Is: document.ListOf(document.ObjectOf("need", func() []document.Description { return needSchema.Describe() })), About: "All of it; needs may leave their cluster out.",
		Read: func(r *reader, n *node, f *rollupFile) {
			if f.Cluster == "" {
				return // a fault already, and every Need would repeat it
			}
			f.Needs = f.run.book.readNeeds(r, n, f.run.world.Now, f.Cluster)
		}},
)

// changeFile is a change of a machine while it is read.
type changeFile struct {
	sim.Change
	book *book
}

var changeSchema = document.NewSchema(
	document.Field[changeFile]{Key: "machine", Required: true,
		Is: document.Is(document.TypeName), About: "By id.",
		Read: func(r *reader, n *node, f *changeFile) { f.book.readMachine(r, n, &f.Machine) }},
	document.Field[changeFile]{Key: "pricePerHour",
		Is: document.NumberOf(0, inf), Default: "as it is", About: "Dollars an hour.",
		Read: func(r *reader, n *node, f *changeFile) {
			f.PricePerHour = new(float64)
			r.Float(n, 0, inf, f.PricePerHour)
		}},
	document.Field[changeFile]{Key: "interruptionProbability",
		Is: document.NumberOf(0, 1), Default: "as it is", About: "Per hour.",
		Read: func(r *reader, n *node, f *changeFile) {
			f.InterruptionProbability = new(float64)
			r.Float(n, 0, 1, f.InterruptionProbability)
		}},
	document.Field[changeFile]{Key: "labels",
		Is: document.Is(document.TypeTexts), Default: "as they are", About: "Replace all labels.",
		Read: func(r *reader, n *node, f *changeFile) { readLabels(r, n, &f.Labels) }},
	document.Field[changeFile]{Key: "allocatable",
		Is: document.Is(document.TypeQuantities), Default: "as it is", About: "What it offers.",
		Read: func(r *reader, n *node, f *changeFile) {
			f.Allocatable = new(model.Resources)
			r.Resources(n, f.Allocatable)
		}},
)
