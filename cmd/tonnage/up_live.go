package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/livefleet"
	"github.com/tonnage/tonnage/internal/world"
)

// scenarioList is the name that lists the scenarios, as --list does.
const scenarioList = "list"

// liveSource is what scenarios and files do beside what every source does.
type liveSource interface {
	Move(now int64, fleet livefleet.Fleet) (said []string)
	Options() engine.Options
	Name(cluster string, n *model.Need) string
	Trials() []livefleet.Trial
}

// oneSource refuses flags of two sources.
func (f *upFlags) oneSource(set func(string) bool) error {
	sources := [...]struct {
		flag  string
		given bool
	}{{"scenario", f.scenario != ""}, {"file", f.file != ""}, {"trace", f.trace != ""}, {"rung", set("rung")}, {"start", set("start")}}
	first := ""
	for _, x := range sources {
		switch {
		case !x.given || x.flag == "start" && first == "rung":
		case first == "":
			first = x.flag
		default:
			return fmt.Errorf("--%s and --%s exclude each other; give one", x.flag, first)
		}
	}
	return nil
}

// setLive takes a scenario or a file.
func (c *sourceConfig) setLive(f *upFlags) error {
	if f.shards > 1 {
		return errors.New("--shards is for rungs and traces; a scenario and a file run on one shard")
	}
	if f.scenario != "" {
		if _, err := livefleet.Play(f.scenario); err != nil {
			return fmt.Errorf("--scenario: %w; use one of %s", err, strings.Join(livefleet.ScenarioNames(), ", "))
		}
	}
	c.scenario, c.file = f.scenario, f.file
	return nil
}

// listScenarios says which scenarios there are.
func listScenarios(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for name, about := range livefleet.Scenarios() {
		fmt.Fprintf(w, "%s\t%s\n", name, about)
	}
	return w.Flush()
}

// live returns the source when it is a scenario or a file.
func (x *process) live() (liveSource, bool) {
	l, ok := x.source.(liveSource)
	return l, ok
}

// takeOptions takes over the engine's settings of a scenario or a file. An edit may remove most of the
// demand on purpose, so no roll-up is quarantined.
func (x *process) takeOptions() {
	l, ok := x.live()
	if !ok {
		return
	}
	cfg := &x.plan.shard
	flags := cfg.Engine
	cfg.Engine = l.Options()
	if flags.Workers != 0 {
		cfg.Engine.Workers = flags.Workers
	}
	cfg.Quarantine = false
	f, ok := l.(*livefleet.File)
	// A file says how it acquires, as for decide, unless the flags are given.
	if !ok || x.plan.acquireSet {
		cfg.Engine.Acquire, cfg.Engine.Fit = flags.Acquire, flags.Fit
	}
	if !ok || x.plan.shareSet {
		cfg.Engine.MaxMachineShare = flags.MaxMachineShare
	}
	if ok && f.World().Options.ReclaimCapSet {
		cfg.ReclaimCapFraction = f.World().Options.ReclaimCapFraction
	}
}

// names names Needs as a scenario or a file does; nil = by cluster and row.
func (x *process) names() world.Names {
	if l, ok := x.live(); ok {
		return l.Name
	}
	return nil
}

// moveMachines does what a scenario or an edit of a file does to machines, and says so.
func (x *process) moveMachines(now int64) {
	l, ok := x.live()
	if !ok {
		return
	}
	for _, line := range l.Move(now, x.fleet) {
		x.console.print("%s", line)
	}
}

// trials lists three things to try, as lines.
func (x *process) trials(address string) []string {
	list := []livefleet.Trial{{Command: "top", Shows: "the page, in a terminal"}}
	if l, ok := x.live(); ok {
		list = append(l.Trials(), list...)
	} else if clusters := x.source.Clusters(); len(clusters) > 0 {
		need := clusters[0] + "/0"
		list = append([]livefleet.Trial{
			{Command: "explain need", Args: need, Shows: "why a need is satisfied or not"},
			{Command: "what-if", Args: "--remove " + need, Shows: "what would be done without it"},
		}, list...)
	}
	list = list[:min(len(list), trialsMax)]
	width := 0
	commands := make([]string, len(list))
	for i := range list {
		commands[i] = strings.TrimRight(fmt.Sprintf("%s %s --shard %s %s", programName(), list[i].Command, address, list[i].Args), " ")
		width = max(width, len(commands[i]))
	}
	out := []string{"Try, in another terminal:"}
	for i := range list {
		out = append(out, fmt.Sprintf("  %-*s  # %s", width, commands[i], list[i].Shows))
	}
	return out
}

// trialsMax is how many things to try are listed.
const trialsMax = 3

// programName is how this program was called, as far as that is its name.
func programName() string {
	if len(os.Args) > 0 && filepath.Base(os.Args[0]) == "tonnage" {
		return os.Args[0]
	}
	return "tonnage"
}
