package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// spread and measured are what of `tonnage bench -o json` is read here.
type spread struct {
	Min, P50, P99, Max float64
}

type measured struct {
	Rung, Regime    string
	Workers, Cycles int
	CycleMillis     spread
	CPUMillis       spread `json:"cpuMillis"`
	AllocsPerCycle  int64
	BytesPerMachine float64
	BytesPerNeed    float64
	RSSBytes        int64 `json:"rssBytes"`
	PlanChecksum    string
	Verified        string
	CPU             string `json:"cpu"`
	GOAMD64         string `json:"goamd64"`
	SIMD            string `json:"simd"`
	Load1           float64
}

// bench runs tonnage bench once.
func bench(ctx context.Context, binary string, args ...string) (*measured, error) {
	out, err := output(ctx, "", nil, binary, append([]string{"bench", "-o", "json"}, args...)...)
	if err != nil {
		return nil, err
	}
	m := &measured{}
	if err := json.Unmarshal([]byte(out), m); err != nil {
		return nil, fmt.Errorf("%s: %w", binary, err)
	}
	return m, nil
}

// benchmarks prints a row for every rung, regime and number of workers.
type benchmarks struct {
	out, log                io.Writer
	rungs, regimes, workers string // comma separated
	cycles                  int
}

func (b *benchmarks) run(ctx context.Context, binary string) error {
	began := false
	for _, rung := range strings.Split(b.rungs, ",") {
		for _, regime := range strings.Split(b.regimes, ",") {
			for _, workers := range strings.Split(b.workers, ",") {
				fmt.Fprintf(b.log, "%s %s, workers %s\n", rung, regime, workers)
				m, err := bench(ctx, binary, "--rung", rung, "--regime", regime, "--workers", workers, "--cycles", strconv.Itoa(b.cycles), "--verify")
				if err != nil {
					return err
				}
				if !began {
					began = true
					fmt.Fprintf(b.out, "%s, GOAMD64=%s, kernels %s, load %.2f at the start\n\n", m.CPU, m.GOAMD64, m.SIMD, m.Load1)
					fmt.Fprint(b.out, benchmarksHead)
				}
				fmt.Fprint(b.out, m.row())
			}
		}
	}
	return nil
}

const benchmarksHead = `| rung | regime | workers | cycles | ms min | p50 | p99 | max | cpu ms min | allocs | B/machine | B/Need | RSS MiB | load | plan | verified |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
`

func (m *measured) row() string {
	c := &m.CycleMillis
	return fmt.Sprintf("| `%s` | %s | %d | %d | %.2f | %.2f | %.2f | %.2f | %.2f | %d | %.1f | %.1f | %.0f | %.2f | `%s` | %s |\n",
		m.Rung, m.Regime, m.Workers, m.Cycles, c.Min, c.P50, c.P99, c.Max, m.CPUMillis.Min, m.AllocsPerCycle,
		m.BytesPerMachine, m.BytesPerNeed, float64(m.RSSBytes)/(1<<20), m.Load1, m.PlanChecksum, m.Verified)
}

// binaries runs two tonnage binaries in turn.
type binaries struct {
	out            io.Writer
	rungs, regimes string // comma separated
	counts         int
}

// binariesCycles is how many cycles one run of a binary measures; its figure is
// the least processor time of one.
const binariesCycles = 20

// run prints, for each rung and regime, what the second binary needs of the
// processor time of the first. Plans that differ are an error.
func (b *binaries) run(ctx context.Context, before, after string) error {
	fmt.Fprintf(b.out, "| rung | regime | cpu ms before | after | change | p |\n|---|---|---|---|---|---|\n")
	for _, rung := range strings.Split(b.rungs, ",") {
		for _, regime := range strings.Split(b.regimes, ",") {
			var taken []figure
			var pair [2]float64
			plan := ""
			for i := range 2 * b.counts {
				which := turn(i)
				m, err := bench(ctx, [2]string{before, after}[which], "--rung", rung, "--regime", regime, "--cycles", strconv.Itoa(binariesCycles))
				if err != nil {
					return err
				}
				if plan != "" && plan != m.PlanChecksum {
					return fmt.Errorf("%s %s: the binaries decide differently: %s and %s", rung, regime, plan, m.PlanChecksum)
				}
				plan = m.PlanChecksum
				pair[which] = m.CPUMillis.Min
				if i%2 == 1 {
					taken = append(taken, figureOf([][2]float64{pair}))
				}
			}
			d := differenceOf(taken)
			fmt.Fprintf(b.out, "| `%s` | %s | %.3f | %.3f | %+.1f %% | %.3f |\n", rung, regime, d.before, d.after, d.percent(), d.p)
		}
	}
	return nil
}
