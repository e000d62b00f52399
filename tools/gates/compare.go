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
	// countsDefault is how many figures a piece of work has; fewer than 10 find too
	// little.
	countsDefault = 10
	// slicesPerCount is of how many pairs of measurements a figure is the median. They are
	// spread over the whole time, so that all figures see the same weather.
	slicesPerCount = 16
	// slicesPerProcess is how many of them come from one process. Where memory
	// lies differs from process to process, and moves figures by a few percent.
	slicesPerProcess = 2
	// layoutsPerRound is how many binaries of a side, with functions in other places
	// in each, the processes of a round are of in turn: where a short loop lies
	// moves it by up to a fifth.
	layoutsPerRound = 4
	// rounds is how often what seems slower is measured, with other layouts each
	// time. It must come out slower every time.
	rounds = 3
)

// compareGate runs base and head in turn.
type compareGate struct {
	root   string
	out    io.Writer
	base   string // revision, empty = choose
	counts int
}

func (g *compareGate) run(ctx context.Context) error {
	head := tree{dir: g.root}
	if _, err := g.layOutCode(ctx, head, 0); err != nil {
		return err
	}
	base, err := baseTree(ctx, g.root, g.base, func(t tree) error {
		_, err := g.layOutCode(ctx, t, 0)
		return err
	})
	if errors.Is(err, errNoBase) {
		fmt.Fprintf(g.out, "NOT COMPARED: %v\n", err)
		return nil
	}
	if err != nil {
		return err
	}
	c := comparison{base: base, head: head}
	if c.trailers, err = trailersSince(ctx, g.root, base.revision); err != nil {
		return err
	}
	c.build = func(round int) (sides [2]side, err error) {
		for which, t := range []tree{base, head} {
			sides[which] = side{name: t.name(), dir: filepath.Join(t.dir, "benches")}
			if sides[which].binaries, err = g.layouts(ctx, t, round); err != nil {
				return sides, err
			}
		}
		return sides, nil
	}
	names, err := g.inCommon(ctx, base, head)
	if err != nil {
		return err
	}
	return g.judge(ctx, &c, names)
}

// layouts builds the binaries of a round.
func (g *compareGate) layouts(ctx context.Context, t tree, round int) ([]string, error) {
	var out []string
	for i := range layoutsPerRound {
		binary, err := g.layOutCode(ctx, t, round*layoutsPerRound+i)
		if err != nil {
			return nil, err
		}
		out = append(out, binary)
	}
	return out, nil
}

// layOutCode builds a tree's test binary with the functions in an order of their own
// for each number from 1 on; 0 is the order in which the linker finds them.
func (g *compareGate) layOutCode(ctx context.Context, t tree, number int) (string, error) {
	which := "head"
	if t.revision != "" {
		which = "base"
	}
	binary := filepath.Join(workDir(g.root), fmt.Sprintf("%s-%d.test", which, number%layoutsPerRound))
	_, err := output(ctx, t.dir, nil, "go", "test", "-c", fmt.Sprintf("-ldflags=-w -randlayout=%d", number), "-o", binary, "./benches")
	return binary, err
}

// comparison is of two trees.
type comparison struct {
	base, head tree
	build      func(round int) ([2]side, error) // base and head
	trailers   trailers
	rounds     []figures // what was measured so far
}

// judge compares the named work, and what seems slower in more rounds.
func (g *compareGate) judge(ctx context.Context, c *comparison, names []string) error {
	for round := range rounds {
		sides, err := c.build(round)
		if err != nil {
			return err
		}
		fmt.Fprintf(g.out, "round %d of at most %d: %s (base) against %s (head), processor time, %d figures of %d pairs, %d layouts:\n",
			round+1, rounds, c.base.name(), c.head.name(), g.counts, slicesPerCount, len(sides[0].binaries))
		measured, err := g.measure(ctx, sides, names)
		if err != nil {
			return err
		}
		c.rounds = append(c.rounds, measured)
		if names = g.print(measured, c.trailers.accepted); len(names) == 0 {
			if round > 0 {
				fmt.Fprintln(g.out, "not confirmed")
			}
			return nil
		}
	}
	g.explain(c, names)
	return fmt.Errorf("%s: %w", strings.Join(names, ", "), errWorse)
}

