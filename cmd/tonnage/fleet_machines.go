package main

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/fleetview"
	"github.com/tonnage/tonnage/internal/terminal"
	"github.com/tonnage/tonnage/web"
)

func amountOf(name string, v int64) string { return model.FormatQuantity(name, v) }

func fleetMachines(s streams) *cobra.Command {
	q := &fleetQuestion{streams: s}
	var state, cluster, kind, key, value, order, text string
	var limit int32
	cmd := &cobra.Command{
		Use: "machines", Short: "List machines, with what they cost an hour",
		Example: "  tonnage fleet machines --state Idle --sort price    # what is idle, the dearest first\n" +
			"  tonnage fleet machines --key topology.kubernetes.io/rack --value r-1", Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkLimit(limit); err != nil {
				return err
			}
			values := url.Values{
				"state": {state}, "cluster": {cluster}, "type": {kind}, "key": {key}, "value": {value}, "sort": {order}, "q": {text},
				"limit": {strconv.Itoa(int(limit))},
			}
			return answer(cmd.Context(), q, "machines", values, func(out io.Writer, a *fleetview.MachinesAnswer) error {
				t := terminal.NewTable("MACHINE", "STATE", "TYPE", "CAPACITY", "CLUSTER", "PRIORITY", "$/H", "WITH RISK", "IDLE SINCE")
				for i := range a.Machines {
					r := &a.Machines[i]
					t.Row(r.ID, r.State, r.Type, r.Capacity, orNone(r.Cluster), r.Priority, perHour(r.Price), perHour(r.Effective), at(r.IdleSince))
				}
				if err := t.Write(out); err != nil {
					return err
				}
				if _, err := fmt.Fprintf(out, "%s machines, $%s an hour\n", grouped(int64(a.Total)), perHour(a.Price)); err != nil {
					return err
				}
				return shownOf(out, len(a.Machines), a.Total, "machines")
			})
		},
	}
	q.register(cmd)
	cmd.Flags().StringVar(&state, "state", "", stateUsage)
	cmd.Flags().StringVar(&cluster, "cluster", "", clusterUsage+hereMark+"only of this one")
	cmd.Flags().StringVar(&kind, "type", "", typeUsage)
	cmd.Flags().StringVar(&key, "key", "", keyUsage)
	cmd.Flags().StringVar(&value, "value", "", valueUsage)
	sortFlag(cmd, &order, "id", "id", "price")
	textFlag(cmd, &text)
	limitFlag(cmd, &limit, "machines")
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(web.States[:], cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func fleetMachine(s streams) *cobra.Command {
	q := &fleetQuestion{streams: s}
	var limit int32
	cmd := &cobra.Command{
		Use: "machine ID", Short: "Show one machine: what it serves, why no cheaper one does, and what happened to it",
		Example: "  tonnage fleet machine gpu-017", Args: oneArgument("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkLimit(limit); err != nil {
				return err
			}
			return answer(cmd.Context(), q, "machine", url.Values{"id": {args[0]}}, func(out io.Writer, a *fleetview.MachineAnswer) error {
				return showMachine(out, a, int(limit))
			})
		},
	}
	q.register(cmd)
	cmd.Flags().Int32Var(&limit, "limit", machineEventsDefault, limitUsage+hereMark+"events, the newest first")
	return cmd
}

// machineEventsDefault is how many events of a machine's past are shown.
const machineEventsDefault = 10

func showMachine(out io.Writer, a *fleetview.MachineAnswer, limit int) error {
	if a.State == fleetview.StateGone {
		return showPast(out, a, limit, fmt.Sprintf("%s: the provider does not list it any more\n", a.ID))
	}
	said := fmt.Sprintf("%s: %s, %s %s in %s, $%s an hour, $%s with interruptions\n", a.ID, a.State, orNone(a.Type), a.Capacity, orNone(a.Zone), perHour(a.Price), perHour(a.Effective))
	if a.Cluster != "" {
		said += fmt.Sprintf("  serves %s: need %s, priority %d: %s\n", a.Cluster, orNone(a.Need), a.Priority, orNone(a.Profile))
	}
	for _, d := range a.Domains {
		said += fmt.Sprintf("  %s=%s\n", d.Key, d.Value)
	}
	if a.LastError != "" {
		said += "  last error: " + a.LastError + "\n"
	}
	if _, err := io.WriteString(out, said); err != nil {
		return err
	}
	if a.Need != "" {
		if len(a.Cheaper) == 0 {
			if _, err := fmt.Fprintln(out, "  no machine is cheaper"); err != nil {
				return err
			}
		} else {
			t := terminal.NewTable("CHEAPER", "FROM $/H", "EXAMPLE", "WHY NOT")
			for _, c := range a.Cheaper {
				t.Row(c.Machines, perHour(c.Price), c.Example, c.Why)
			}
			if err := t.Write(out); err != nil {
				return err
			}
		}
	}
	return showPast(out, a, limit, "")
}

