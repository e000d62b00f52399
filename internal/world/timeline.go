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
	document.Field[eventFile]{Key: "at", Required: true, Read: func(r *reader, n *node, e *eventFile) {
		readInt(r, n, 1, CyclesMax, &e.At)
		if last := e.run.Cycles; last > 0 && e.At > last {
			r.Fault("is after the last cycle, %d", last)
		}
	}},
	document.Field[eventFile]{Key: "replace", Read: func(r *reader, n *node, e *eventFile) {
		f := rollupFile{run: e.run}
		rollupSchema.Read(r, n, &f)
		e.Replace = &f.Rollup
	}},
	document.Field[eventFile]{Key: "lose", Read: func(r *reader, n *node, e *eventFile) {
		r.List(n, func(_ int, n *node) {
			var id string
			e.run.book.readMachine(r, n, &id)
			e.Lose = append(e.Lose, id)
		})
	}},
	document.Field[eventFile]{Key: "restart", Read: func(r *reader, n *node, e *eventFile) { r.Bool(n, &e.Restart) }},
	document.Field[eventFile]{Key: "resend", Read: func(r *reader, n *node, e *eventFile) { r.Bool(n, &e.Resend) }},
	document.Field[eventFile]{Key: "pause", Read: func(r *reader, n *node, e *eventFile) {
		e.Pause = new(bool)
		r.Bool(n, e.Pause)
	}},
	document.Field[eventFile]{Key: "change", Read: func(r *reader, n *node, e *eventFile) {
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
	document.Field[rollupFile]{Key: "cluster", Required: true, Read: func(r *reader, n *node, f *rollupFile) { r.Name(n, &f.Cluster) }},
	document.Field[rollupFile]{Key: "needs", Required: true, Read: func(r *reader, n *node, f *rollupFile) {
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
	document.Field[changeFile]{Key: "machine", Required: true, Read: func(r *reader, n *node, f *changeFile) { f.book.readMachine(r, n, &f.Machine) }},
	document.Field[changeFile]{Key: "pricePerHour", Read: func(r *reader, n *node, f *changeFile) {
		f.PricePerHour = new(float64)
		r.Float(n, 0, inf, f.PricePerHour)
	}},
	document.Field[changeFile]{Key: "interruptionProbability", Read: func(r *reader, n *node, f *changeFile) {
		f.InterruptionProbability = new(float64)
		r.Float(n, 0, 1, f.InterruptionProbability)
	}},
	document.Field[changeFile]{Key: "labels", Read: func(r *reader, n *node, f *changeFile) { readLabels(r, n, &f.Labels) }},
	document.Field[changeFile]{Key: "allocatable", Read: func(r *reader, n *node, f *changeFile) {
		f.Allocatable = new(model.Resources)
		r.Resources(n, f.Allocatable)
	}},
)
