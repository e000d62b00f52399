package main

import (
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tonnage/tonnage/internal/fleetview"
	"github.com/tonnage/tonnage/internal/terminal"
	"github.com/tonnage/tonnage/web"
)

func fleetNeeds(s streams) *cobra.Command {
	q := &fleetQuestion{streams: s}
	var cluster, reason, text string
	var limit int32
	var all bool
	cmd := &cobra.Command{
		Use: "needs", Short: "List the needs that are unmet: highest priority first, then longest unmet",
		Example: "  tonnage fleet needs\n  tonnage fleet needs --cluster web --reason priority_starved\n  tonnage fleet needs --all    # also those that are satisfied", Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkLimit(limit); err != nil {
				return err
			}
			values := url.Values{"cluster": {cluster}, "reason": {reason}, "q": {text}, "limit": {strconv.Itoa(int(limit))}}
			if all {
				values.Set("all", "true")
				return answer(cmd.Context(), q, "needs", values, showAllNeeds)
			}
			return answer(cmd.Context(), q, "needs", values, func(out io.Writer, a *fleetview.NeedsAnswer) error {
				if len(a.Needs) == 0 {
					_, err := fmt.Fprintf(out, "no unmet need matches; %s unmet in all\n", grouped(int64(a.Unmet)))
					return err
				}
				t := terminal.NewTable("NEED", "CLUSTER", "PRIORITY", "UNMET FOR", "SHORT OF", "REASON", "ASKS FOR")
				for _, r := range a.Needs {
					t.Row(r.Name, r.Cluster, r.Priority, seconds(r.Age), vectorText(r.Deficit), r.Reason, r.Profile)
				}
				if err := t.Write(out); err != nil {
					return err
				}
				return shownOf(out, len(a.Needs), a.Total, "needs")
			})
		},
	}
	q.register(cmd)
	cmd.Flags().StringVar(&cluster, "cluster", "", clusterUsage+hereMark+"only of this one")
	cmd.Flags().StringVar(&reason, "reason", "", "only with this reason, such as priority_starved")
	cmd.Flags().BoolVar(&all, "all", false, "also needs that are satisfied, by priority")
	textFlag(cmd, &text)
	limitFlag(cmd, &limit, "needs")
	return cmd
}

// showAllNeeds writes needs that are satisfied among those that are not.
func showAllNeeds(out io.Writer, a *fleetview.NeedsAnswer) error {
	t := terminal.NewTable("NEED", "CLUSTER", "PRIORITY", "IS", "WANTS", "MACHINES", "SHORT OF", "ASKS FOR")
	for i := range a.Needs {
		r := &a.Needs[i]
		t.Row(r.Name, r.Cluster, r.Priority, standingOf(r), vectorText(r.Wants), r.Machines, vectorText(r.Deficit), orNone(r.Profile))
	}
	if err := t.Write(out); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "%s needs, of which %s unmet\n", grouped(int64(a.All)), grouped(int64(a.Unmet))); err != nil {
		return err
	}
	return shownOf(out, len(a.Needs), a.Total, "needs")
}

// standingOf says whether a need is satisfied, or why not.
func standingOf(r *fleetview.NeedRow) string {
	switch {
	case r.Satisfied:
		return "satisfied"
	case r.Reason == "":
		return "not decided yet"
	}
	return r.Reason
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Second).String()
}

func fleetClusters(s streams) *cobra.Command {
	q := &fleetQuestion{streams: s}
	var tenant, order, text string
	var limit int32
	cmd := &cobra.Command{
		Use: "clusters", Short: "List clusters: what they ask for, have, are short of and spend",
		Example: "  tonnage fleet clusters --limit 1       # which is shortest, and why\n  tonnage fleet clusters --sort spend", Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkLimit(limit); err != nil {
				return err
			}
			values := url.Values{"tenant": {tenant}, "sort": {order}, "q": {text}, "limit": {strconv.Itoa(int(limit))}}
			return answer(cmd.Context(), q, "clusters", values, func(out io.Writer, a *fleetview.ClustersAnswer) error {
				t := terminal.NewTable("CLUSTER", "TENANT", "ROWS", "SHORT", "SHORT OF", "WHY", "MACHINES", "OF THE FLEET", "$/H")
				for i := range a.Clusters {
					r := &a.Clusters[i]
					t.Row(r.Cluster, orNone(r.Tenant), r.Rows, r.Short, vectorText(r.Deficit), orNone(r.Reason), servingOf(r.Machines, r.Draining), percent(r.Share), perHour(r.Spend))
				}
				if err := t.Write(out); err != nil {
					return err
				}
				return shownOf(out, len(a.Clusters), a.Total, "clusters")
			})
		},
	}
	q.register(cmd)
	cmd.Flags().StringVar(&tenant, "tenant", "", "only of this tenant")
	sortFlag(cmd, &order, "short", "short", "cluster", "share", "spend", "machines", "rows")
	textFlag(cmd, &text)
	limitFlag(cmd, &limit, "clusters")
	return cmd
}