// explain says once more, at the end of the output, why the gate fails.
func (g *compareGate) explain(c *comparison, slower []string) {
	fmt.Fprintf(g.out, "\nFAILED: %d of %d pieces of work are slower in %s (head) than in %s (base)\n",
		len(slower), len(c.rounds[0]), c.head.name(), c.base.name())
	fmt.Fprintf(g.out, "slower: in each of %d rounds the median ratio is at least %.0f %% over 1, and p < %.2f\n", rounds, worsePercent, significantP)
	for _, name := range slower {
		fmt.Fprintf(g.out, "  %s\n", name)
		for round, measured := range c.rounds {
			d := differenceOf(measured[name])
			fmt.Fprintf(g.out, "    round %d: %s\n", round+1, d.line())
		}
	}
	fmt.Fprintf(g.out, "%s: trailers of the %d commits in %s..HEAD name %s\n", slowerTrailer, c.trailers.commits, c.base.name(), listed(sortedKeys(c.trailers.accepted)))
	if c.trailers.shallow {
		fmt.Fprintln(g.out, "the history of this checkout is cut off (a shallow clone), and trailers of commits that are not there are not seen")
	}
	for _, name := range slower {
		if commit := c.trailers.before[name]; commit != "" {
			fmt.Fprintf(g.out, "%s names %s and lies before the base: a trailer counts in the commit that makes the work slower, or in a later one\n", commit, name)
		}
	}
	fmt.Fprintf(g.out, "if it is meant, say so in the commit: %q\n", slowerTrailer+": "+slower[0]+", the reason")
}

// listed are names as a text says them.
func listed(names []string) string {
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}

// figures are what was measured, by name.
type figures map[string][]figure

// pairsTaken are pairs of measurements by name and figure.
type pairsTaken map[string][][][2]float64

// measure lets both sides do the named work in turn.
func (g *compareGate) measure(ctx context.Context, sides [2]side, names []string) (figures, error) {
	taken := pairsTaken{}
	for _, name := range names {
		taken[name] = make([][][2]float64, g.counts)
	}
	for done := 0; done < slicesPerCount; done += slicesPerProcess {
		if err := g.epoch(ctx, sides, done/slicesPerProcess, names, taken); err != nil {
			return nil, err
		}
	}
	out := figures{}
	for name, of := range taken {
		for _, pairs := range of {
			out[name] = append(out[name], figureOf(pairs))
		}
	}
	return out, nil
}

// epoch starts a process of each side, adds slicesPerProcess pairs of measurements to
// every figure, and ends them. Epochs take the layouts in turn.
func (g *compareGate) epoch(ctx context.Context, sides [2]side, number int, names []string, taken pairsTaken) (err error) {
	var servers [2]*server
	for which := range sides {
		s, startErr := sides[which].serve(ctx, number)
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
				var pair [2]float64
				for range 2 {
					which := turn(at)
					at++
					cost, err := servers[which].ask(name)
					if err != nil {
						return err
					}
					pair[which] = cost
				}
				taken[name][count] = append(taken[name][count], pair)
			}
		}
	}
	return nil
}

// turn gives the side that runs at place i of A B B A A B B A …
func turn(i int) int { return (i + 1) / 2 % 2 }

// print writes a line for each piece of work and returns what is worse.
func (g *compareGate) print(all figures, slower map[string]string) []string {
	var worse []string
	for _, name := range sortedKeys(all) {
		d := differenceOf(all[name])
		says := ""
		if reason, ok := slower[name]; ok && d.worse() {
			says = "slower, and meant: " + reason
		} else if d.worse() {
			says = "SLOWER"
			worse = append(worse, name)
		} else if d.better() {
			says = "faster"
		}
		fmt.Fprintf(g.out, "  %-48s %s  %s\n", name, d.line(), says)
	}
	return worse
}

// inCommon lists the work that both sides have, that can be timed, and that comes to
// the same plans.
func (g *compareGate) inCommon(ctx context.Context, base, head tree) ([]string, error) {
	var work [2]workList
	for which, t := range []tree{base, head} {
		binary, err := g.layOutCode(ctx, t, 0)
		if err != nil {
			return nil, err
		}
		if work[which], err = pinnedWork(ctx, filepath.Join(t.dir, "benches"), binary); err != nil {
			return nil, err
		}
	}
	names := slices.DeleteFunc(work[1].that(timed), func(name string) bool { _, ok := work[0][name]; return !ok })
	others, err := otherPlans(base.dir, head.dir, names)
	if err != nil {
		return nil, err
	}
	for _, name := range others {
		fmt.Fprintf(g.out, notCompared, name)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(others, name) })
	if len(names) == 0 {
		return nil, errors.New("both sides have no pinned work in common")
	}
	return names, nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
