package main

import (
	"fmt"
	"iter"
	"os"
	"strings"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/workload"
	"github.com/tonnage/tonnage/internal/world"
)

// seedSource is where the machines of a new folder come from.
type seedSource struct {
	file   string
	rung   workload.Rung // of a name, if not empty
	regime workload.Regime
	simple seedFlags
	seed   uint64
}

// parseSeeds settles where machines come from, and returns what is wrong with
// the flags.
func (f *providerFlags) parseSeeds(p *providerPlan, set func(string) bool) (faults []error) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	p.seeds = seedSource{file: f.seedFile, simple: f.simple, seed: f.seed}
	var from []string
	for _, name := range []string{"seed-file", "seed-rung"} {
		if set(name) {
			from = append(from, "--"+name)
		}
	}
	for _, x := range [...]struct {
		flag string
		n    int
	}{{"seed-machines", f.simple.machines}, {"seed-speculative", f.simple.speculative}, {"seed-spot", f.simple.spot}} {
		if x.n < 0 || x.n > providerSeedMax {
			fault("--%s must be between 0 and %d, got %d", x.flag, providerSeedMax, x.n)
		}
		if x.n > 0 && len(from) > 0 {
			fault("--%s and %s exclude each other; give one", x.flag, from[0])
		}
	}
	if len(from) > 1 {
		fault("%s exclude each other; give one", strings.Join(from, " and "))
	}
	if set("seed-start") && f.seedRung == "" {
		fault("--seed-start belongs to a rung; name it with --seed-rung")
	}
	var err error
	if f.seedRung != "" {
		if p.seeds.rung, err = workload.ByName(f.seedRung); err != nil {
			fault("--seed-rung: %w", err)
		}
	}
	if p.seeds.regime, err = workload.ParseRegime(f.seedStart); err != nil || p.seeds.regime != workload.Cold && p.seeds.regime != workload.Steady {
		fault("--seed-start must be cold or steady, got %q", f.seedStart)
	}
	return faults
}

// given tells whether any flag asks for machines.
func (x *seedSource) given() bool {
	return x.file != "" || x.rung.Name != "" || x.simple.machines+x.simple.speculative+x.simple.spot > 0
}

// machines returns the machines of a new folder.
func (x *seedSource) machines(now time.Time) (iter.Seq[*model.Machine], error) {
	switch {
	case x.file != "":
		in, err := os.Open(x.file)
		if err != nil {
			return nil, badInput(fmt.Errorf("--seed-file: %w", err))
		}
		defer in.Close()
		w, err := world.Read(in)
		if err != nil {
			return nil, badInput(fmt.Errorf("--seed-file %s: %w", x.file, err))
		}
		return pointers(w.Machines), nil
	case x.rung.Name != "":
		return func(yield func(*model.Machine) bool) { // built only if the folder is new
			workload.NewLive(workload.Build(x.rung, x.seed), x.regime).Machines(now.UnixNano())(yield)
		}, nil
	}
	return pointers(x.simple.list()), nil
}

func pointers(ms []model.Machine) iter.Seq[*model.Machine] {
	return func(yield func(*model.Machine) bool) {
		for i := range ms {
			if !yield(&ms[i]) {
				return
			}
		}
	}
}
