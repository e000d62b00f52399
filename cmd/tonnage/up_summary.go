package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/tonnage/tonnage/web"
)

// runSummary is what a run came to.
type runSummary struct {
	source string
	took   time.Duration
	frame  web.Frame // the last
	cycles web.Quantiles
	// actions are those of all cycles, by kind.
	actions [len(web.Kinds)]int64
}

// text is what is printed at the end.
func (s *runSummary) text() string {
	f := &s.frame
	if f.Cycle == 0 {
		return "Stopped before the first cycle.\n"
	}
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-10s %s\n", name, fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(&b, "Stopped after %s.\n", s.took.Round(time.Second))
	line("source", "%s", s.source)
	if f.Progress != "" {
		line("progress", "%s", f.Progress)
	}
	line("cycles", "%s; the last %s: p50 %s, p99 %s, max %s", grouped(int64(f.Cycle)), grouped(int64(s.cycles.Cycles)), millis(s.cycles.P50), millis(s.cycles.P99), millis(s.cycles.Max))
	line("machines", "%s", counts(web.States[:], f.Machines[:]))
	line("needs", "%s of %s satisfied (%s)", grouped(int64(f.Satisfied)), grouped(int64(f.Needs)), share(f.Satisfied, f.Needs))
	for i := range f.Resources {
		r := &f.Resources[i]
		line("", "%s: %.2f %% satisfied", r.Name, 100*(1-float64(r.Deficit)/float64(max(r.Demand, 1))))
	}
	for _, r := range f.Reasons {
		line("", "%s unmet: %s", grouped(int64(r.Count)), r.Reason)
	}
	line("actions", "%s", counts(web.Kinds[:], s.actions[:]))
	if f.Faults > 0 {
		line("", "%s calls to the provider failed", grouped(f.Faults))
	}
	line("spend", "%s", dollars(f.Spend))
	return b.String()
}

// counts lists what is not zero: "305 Configured, 60 Idle".
func counts[T int | int64](names []string, values []T) string {
	var parts []string
	for i, v := range values {
		if v > 0 {
			parts = append(parts, grouped(int64(v))+" "+names[i])
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

func share(part, whole int) string {
	if whole == 0 {
		return "nothing is asked for"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(part)/float64(whole))
}
