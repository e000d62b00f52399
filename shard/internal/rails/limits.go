package rails

import "time"

// Limits are what the rails hold to. shard.Config has the same fields, and says more of them.
type Limits struct {
	BudgetInterval                                                                  time.Duration
	ReclaimCapFraction, DeleteCapFraction, ProvisionCapFraction, PreemptCapFraction float64
	BreakerShare                                                                    float64
	BreakerWindow                                                                   time.Duration
	MaxActionsPerCycle                                                              int
	DryRun                                                                          bool
}
