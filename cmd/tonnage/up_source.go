package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tonnage/tonnage/internal/workload"
)

// traceLists are the lists of a trace that can be replayed.
var traceLists = []string{"default", "gpushare40", "gpuspec33", "multigpu20"}

// sourceConfig says where machines and demand come from: a rung or a trace.
type sourceConfig struct {
	seed   uint64
	rung   workload.Rung
	regime workload.Regime

	trace        string // folder; empty = the rung
	list         string
	speed        float64
	arrivalsOnly bool
	clusters     int
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
	c.trace, c.list, c.arrivalsOnly, c.clusters = f.trace, f.traceList, f.arrivalsOnly, f.clusters
	var err error
	if c.speed, err = parseSpeed(f.speed); err != nil {
		return err
	}
	if !slices.Contains(traceLists, c.list) {
		return fmt.Errorf("--trace-list: no list named %q; use one of %s", c.list, strings.Join(traceLists, ", "))
	}
	if c.clusters < 1 || c.clusters > upClustersMax {
		return fmt.Errorf("--clusters must be between 1 and %d, got %d", upClustersMax, c.clusters)
	}
	return nil
}

// title says in a few words what the source is; Describe of the source itself
// says more.
func (c *sourceConfig) title() string {
	if c.trace == "" {
		return fmt.Sprintf("rung %s, %s start, seed %d", c.rung.Name, c.regime, c.seed)
	}
	return fmt.Sprintf("trace %s, list %s, %gx", filepath.Base(c.trace), c.list, c.speed)
}

// open builds the source.
func (c *sourceConfig) open() (workload.Source, error) {
	if c.trace != "" {
		return nil, badInput(fmt.Errorf("--trace %s: traces are not replayed yet; use --rung", c.trace))
	}
	return workload.NewLive(workload.Build(c.rung, c.seed), c.regime), nil
}

// progresser is a source that can say how far it has come.
type progresser interface {
	// Progress says in a few words where in its time the source is.
	Progress() string
}
