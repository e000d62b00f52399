// Package worldtest decides about worlds that tests write down.
package worldtest

import (
	"strings"
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/internal/world"
)

// Decide reads a world, as `tonnage decide` does, and returns the tables and the
// plan of one cycle of an engine with the world's options, which is closed when the
// test ends.
func Decide(tb testing.TB, text string) (engine.Input, *engine.Plan) {
	tb.Helper()
	w, err := world.Read(strings.NewReader(text))
	if err != nil {
		tb.Fatal(err)
	}
	s, d, err := w.Tables()
	if err != nil {
		tb.Fatal(err)
	}
	e, err := engine.New(w.Options.Engine)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(e.Close)
	in := engine.Input{Supply: s, Demand: d, Now: w.Now}
	plan, err := e.Cycle(in)
	if err != nil {
		tb.Fatal(err)
	}
	return in, plan
}
