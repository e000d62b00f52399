package coordinator

import "github.com/tonnage/tonnage/engine/model"

// Pass is what the last pass of rebalancing decided, and why.
type Pass struct {
	At        int64 // Unix nanoseconds, 0 = there was none yet
	Number    int64
	Mode      Mode
	Waits     string // why nothing was decided at all
	Young     int    // shortfalls that are not a matter of the fleet yet
	Cut       int    // shortfalls beyond DecisionsMax
	Machines  int    // that were asked for, or in dry-run would have been
	Decisions []Decision
}

// Decision is what was decided about one shortfall.
type Decision struct {
	Receiver  string
	Shortfall *Shortfall // not to be changed
	Priority  int32
	AgeCycles int32
	Deficit   model.Resources
	Verdict   Verdict
	Moves     int // machines
	Steps     []Step
	MoreSteps int // beyond DecisionStepsMax
}

// Step is one offer that was considered.
type Step struct {
	Tier    Tier
	Donor   string
	Shape   string
	Offered int
	Moves   int
	Why     Why
}

// step keeps the first steps, and those that move something before others.
func (d *Decision) step(s Step) {
	if len(d.Steps) < DecisionStepsMax {
		d.Steps = append(d.Steps, s)
		return
	}
	d.MoreSteps++
	if s.Moves == 0 {
		return
	}
	for i := len(d.Steps) - 1; i >= 0; i-- {
		if d.Steps[i].Moves == 0 {
			d.Steps[i] = s
			return
		}
	}
}

// Verdict sums a decision up.
type Verdict string

// The verdicts.
const (
	VerdictCovered    Verdict = "covered: machines are asked for that cover it"
	VerdictPartly     Verdict = "partly covered: machines are asked for that cover some of it"
	VerdictComing     Verdict = "waits: enough is on its way, or has just come"
	VerdictSame       Verdict = "never moved: its machines must share a domain, and topology does not cross shards"
	VerdictNoHandOver Verdict = "cannot: its shard does not take part in hand-overs"
	VerdictNoProvider Verdict = "cannot: its shard does not say which provider it uses"
	VerdictNoDomain   Verdict = "cannot: its shard has no domain, so it takes every machine that it sees; assign domains first"
	VerdictBusy       Verdict = "waits: as many moves as allowed are under way"
	VerdictLent       Verdict = "waits: as many machines as allowed are away from the shard whose domain they lie in"
	VerdictNoShape    Verdict = "cannot: nobody offers a machine that meets the requirements"
	VerdictNothing    Verdict = "nothing: offers fit, none can be given; see the steps"
)

// Why says what became of one offer.
type Why string

// The reasons.
const (
	WhyMoved    Why = "moves"
	WhyProvider Why = "the donor uses another provider"
	WhyResting  Why = "the two shards have moved this kind of machine just now, or are about to"
	WhyOwnNeed  Why = "the donor is short of this kind itself"
	WhyMargin   Why = "nothing is left beyond the donor's margin and what others take"
	WhyBenefit  Why = "it would bring too little"
	WhyUseless  Why = "the machine lacks something that is missing"
	WhyWorth    Why = "what runs there is worth as much: priority and penalty must both be lower"
	WhyYoung    Why = "not short for long enough to take machines in use"
	WhyCheaper  Why = "a cheaper move is under way for it"
	WhyBusy     Why = "as many moves as allowed are under way"
)

// LastPass returns what the last pass decided.
func (c *Core) LastPass() Pass { return c.lastRun }

// tiers is how many there are.
const tiers = int(TierPreempt)

// tierOf is the tier that machines in a state belong to.
func tierOf(s model.State) Tier {
	switch s {
	case model.Speculative:
		return TierSpeculative
	case model.Configured:
		return TierPreempt
	}
	return TierIdle
}
