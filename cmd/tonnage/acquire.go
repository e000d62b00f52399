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

// fitFlags adds --acquire, by default fit, and --max-machine-share to a command.
func fitFlags(cmd *cobra.Command, rule *string, share *float64) {
	acquireFlag(cmd, rule, engine.AcquireFit)
	cmd.Flags().Float64Var(share, "max-machine-share", 0, "with --acquire fit: a machine is at most this part of a Need, 0 to 1, but not less than its minimum unit, where such machines cover it; 0 = any part")
}

// checkShare refuses what is no part.
func checkShare(share float64) error {
	if !(share >= 0 && share <= 1) {
		return fmt.Errorf("--max-machine-share must be a number from 0 to 1, got %v", share)
	}
	return nil
}

// parseAcquire reads the value of --acquire.
func parseAcquire(rule string) (engine.AcquireRule, error) {
	a, err := engine.ParseAcquireRule(rule)
	if err != nil {
		return 0, badInput(fmt.Errorf("--acquire: %w", err))
	}
	return a, nil
}