// showPast writes what happened to a machine, the newest first.
func showPast(out io.Writer, a *fleetview.MachineAnswer, limit int, said string) error {
	if _, err := io.WriteString(out, said); err != nil || len(a.History) == 0 {
		return err
	}
	t := terminal.NewTable("AT", "CYCLE", "WHAT", "FROM", "TO", "NEED", "WHY")
	shown := min(len(a.History), limit)
	for i := range a.History[:shown] {
		h := &a.History[i]
		if m := h.Moved; m != nil {
			what, why := "moved", noTime
			if m.To == "" && m.From != model.Deleting.String() {
				what, why = "lost", "the provider does not list it any more"
			}
			t.Row(at(h.At), h.Cycle, what, owned(m.From, m.FromCluster), owned(m.To, m.ToCluster), noTime, why)
		}
		if d := h.Did; d != nil {
			t.Row(at(h.At), h.Cycle, d.Kind, orNone(d.From), orNone(d.Cluster), orNone(d.ForNeed), ruleWords(d.Reason))
		}
	}
	if err := t.Write(out); err != nil {
		return err
	}
	return shownOf(out, shown, len(a.History), "events")
}

// owned writes a state, and whose.
func owned(state, cluster string) string {
	if cluster == "" {
		return orNone(state)
	}
	return state + " of " + cluster
}

func fleetMoney(s streams) *cobra.Command {
	q := &fleetQuestion{streams: s}
	cmd := &cobra.Command{
		Use: "money", Short: "Say what the fleet costs an hour, what is idle, and what interruptions cost",
		Example: "  tonnage fleet money", Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return answer(cmd.Context(), q, "money", url.Values{}, func(out io.Writer, a *fleetview.MoneyAnswer) error {
				_, err := io.WriteString(out, moneyText(a))
				return errors.Join(err, moneyTable("CAPACITY", a.Kinds).Write(out), moneyTable("IDLE", a.IdleBy).Write(out), moneyTable("TYPE", a.Types).Write(out))
			})
		},
	}
	q.register(cmd)
	return cmd
}

// moneyText says what the fleet costs: the last bill, all of one moment, and then what heads the tables, which are of
// now.
func moneyText(a *fleetview.MoneyAnswer) string {
	b := &a.Bill
	risk := ""
	if a.Interruptions > 0 && a.Effective-a.List < 0.005 {
		risk = ", of machines whose needs put no price on them"
	}
	now := fmt.Sprintf("now: $%.2f an hour at list prices; $%.2f with what interruptions cost (%.2f interruptions an hour are expected%s)", a.List, a.Effective, a.Interruptions, risk)
	if a.IncompleteGangs > 0 {
		now += fmt.Sprintf("; $%.2f of it is for machines of gangs that are not complete (%d), so that nothing runs there", a.Incomplete, a.IncompleteGangs)
	}
	if b.Paid <= 0 || b.At == 0 {
		return fmt.Sprintf("%s; $%.2f of idle machines\n", now, a.Idle)
	}
	text := fmt.Sprintf("%.1f %% of what you pay is for idle machines", 100*b.Idle/b.Paid)
	if over, ok := b.Over(); ok {
		text += fmt.Sprintf("; what needs have costs $%.2f with interruptions, %.1f %% above the least possible, $%.2f", b.Effective, 100*max(over, 0), b.Bound)
	}
	text += fmt.Sprintf("\nan hour, as of %s: $%.2f paid = $%.2f for what needs have + $%.2f idle", at(b.At), b.Paid, b.Serving, b.Idle)
	switch rest := b.Rest(); {
	case rest >= 0.005:
		text += fmt.Sprintf(" + $%.2f that drains or that no need claims", rest)
	case rest <= -0.005:
		text += fmt.Sprintf(" - $%.2f that is only being bought", -rest)
	}
	return text + "\n" + now + "\n"
}

func moneyTable(head string, rows []fleetview.MoneyRow) *terminal.Table {
	t := terminal.NewTable(head, "MACHINES", "$/H", "WITH RISK", "IDLE", "IDLE $/H", "IDLE SINCE")
	for i := range rows {
		r := &rows[i]
		name := r.Name
		if r.Capacity != "" {
			name += " " + r.Capacity
		}
		t.Row(name, r.Machines, perHour(r.List), perHour(r.Effective), r.Idle, perHour(r.IdleCost), at(r.Longest))
	}
	return t
}