// servingOf counts machines; those that drain are paid for too.
func servingOf(serving, draining int) string {
	if draining == 0 {
		return strconv.Itoa(serving)
	}
	return fmt.Sprintf("%d, %d drain", serving, draining)
}

func percent(part float64) string { return fmt.Sprintf("%.1f %%", 100*part) }

// sortFlag adds what a list is sorted by.
func sortFlag(cmd *cobra.Command, order *string, byDefault string, orders ...string) {
	cmd.Flags().StringVar(order, "sort", byDefault, "what the list is sorted by"+hereMark+strings.Join(orders, ", "))
	_ = cmd.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(orders, cobra.ShellCompDirectiveNoFileComp))
}

func fleetTenants(s streams) *cobra.Command {
	q := &fleetQuestion{streams: s}
	cmd := &cobra.Command{
		Use: "tenants", Short: "List tenants: their shares, what they have of them, and who is above",
		Example: "  tonnage fleet tenants", Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return answer(cmd.Context(), q, "tenants", url.Values{}, func(out io.Writer, a *[]fleetview.TenantRow) error {
				t := terminal.NewTable("TENANT", "CLUSTERS", "MACHINES", "SHORT", "HAS / SHARE", "OF ITS SHARE", "ABOVE", "$/H")
				for i := range *a {
					r := &(*a)[i]
					var shares []string
					for _, x := range r.Shares {
						shares = append(shares, fmt.Sprintf("%s %s / %s", x.Name, amountOf(x.Name, x.Has), amountOf(x.Name, x.Share)))
					}
					above := "no"
					if r.Ratio > 1 {
						above = "yes"
					}
					t.Row(r.Tenant, strings.Join(r.Clusters, " "), r.Machines, r.Short, orNone(strings.Join(shares, ", ")), percent(r.Ratio), above, perHour(r.Spend))
				}
				if len(*a) == 0 {
					_, err := fmt.Fprintln(out, "the fleet has no tenants: its policy or its file names none")
					return err
				}
				return t.Write(out)
			})
		},
	}
	q.register(cmd)
	return cmd
}

func fleetDomains(s streams) *cobra.Command {
	q := &fleetQuestion{streams: s}
	var key, kind string
	var hold, limit int32
	cmd := &cobra.Command{
		Use: "domains", Short: "List racks, zones or other domains, and which could hold a gang",
		Long: `Domains lists the domains of a topology key, the narrowest key unless --key names one. With
--hold it says of each whether it could hold a gang of so many machines: now = idle machines are
enough; drains = with those on their way; buys = with what can be bought; preempts = with
machines of priorities up to ABOVE; no = it is too small. That is counted, not decided: what-if
decides.`,
		Example: "  tonnage fleet domains --hold 16\n  tonnage fleet domains --key topology.kubernetes.io/zone", Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkLimit(limit); err != nil {
				return err
			}
			values := url.Values{"key": {key}, "type": {kind}, "limit": {strconv.Itoa(int(limit))}}
			if hold != 0 {
				values.Set("hold", strconv.Itoa(int(hold)))
			}
			return answer(cmd.Context(), q, "domains", values, func(out io.Writer, a *fleetview.DomainsAnswer) error {
				return showDomains(out, a, hold)
			})
		},
	}
	q.register(cmd)
	cmd.Flags().StringVar(&key, "key", "", keyUsage)
	cmd.Flags().StringVar(&kind, "type", "", typeUsage)
	cmd.Flags().Int32Var(&hold, "hold", 0, "size of a gang, in machines; 0 = none")
	limitFlag(cmd, &limit, "domains")
	return cmd
}

