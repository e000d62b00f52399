package measure

import (
	"fmt"
	"time"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/internal/twin"
)

// What plans were compared with.
const (
	VerifiedNone       = "none"
	VerifiedReference  = "reference"
	VerifiedSequential = "sequential"
)

const (
	// ReferenceMachinesMax is up to how many machines the reference is asked:
	// it takes seconds for so many, and grows with their square.
	ReferenceMachinesMax = 30_000
	// ReferenceCyclesMax is how many cycles of a run the reference is asked for where
	// each decides on something else: evenly spaced, the first among them. The others
	// are compared with the plan of one worker that builds on nothing.
	ReferenceCyclesMax = 8
)

// Difference is a plan that is not what it must be.
type Difference struct {
	Cycle int    // measured cycle, from 1
	With  string // what it was compared with
	Text  string // the first difference
}

func (d *Difference) Error() string {
	return fmt.Sprintf("cycle %d: the plan differs from that of %s: %s", d.Cycle, d.With, d.Text)
}

// verifier compares plans of measured cycles: of all of them, but of those that decide
// on what another one has decided on only the first; they have its plan.
type verifier struct {
	with     string
	opts     engine.Options
	every    int     // the reference is asked every so many cycles
	first    int     // only so many cycles differ in what they decide on; 0 = all
	compared int     // cycles
	took     []int64 // nanoseconds that the reference took, or who stands in for it
}

// newVerifier settles what is compared, and how often.
func newVerifier(cfg *Config, c course) *verifier {
	v := &verifier{with: VerifiedNone, opts: cfg.options()}
	switch {
	case !cfg.Verify:
		return v
	case cfg.Rung.Machines() <= ReferenceMachinesMax:
		v.with = VerifiedReference
	default:
		v.with = VerifiedSequential
	}
	if same, inputs := c.repeats(); same {
		v.first = inputs
	} else {
		v.every = (cfg.Cycles + ReferenceCyclesMax - 1) / ReferenceCyclesMax
	}
	return v
}

// check compares the plan of a measured cycle, from 0. The tables must be in the state
// that the plan was made from.
func (v *verifier) check(at int, in engine.Input, plan *engine.Plan) error {
	if v.with == VerifiedNone || v.first > 0 && at >= v.first {
		return nil
	}
	with := v.with
	if v.every > 1 && at%v.every != 0 {
		with = VerifiedSequential
	}
	text, took, err := v.difference(with, in, plan)
	if err != nil {
		return err
	}
	if text != "" {
		return &Difference{Cycle: at + 1, With: with, Text: text}
	}
	if v.compared++; with == v.with {
		v.took = append(v.took, took.Nanoseconds())
	}
	return nil
}

// difference is the first one, and how long the other way took to decide.
func (v *verifier) difference(with string, in engine.Input, plan *engine.Plan) (text string, took time.Duration, err error) {
	if with == VerifiedReference {
		text, took = twin.Check(in, v.opts, plan)
		return text, took, nil
	}
	opts := v.opts
	opts.Workers, opts.Pin, opts.Full = 1, nil, true
	e, err := engine.New(opts)
	if err != nil {
		return "", 0, err
	}
	defer e.Close()
	began := time.Now()
	want, err := e.Cycle(in)
	if err != nil {
		return "", 0, err
	}
	took = time.Since(began)
	if got, want := Checksum(plan, in.Supply), Checksum(want, in.Supply); got != want {
		text = fmt.Sprintf("checksum %016x, want %016x", got, want)
	}
	return text, took, nil
}
