package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// countsDefault is how many figures each side has; fewer than 10 find too
	// little.
	countsDefault = 10
	// slicesPerCount is of how many measurements a figure is the mean. They are
	// spread over the whole time, so that all figures see the same weather.
	slicesPerCount = 16
	// slicesPerProcess is how many of them come from one process. Where memory
	// lies differs from process to process, and moves figures by a few percent.
	slicesPerProcess = 2
	// confirmations is how often what seems slower is measured again, and must
	// come out slower each time.
	confirmations = 2
)

// compareGate runs base and head in turn.
type compareGate struct {
	root   string
	out    io.Writer
	base   string // revision, empty = choose
	counts int
}

func (g *compareGate) run(ctx context.Context) error {
	build := func(t tree, to string) (side, error) {
		s := side{name: t.name(), dir: filepath.Join(t.dir, "benches"), binary: filepath.Join(workDir(g.root), to)}
		_, err := output(ctx, t.dir, nil, "go", "test", "-c", "-o", s.binary, "./benches")
		return s, err
	}
	head, err := build(tree{dir: g.root}, "head.test")
	if err != nil {
		return err
	}
	var before side
	base, err := baseTree(ctx, g.root, g.base, func(t tree) (err error) {
		before, err = build(t, "base.test")
		return err
	})
	if errors.Is(err, errNoBase) {
		fmt.Fprintf(g.out, "NOT COMPARED: %v\n", err)
		return nil
	}
	if err != nil {
		return err
	}
	slower, err := accepted(ctx, g.root, base.revision)
	if err != nil {
		return err
	}
	names, err := inCommon(ctx, before, head)
	if err != nil {
		return err
	}
	return g.judge(ctx, before, head, names, slower)
}

// judge compares the named work, and what seems slower confirmations times more.
func (g *compareGate) judge(ctx context.Context, base, head side, names []string, slower map[string]string) error {
	sides := [2]side{base, head}
	fmt.Fprintf(g.out, "%s (base) against %s (head), processor time, %d figures each:\n", base.name, head.name, g.counts)
	first, err := g.measure(ctx, sides, names)
	if err != nil {
		return err
	}
	suspects := g.print(first, slower)
	if len(suspects) == 0 {
		return nil
	}
	for range confirmations {
		fmt.Fprintf(g.out, "once more, for what seems slower:\n")
		again, err := g.measure(ctx, sides, suspects)
		if err != nil {
			return err
		}
		if suspects = g.print(again, slower); len(suspects) == 0 {
			fmt.Fprintln(g.out, "not confirmed")
			return nil
		}
	}
	fmt.Fprintf(g.out, "if it is meant, say so in the commit: %q\n", slowerTrailer+": "+suspects[0]+", the reason")
	return fmt.Errorf("%s: %w", strings.Join(suspects, ", "), errWorse)
}

// pairs are the figures of both sides by name.
type pairs map[string]*[2][]float64

// slicesTaken are measurements by name, side and figure.
type slicesTaken map[string]*[2][][]float64

// measure lets both sides do the named work in turn. A figure is the mean of its
// measurements: a machine that is shared has two speeds or more, and the median
// would jump from one to the other.
func (g *compareGate) measure(ctx context.Context, sides [2]side, names []string) (pairs, error) {
	taken := slicesTaken{}
	for _, name := range names {
		taken[name] = &[2][][]float64{make([][]float64, g.counts), make([][]float64, g.counts)}
	}
	for done := 0; done < slicesPerCount; done += slicesPerProcess {
		if err := g.epoch(ctx, sides, names, taken); err != nil {
			return nil, err
		}
	}
	out := pairs{}
	for name, of := range taken {
		out[name] = &[2][]float64{}
		for which := range of {
			for _, costs := range of[which] {
				out[name][which] = append(out[name][which], mean(costs))
			}
		}
	}
	return out, nil
}

// epoch starts a process of each side, adds slicesPerProcess measurements to
// every figure, and ends them.
func (g *compareGate) epoch(ctx context.Context, sides [2]side, names []string, taken slicesTaken) (err error) {
	var servers [2]*server
	for which := range sides {
		s, startErr := sides[which].serve(ctx)
		if startErr != nil {
			return startErr
		}
		defer func() { err = errors.Join(err, s.end()) }()
		servers[which] = s
	}
	at := 0
	for range slicesPerProcess {
		for count := range g.counts {
			for _, name := range names {
				for range 2 {
					which := turn(at)
					at++
					cost, err := servers[which].ask(name)
					if err != nil {
						return err
					}
					taken[name][which][count] = append(taken[name][which][count], cost)
				}
			}
		}
	}
	return nil
}

// turn gives the side that runs at place i of A B B A A B B A …
func turn(i int) int { return (i + 1) / 2 % 2 }

// print writes a line for each piece of work and returns what is worse.
func (g *compareGate) print(all pairs, slower map[string]string) []string {
	var worse []string
	for _, name := range sortedKeys(all) {
		d := differenceOf(all[name][0], all[name][1])
		says := ""
		if reason, ok := slower[name]; ok && d.worse() {
			says = "slower, and meant: " + reason
		} else if d.worse() {
			says = "SLOWER"
			worse = append(worse, name)
		} else if d.better() {
			says = "faster"
		}
		fmt.Fprintf(g.out, "  %-48s %12.0f ns %12.0f ns  %+6.1f %%  p=%.3f  %s\n", name, d.before, d.after, d.percent(), d.p, says)
	}
	return worse
}

// inCommon lists the work that both sides have and that can be timed.
func inCommon(ctx context.Context, base, head side) ([]string, error) {
	before, err := pinnedWork(ctx, base.dir, base.binary)
	if err != nil {
		return nil, err
	}
	after, err := pinnedWork(ctx, head.dir, head.binary)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(after, func(name, function string) bool { return before[name] == "" || function != countedRegion })
	if len(after) == 0 {
		return nil, errors.New("both sides have no pinned work in common")
	}
	return sortedKeys(after), nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
