package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tonnage/tonnage/internal/whatif"
)

// Formats of what-if beside those of every command.
const (
	formatSVG  = "svg"
	formatDiff = "diff"
)

// whatIfFlags are the flags of what-if.
type whatIfFlags struct {
	source     worldFlags
	edits      string
	batch      string
	add        []string
	lose       []string
	loseRacks  []string
	loseZones  []string
	loseWhere  []string
	remove     []string
	priorities []string
	relax      []string
	sizes      []string
	prices     []string
	weights    []string
	output     string
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

  add:         [needs as in the world]
  remove:      [names of needs]
  needs:       [{name: training, priority: 900}]        # what of a need changes
  addMachines: [machines as in the world]
  pools:       [{instanceType: std, count: 3}]          # more of what is there
  lose:        [ids of machines]
  loseWhere:   [{key: topology.kubernetes.io/rack, value: r1}]
  change:      [{machine: m-1, pricePerHour: 0.4}]
  changePools: [{instanceType: std, pricePerHour: 0.4}]
  weights:     {priority: 2}

A pool is an instance type, with a capacity type and a zone where that matters
(std/Spot/zone-a), or a machine that the new ones are like. A file of several
questions (--batch) has questions: [{name: ..., and the keys above}]; each is asked
of the world as it is.

With -o svg the plans of preemption are drawn: the domain of each and its machines,
victims by class, the domains that were tried, until when machines are held.`,
		Example: `  tonnage what-if -f world.yaml --lose m-17,m-18
  tonnage what-if -f world.yaml --add gpu=2 --priority training=900 -o diff
  tonnage what-if -f world.yaml --lose-rack r1
  tonnage what-if -f world.yaml --batch questions.yaml
  tonnage what-if -f world.yaml --edits more.yaml -o svg > plan.svg
  tonnage what-if --shard http://127.0.0.1:8080 --price gpu-v100-r3-01=0.9 --weight priority=2`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return untilDone(cmd.Context(), func() error { return whatIf(cmd.Context(), s, f) })
		},
	}
	f.source.add(cmd)
	cmd.Flags().StringVar(&f.edits, "edits", "", `file of what to change, JSON or YAML; "-" reads standard input`)
	cmd.Flags().StringVar(&f.batch, "batch", "", `file of several questions, JSON or YAML; "-" reads standard input`)
	cmd.Flags().StringSliceVar(&f.add, "add", nil, "machines to add: POOL=COUNT, where a pool is TYPE, TYPE/CAPACITY, TYPE/CAPACITY/ZONE or a machine like which they are")
	cmd.Flags().StringSliceVar(&f.lose, "lose", nil, "machines to lose, by id")
	cmd.Flags().StringSliceVar(&f.loseRacks, "lose-rack", nil, "racks to lose, by the label topology.kubernetes.io/rack")
	cmd.Flags().StringSliceVar(&f.loseZones, "lose-zone", nil, "zones to lose")
	cmd.Flags().StringSliceVar(&f.loseWhere, "lose-where", nil, "machines to lose, by a label: KEY=VALUE")
	cmd.Flags().StringSliceVar(&f.priorities, "priority", nil, "new priorities: NEED=NUMBER")
	cmd.Flags().StringArrayVar(&f.relax, "relax", nil, "requirements to leave out of needs: NEED=KEY")
	cmd.Flags().StringArrayVar(&f.sizes, "size", nil, "a new size of a need, all it asks for: NEED:cpu=8,memory=32Gi")
	cmd.Flags().StringSliceVar(&f.remove, "remove", nil, "needs to take away, by name")
	cmd.Flags().StringSliceVar(&f.prices, "price", nil, "new prices an hour: MACHINE=DOLLARS, or POOL=DOLLARS for all machines of a pool")
	cmd.Flags().StringSliceVar(&f.weights, "weight", nil, "weights of the victim score: priority|drainSpeed|interruption|reclamation=NUMBER")
	cmd.Flags().StringVarP(&f.output, "output", "o", "", outputUsage+hereMark+"also diff and svg")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{formatJSON, formatYAML, formatTable, formatDiff, formatSVG}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func whatIf(ctx context.Context, s streams, f whatIfFlags) error {
	format := f.output
	if format != formatSVG && format != formatDiff {
		var err error
		if format, err = formatOf(s, f.output); err != nil {
			return err
		}
	}
	if err := f.check(format); err != nil {
		return badInput(err)
	}
	w, err := f.source.read(ctx, s)
	if err != nil {
		return err
	}
	if f.batch != "" {
		return whatIfBatch(s, &f, w, format)
	}
	edits, err := whatIfEdits(s, f, w)
	if err != nil {
		return err
	}
	decided := f.source.deciding(s, w)
	answer, err := whatif.Ask(w, edits)
	decided()
	if err != nil {
		return badInput(err)
	}
	switch format {
	case formatTable:
		return answer.WriteTable(s.out)
	case formatDiff:
		return answer.WriteDiff(s.out)
	case formatSVG:
		return answer.WriteSVG(s.out)
	}
	return answer.WriteJSON(s.out)
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
