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
	// VerifyCyclesMax is how many cycles of a run are compared where each
	// decides on something else. They are evenly spaced, the first among them.
	VerifyCyclesMax = 8
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

// verifier compares plans of measured cycles.
type verifier struct {
	with  string
	opts  engine.Options
	every int // measured cycles; 0 = only the first few
	first int
	took  []int64 // nanoseconds that the other way took, of each cycle compared
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
		v.first = inputs // the others have their plan
	} else {
		v.every = (cfg.Cycles + VerifyCyclesMax - 1) / VerifyCyclesMax
	}
	return v
}

// check compares the plan of a measured cycle, from 0, when it is due. The
// tables must be in the state that the plan was made from.
func (v *verifier) check(at int, in engine.Input, plan *engine.Plan) error {
	if v.with == VerifiedNone || at >= v.first && (v.every == 0 || at%v.every != 0) {
		return nil
	}
	text, took, err := v.difference(in, plan)
	if err != nil {
		return err
	}
	if text != "" {
		return &Difference{Cycle: at + 1, With: v.with, Text: text}
	}
	v.took = append(v.took, took.Nanoseconds())
	return nil
}

// difference is the first one, and how long the other way took to decide.
func (v *verifier) difference(in engine.Input, plan *engine.Plan) (text string, took time.Duration, err error) {
	if v.with == VerifiedReference {
		text, took = twin.CheckTimed(in, v.opts, plan)
		return text, took, nil
	}
	opts := v.opts
	opts.Workers, opts.Pin, opts.Full, opts.Acquire = 1, nil, true, engine.AcquireInOrder
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