func showDomains(out io.Writer, a *fleetview.DomainsAnswer, hold int32) error {
	if a.Key == "" {
		_, err := fmt.Fprintln(out, "no machine has a label that machines can be grouped by")
		return err
	}
	t := terminal.NewTable("DOMAIN", "MACHINES", "IDLE", "BOUND", "MOVING", "FAILED", "COULD BE BOUGHT", "HOLDS", "ABOVE", "$/H")
	for i := range a.Domains {
		r := &a.Domains[i]
		above := noTime
		if r.Holds == "preempts" {
			above = strconv.Itoa(int(r.Above))
		}
		t.Row(r.Value, r.Machines, r.Idle, r.Bound, r.Moving, r.Failed, r.Speculative, orNone(r.Holds), above, perHour(r.Spend))
	}
	if err := t.Write(out); err != nil {
		return err
	}
	if hold > 0 {
		if _, err := fmt.Fprintf(out, "%d of %d domains by %s could hold %d machines\n", a.Holding, a.Total, a.Key, hold); err != nil {
			return err
		}
	}
	return shownOf(out, len(a.Domains), a.Total, "domains")
}

func fleetPlans(s streams) *cobra.Command {
	q := &fleetQuestion{streams: s}
	cmd := &cobra.Command{
		Use: "plans", Short: "List the last plans of preemption", Example: "  tonnage fleet plans", Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return answer(cmd.Context(), q, "plans", url.Values{}, func(out io.Writer, a *[]fleetview.PlanRow) error {
				t := terminal.NewTable("PLAN", "AT", "FOR", "PRIORITY", "DOMAIN", "MACHINES", "GRACE")
				for i := range *a {
					r := &(*a)[i]
					t.Row(r.Number, at(r.At), r.Name, r.Priority, orNone(r.Domain), r.Machines, fmt.Sprint(r.GraceSeconds, " s"))
				}
				return t.Write(out)
			})
		},
	}
	q.register(cmd)
	return cmd
}

func fleetCycles(s streams) *cobra.Command {
	q := &fleetQuestion{streams: s}
	var over time.Duration
	var limit int32
	cmd := &cobra.Command{
		Use: "cycles", Short: "List the last cycles, or those that took long",
		Example: "  tonnage fleet cycles --over 100ms --limit 1     # the last cycle over 100 ms", Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkLimit(limit); err != nil {
				return err
			}
			if over < 0 || over%time.Millisecond != 0 {
				return badInput(fmt.Errorf("--over must be whole milliseconds, such as 100ms; got %v", over))
			}
			values := url.Values{"over": {strconv.FormatInt(over.Milliseconds(), 10)}, "limit": {strconv.Itoa(int(limit))}}
			return answer(cmd.Context(), q, "cycles", values, func(out io.Writer, a *fleetview.CyclesAnswer) error {
				return showCycles(out, a, over)
			})
		},
	}
	q.register(cmd)
	cmd.Flags().DurationVar(&over, "over", 0, "only cycles that took as long, in whole milliseconds")
	limitFlag(cmd, &limit, "cycles")
	return cmd
}

func showCycles(out io.Writer, a *fleetview.CyclesAnswer, over time.Duration) error {
	if over > 0 && len(a.Cycles) == 0 {
		_, err := fmt.Fprintf(out, "no cycle took %v or more; %d cycles since %s are kept\n", over, a.Kept, at(a.Since))
		return err
	}
	t := terminal.NewTable("CYCLE", "AT", "TOOK", "SLOWEST PHASE", "NEEDS", "UNMET", "ACTIONS", "$/H")
	for i := range a.Cycles {
		r := &a.Cycles[i]
		slowest := 0
		for p := range r.Phases {
			if r.Phases[p] > r.Phases[slowest] {
				slowest = p
			}
		}
		t.Row(r.Cycle, at(r.At), millis(r.Millis), phaseWords(web.Phases[slowest])+" "+millis(r.Phases[slowest]), r.Needs, r.Unmet, counts(web.Kinds[:], r.Actions[:]), perHour(r.Spend))
	}
	return t.Write(out)
}

// phaseWords says what a phase of a cycle does, as the page does.
func phaseWords(phase string) string {
	switch phase {
	case "snapread":
		return "snapshot"
	case "phase1":
		return "acquire"
	case "phase2":
		return "preempt"
	case "phase3":
		return "release"
	}
	return phase
}
