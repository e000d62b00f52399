package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tonnage/tonnage/engine"
)

// acquireFlag adds --acquire to a command.
func acquireFlag(cmd *cobra.Command, rule *string, byDefault engine.AcquireRule) {
	rules := []string{engine.AcquireCheapest.String(), engine.AcquireFit.String()}
	cmd.Flags().StringVar(rule, "acquire", byDefault.String(), "which free machines a Need takes: cheapest = one after the other, by cost; fit = those that cover it at the least cost, in its shape")
	_ = cmd.RegisterFlagCompletionFunc("acquire", cobra.FixedCompletions(rules, cobra.ShellCompDirectiveNoFileComp))
}

// parseAcquire reads the value of --acquire.
func parseAcquire(rule string) (engine.AcquireRule, error) {
	a, err := engine.ParseAcquireRule(rule)
	if err != nil {
		return 0, badInput(fmt.Errorf("--acquire: %w", err))
	}
	return a, nil
}
