package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tonnage/tonnage/internal/whatif"
	"github.com/tonnage/tonnage/internal/world"
)

const formatSVG = "svg"

// whatIfFlags are the flags of what-if.
type whatIfFlags struct {
	source  worldFlags
	edits   string
	lose    []string
	remove  []string
	prices  []string
	weights []string
	output  string
}

func newWhatIf(s streams) *cobra.Command {
	var f whatIfFlags
	cmd := &cobra.Command{
		Use:   "what-if (-f FILE | --shard URL) [changes]",
		Short: "What a change would do, and what it would cost",
		Long: `What-if decides about a world as it is, with a change, and with the change when
nothing can be bought, and puts the three side by side: what would be bound,
bought, preempted, reclaimed and given back, dollars an hour of buying beside
whom preempting would hit. Nothing is changed by asking.

The world is a file as decide reads it, or that of a running shard (--shard, the
address of its page or metrics). Changes are flags, or a file (--edits) with any
of these keys:

  add:     [needs as in the world]
  remove:  [names of needs]
  lose:    [ids of machines]
  change:  [{machine: m-1, pricePerHour: 0.4}]
  weights: {priority: 2}

With -o svg the plans of preemption are drawn: the domain of each and its machines,
victims by class, the domains that were tried, until when machines are held.`,
		Example: `  tonnage what-if -f world.yaml --lose m-17,m-18
  tonnage what-if -f world.yaml --edits more.yaml -o svg > plan.svg
  tonnage what-if --shard http://127.0.0.1:8080 --price cpu-batch-000019=0.9 --weight priority=2`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return untilDone(cmd.Context(), func() error { return whatIf(cmd.Context(), s, f) })
		},
	}
	f.source.add(cmd)
	cmd.Flags().StringVar(&f.edits, "edits", "", `what to change, JSON or YAML; "-" reads standard input`)
	cmd.Flags().StringSliceVar(&f.lose, "lose", nil, "machines to lose, by id")
	cmd.Flags().StringSliceVar(&f.remove, "remove", nil, "needs to take away, by name")
	cmd.Flags().StringSliceVar(&f.prices, "price", nil, "new prices an hour: MACHINE=DOLLARS")
	cmd.Flags().StringSliceVar(&f.weights, "weight", nil, "weights of the victim score: priority|drainSpeed|interruption|reclamation=NUMBER")
	cmd.Flags().StringVarP(&f.output, "output", "o", "", "json, table or svg (default: table on a terminal, json elsewhere)")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{formatJSON, formatTable, formatSVG}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func whatIf(ctx context.Context, s streams, f whatIfFlags) error {
	format := f.output
	if format != formatSVG {
		var err error
		if format, err = formatOf(s, f.output); err != nil {
			return err
		}
	}
	if f.source.file == "-" && f.edits == "-" {
		return badInput(errors.New("the world and the changes cannot both be standard input; name a file for one"))
	}
	w, err := f.source.read(ctx, s)
	if err != nil {
		return err
	}
	edits, err := whatIfEdits(s, f, w)
	if err != nil {
		return err
	}
	answer, err := whatif.Ask(w, edits)
	if err != nil {
		return badInput(err)
	}
	switch format {
	case formatTable:
		return answer.WriteTable(s.out)
	case formatSVG:
		return answer.WriteSVG(s.out)
	}
	return answer.WriteJSON(s.out)
}

// whatIfEdits joins the changes of the file and those of the flags.
func whatIfEdits(s streams, f whatIfFlags, w *world.World) (*world.Edits, error) {
	flags, err := editsOfFlags(&f)
	if err != nil {
		return nil, badInput(err)
	}
	out, err := w.ReadEdits(bytes.NewReader(flags))
	if err != nil {
		return nil, badInput(f.byFlag(err))
	}
	if f.edits == "" {
		return out, nil
	}
	in, err := openFile(s, f.edits)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	file, err := w.ReadEdits(in)
	if err != nil {
		return nil, faultsIn(err, f.edits)
	}
	file.Remove = append(file.Remove, out.Remove...)
	file.Lose = append(file.Lose, out.Lose...)
	file.Change = append(file.Change, out.Change...)
	file.Weights = cmp.Or(out.Weights, file.Weights)
	return file, nil
}

// editsOfFlags writes the changes of the flags as a file would.
func editsOfFlags(f *whatIfFlags) ([]byte, error) {
	doc := map[string]any{}
	if len(f.lose) > 0 {
		doc["lose"] = f.lose
	}
	if len(f.remove) > 0 {
		doc["remove"] = f.remove
	}
	var changes []map[string]any
	for _, text := range f.prices {
		machine, price, err := numberFlag("--price", "MACHINE=DOLLARS", text)
		if err != nil {
			return nil, err
		}
		changes = append(changes, map[string]any{"machine": machine, "pricePerHour": price})
	}
	if changes != nil {
		doc["change"] = changes
	}
	weights := map[string]any{}
	for _, text := range f.weights {
		name, weight, err := numberFlag("--weight", "NAME=NUMBER", text)
		if err != nil {
			return nil, err
		}
		weights[name] = weight
	}
	if len(weights) > 0 {
		doc["weights"] = weights
	}
	return json.Marshal(doc)
}

// byFlag names what is wrong with changes of flags by the flags: they were never
// in a file.
func (f *whatIfFlags) byFlag(err error) error {
	faults, ok := errors.AsType[*world.Faults](err)
	if !ok {
		return err
	}
	var all []error
	for _, fault := range faults.List {
		list, rest, _ := strings.Cut(fault.Path, "[")
		index, _, _ := strings.Cut(rest, "]")
		at, _ := strconv.Atoi(index)
		where := fault.Path
		switch list {
		case "lose", "remove":
			where = "--" + list
		case "change":
			where = "--price " + f.prices[at]
		default:
			if name, ok := strings.CutPrefix(list, "weights."); ok {
				where = "--weight " + name
			}
		}
		all = append(all, fmt.Errorf("%s: %s", where, fault.Msg))
	}
	return errors.Join(all...)
}

// numberFlag splits NAME=NUMBER.
func numberFlag(flag, form, text string) (string, json.Number, error) {
	at := strings.LastIndexByte(text, '=')
	if at > 0 {
		v, err := strconv.ParseFloat(text[at+1:], 64)
		switch {
		case err == nil && (math.IsNaN(v) || math.IsInf(v, 0)):
			return "", "", fmt.Errorf("%s %s: must be a finite number", flag, text)
		case err == nil: // as JSON writes it
			return text[:at], json.Number(strconv.FormatFloat(v, 'g', -1, 64)), nil
		}
	}
	return "", "", fmt.Errorf("%s: must be %s, got %q", flag, form, text)
}
