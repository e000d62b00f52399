package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tonnage/tonnage/internal/livefleet"
	traces "github.com/tonnage/tonnage/internal/trace"
	"github.com/tonnage/tonnage/internal/workload"
)

// sourceConfig says where machines and demand come from: a rung, a trace, a scenario or a file.
type sourceConfig struct {
	seed   uint64
	rung   workload.Rung
	regime workload.Regime

	trace   string // folder; empty = the rung
	options traces.Options

	scenario string    // name
	file     string    // path of a world, "-" = standard input
	in       io.Reader // standard input
}

func (c *sourceConfig) setRung(name, start string) error {
	var err error
	if c.rung, err = workload.ByName(name); err != nil {
		return fmt.Errorf("--rung: %w", err)
	}
	c.regime, err = workload.ParseRegime(start)
	if err != nil || (c.regime != workload.Cold && c.regime != workload.Steady) {
		return fmt.Errorf("--start must be cold or steady, got %q", start)
	}
	return nil
}

func (c *sourceConfig) setTrace(f *upFlags) error {
	c.trace = f.trace
	c.options = traces.Options{List: f.traceList, ArrivalsOnly: f.arrivalsOnly, Clusters: f.clusters, Seed: f.seed}
	if !slices.Contains(traces.Lists(), f.traceList) {
		return fmt.Errorf("--trace-list: no list named %q; use one of %s", f.traceList, strings.Join(traces.Lists(), ", "))
	}
	if f.clusters < 1 || f.clusters > traces.ClustersMax {
		return fmt.Errorf("--clusters must be between 1 and %d, got %d", traces.ClustersMax, f.clusters)
	}
	var err error
	if c.options.Speed, err = traces.ParseSpeed(f.speed); err != nil {
		return fmt.Errorf("--speed: %w", err)
	}
	if c.options.Offer, err = traces.ParseOffer(f.traceOffer); err != nil {
		return fmt.Errorf("--trace-offer: %w", err)
	}
	return nil
}

// title says in a few words what the source is; Describe of the source itself
// says more.
func (c *sourceConfig) title() string {
	switch {
	case c.scenario != "":
		return fmt.Sprintf("Demo: scenario %s, simulated machines, repeats every %d s", c.scenario, livefleet.Period(c.scenario))
	case c.file != "":
		return "world " + nameOf(c.file)
	case c.trace == "":
		return fmt.Sprintf("rung %s, %s start, seed %d", c.rung.Name, c.regime, c.seed)
	}
	leaving := ""
	if c.options.ArrivalsOnly {
		leaving = ", arrivals only"
	}
	return fmt.Sprintf("trace %s, list %s, %gx%s", filepath.Base(c.trace), c.options.List, c.options.Speed, leaving)
}

// open builds the source.
func (c *sourceConfig) open() (workload.Source, error) {
	switch {
	case c.scenario != "":
		return livefleet.Play(c.scenario)
	case c.file != "":
		f, err := livefleet.OpenFile(c.file, c.in)
		if err != nil {
			return nil, badInput(err)
		}
		return f, nil
	case c.trace == "":
		return workload.NewLive(workload.Build(c.rung, c.seed), c.regime), nil
	}
	t, err := traces.Open(c.trace, c.options)
	if err != nil {
		return nil, badInput(fmt.Errorf("--trace %s: %w", c.trace, err))
	}
	return t, nil
}

// progress says how far a trace is after so long; nothing for a rung, which
// has no end.
func (c *sourceConfig) progress(took time.Duration, done bool) string {
	switch {
	case c.trace == "":
		return ""
	case done:
		return "replayed to its end, the demand stays"
	}
	days := took.Hours() / 24 * c.options.Speed
	return fmt.Sprintf("day %.1f of the trace", days)
}
