package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/internal/fleetview"
	"github.com/tonnage/tonnage/internal/terminal"
	"github.com/tonnage/tonnage/web"
)

func fleetPreemptions(s streams) *cobra.Command {
	q := &fleetQuestion{streams: s}
	var last time.Duration
	cmd := &cobra.Command{
		Use: "preemptions", Short: "Say who was preempted for whom",
		Example: "  tonnage fleet preemptions --last 1h", Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			values := url.Values{}
			if err := since(values, last); err != nil {
				return err
			}
			return answer(cmd.Context(), q, "preemptions", values, func(out io.Writer, a *fleetview.PreemptionsAnswer) error {
				t := terminal.NewTable("LAST", "LOST BY", "OF", "PRIORITY", "GOT BY", "OF", "PRIORITY", "TIMES", "PREEMPTIONS", "MACHINES", "NOTICE UP TO", "PLAN", "SUCH AS")
				for i := range a.Pairs {
					r := &a.Pairs[i]
					plan, lost := noTime, noTime
					if r.Plan != 0 {
						lost = strconv.Itoa(int(r.FromPriority))
						plan = strconv.FormatUint(r.Plan, 10)
					}
					t.Row(at(r.Last), orNone(r.FromNeed), r.From, lost, cmp.Or(r.ForNeed, r.Need), r.For, r.Priority, r.Times, r.Machines, r.Different, time.Duration(r.GraceSeconds)*time.Second, plan, strings.Join(r.Some[:min(len(r.Some), 3)], " "))
				}
				if err := t.Write(out); err != nil {
					return err
				}
				_, err := fmt.Fprintf(out, "%s of %s; what is kept begins at %s\n", numbered(a.Machines, "preemption"), numbered(a.Different, "machine"), at(a.Since))
				return err
			})
		},
	}
	q.register(cmd)
	lastFlag(cmd, &last)
	return cmd
}

func fleetChanges(s streams) *cobra.Command {
	q := &fleetQuestion{streams: s}
	var last time.Duration
	var between, text string
	cmd := &cobra.Command{
		Use: "changes", Short: "Say what changed between two cycles, or lately",
		Long: `Changes compares two times: needs whose reason is another, machines whose state or cluster is, and
what was done in between. The times are those of two cycles (--between, as "fleet cycles" numbers
them), or now and so long ago (--last).`,
		Example: "  tonnage fleet changes --last 10m\n  tonnage fleet changes --between 120:180", Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			values := url.Values{"q": {text}}
			if between != "" {
				if err := q.betweenCycles(cmd.Context(), values, between); err != nil {
					return err
				}
			} else if err := since(values, last); err != nil {
				return err
			}
			return answer(cmd.Context(), q, "changes", values, showChanges)
		},
	}
	q.register(cmd)
	lastFlag(cmd, &last)
	cmd.Flags().StringVar(&between, "between", "", "numbers of two cycles that are compared: OLD:NEW")
	textFlag(cmd, &text)
	return cmd
}

// betweenCycles asks when two cycles were.
func (q *fleetQuestion) betweenCycles(ctx context.Context, values url.Values, between string) error {
	a, b, found := strings.Cut(between, ":")
	first, err1 := strconv.ParseUint(a, 10, 64)
	second, err2 := strconv.ParseUint(b, 10, 64)
	if !found || err1 != nil || err2 != nil || first > second {
		return badInput(fmt.Errorf("--between must be the numbers of two cycles, the older first, such as 120:180; got %.80q", between))
	}
	ctx, cancel, err := q.within(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	body, err := q.ask(ctx, "cycles", url.Values{"limit": {"4000"}})
	if err != nil {
		return err
	}
	var all fleetview.CyclesAnswer
	if err := json.Unmarshal(body, &all); err != nil {
		return fmt.Errorf("what the shard answers cannot be read: %w", err)
	}
	for key, number := range map[string]uint64{"from": first, "to": second} {
		i := slices.IndexFunc(all.Cycles, func(r fleetview.CycleRow) bool { return r.Cycle == number })
		if i < 0 {
			kept := "no cycle is kept yet"
			if n := len(all.Cycles); n > 0 {
				kept = fmt.Sprintf("cycles %d to %d are", all.Cycles[n-1].Cycle, all.Cycles[0].Cycle)
			}
			return badInput(fmt.Errorf("--between %s: cycle %d is not kept; %s", between, number, kept))
		}
		values.Set(key, strconv.FormatInt(all.Cycles[i].At, 10))
	}
	return nil
}

// changesShown is how many rows each list of changes shows.
const changesShown = 20

func showChanges(out io.Writer, a *fleetview.ChangesAnswer) error {
	_, err := fmt.Fprintf(out, "from cycle %d (%s) to cycle %d (%s), %d cycles\n  needs %d (%d unmet) -> %d (%d unmet); $%s -> $%s an hour\n  machines: %s -> %s\n",
		a.From.Cycle, at(a.From.At), a.To.Cycle, at(a.To.At), a.Cycles, a.From.Needs, a.From.Unmet, a.To.Needs, a.To.Unmet,
		perHour(a.From.Spend), perHour(a.To.Spend), counts(web.States[:], a.From.Machines[:]), counts(web.States[:], a.To.Machines[:]))
	if err != nil {
		return err
	}
	needs := terminal.NewTable("NEED", "PRIORITY", "WAS", "IS")
	for _, r := range a.Needs[:min(len(a.Needs), changesShown)] {
		was := r.From
		if was == "" {
			was = "not unmet"
		}
		needs.Row(r.Name, r.Priority, was, r.To)
	}
	actions := terminal.NewTable("DONE", "TIMES", "CLUSTER", "FROM", "NEED", "WHY", "SUCH AS")
	for _, r := range a.Actions[:min(len(a.Actions), changesShown)] {
		actions.Row(r.Kind, r.Count, orNone(r.Cluster), orNone(r.From), orNone(r.ForNeed), ruleWords(r.Reason), r.Example)
	}
	machines := terminal.NewTable("MACHINE", "WAS", "IS")
	for _, r := range a.Machines[:min(len(a.Machines), changesShown)] {
		machines.Row(orNone(r.Machine), owned(r.From, r.FromCluster), owned(r.To, r.ToCluster))
	}
	for _, x := range []struct {
		rows  int
		table *terminal.Table
	}{{len(a.Needs), needs}, {len(a.Actions), actions}, {len(a.Machines), machines}} {
		if x.rows == 0 {
			continue // a head alone says nothing
		}
		if err := x.table.Write(out); err != nil {
			return err
		}
	}
	more := max(a.NeedsTotal-changesShown, 0) + max(a.MachinesTotal-changesShown, 0) + max(len(a.Actions)-changesShown, 0) + a.More
	if more == 0 {
		return nil
	}
	_, err = fmt.Fprintf(out, "%d more; -o json has up to 500 of each, --text narrows\n", more)
	return err
}

// ruleWords says why an action was taken, as the page does.
func ruleWords(rule string) string {
	switch rule {
	case engine.ReasonIdle.String():
		return "an idle machine that suits it"
	case engine.ReasonSpeculative.String():
		return "no idle machine that suits it was left"
	case engine.ReasonPreempt.String():
		return "a need of higher priority is short"
	case engine.ReasonExcess.String():
		return "no demand claims it"
	case engine.ReasonRelease.String():
		return "idle for its whole hold time"
	}
	return rule
}
