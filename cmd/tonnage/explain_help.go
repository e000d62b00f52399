package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/internal/advice"
	"github.com/tonnage/tonnage/internal/terminal"
	"github.com/tonnage/tonnage/internal/world"
)

// needsHelpedMax is how many needs one call may ask help for: each takes some decisions about the whole
// world.
const needsHelpedMax = 16

// explainAndHelp writes the explanation of needs, and what would help each.
func explainAndHelp(ctx context.Context, s streams, w *world.World, answer *world.Answer, format string, f *explainFlags) error {
	if n := len(answer.Explain.Needs); n > needsHelpedMax {
		return badInput(fmt.Errorf("--help-me is for at most %d needs at a time, not %d", needsHelpedMax, n))
	}
	var all []*advice.Advice
	for i := range answer.Explain.Needs {
		a, err := advice.For(ctx, w, answer.Explain.Needs[i].Name)
		if err != nil {
			return badInput(err)
		}
		all = append(all, a)
	}
	if format == formatTable {
		if err := answer.WriteExplanation(s.out, w, f.verbose); err != nil {
			return err
		}
		for _, a := range all {
			if err := a.WriteTable(s.out, f.source.flags()); err != nil {
				return err
			}
		}
		return nil
	}
	var explained bytes.Buffer
	if err := answer.WriteExplanationJSON(&explained); err != nil {
		return err
	}
	e := json.NewEncoder(s.out)
	e.SetIndent("", "  ")
	return e.Encode(struct {
		Explain json.RawMessage  `json:"explain"`
		Help    []*advice.Advice `json:"help"`
	}{explained.Bytes(), all})
}

// hintHelp says how to ask what would help the needs that are short and do not only wait for machines that drain.
func hintHelp(s streams, answer *world.Answer, f *explainFlags) error {
	names := ""
	for i := range answer.Explain.Needs {
		if n := &answer.Explain.Needs[i]; n.Reason != engine.UnmetNone && n.Reason != engine.UnmetAwaitingDrain {
			names += " " + terminal.Escape(n.Name)
		}
	}
	if names == "" {
		return nil
	}
	_, err := fmt.Fprintf(s.out, "what would help: tonnage explain need %s --help-me%s\n", terminal.Escape(f.source.flags()), names)
	return err
}
