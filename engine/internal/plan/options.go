package plan

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/engine/internal/cover"
)

// VictimMode says how phase 2 chooses victims.
type VictimMode uint8

// The ways to choose victims.
const (
	// VictimsGang chooses victims among units. A gang is lost as a whole, or down to its minimum, or
	// not at all. Of a gang that is lost, machines that no plan uses stay bound.
	VictimsGang VictimMode = iota
	// VictimsMachine chooses machines one by one, in the order of the victim score.
	VictimsMachine

	// NumVictimModes is the number of modes.
	NumVictimModes = int(VictimsMachine) + 1
)

var victimModeNames = [NumVictimModes]string{"gang", "machine"}

// String returns the name as files spell it.
func (v VictimMode) String() string { return victimModeNames[v] }

// AcquireRule says which free machines a Need takes.
type AcquireRule uint8

// The rules of acquisition.
const (
	// AcquireCheapest takes machines one after the other, by cost.
	AcquireCheapest AcquireRule = iota
	// AcquireFit takes the machines that cover a Need at the least cost among choices that match its
	// shape, and never dearer ones than AcquireCheapest takes.
	AcquireFit

	// NumAcquireRules is the number of rules.
	NumAcquireRules = int(AcquireFit) + 1
)

var acquireRuleNames = [NumAcquireRules]string{"cheapest", "fit"}

// String returns the name as files and flags spell it.
func (a AcquireRule) String() string { return acquireRuleNames[a] }

// ParseAcquireRule returns the rule of a name; the error names the rules that there are.
func ParseAcquireRule(name string) (AcquireRule, error) {
	for a, known := range acquireRuleNames {
		if name == known {
			return AcquireRule(a), nil
		}
	}
	return 0, fmt.Errorf("unknown rule of acquisition %q; use cheapest or fit", name)
}

// Fit are the constants of AcquireFit, each from 0 to 1.
type Fit struct {
	// Lambda is λ: the part of what a machine has beyond the shape of a Need that does not count in the
	// choice, at least; of a large surplus less counts.
	Lambda float64
	// Epsilon is ε: the part of a minimum unit that each machine counts less in the choice.
	Epsilon float64
}

// DefaultFit are the constants of the contract.
var DefaultFit = Fit{Lambda: cover.LambdaDefault, Epsilon: cover.EpsilonDefault}

// BandDefault is the default of Options.Band: one priority point.
const BandDefault = 1

// Weights are the factors of the terms of the victim score.
type Weights struct {
	Priority     float64
	DrainSpeed   float64
	Interruption float64
	Reclamation  float64
}

// WeightMax is the largest weight: up to it all scores are finite.
const WeightMax = 1e9

// DefaultWeights are the weights of the contract.
var DefaultWeights = Weights{Priority: 1, DrainSpeed: 0.1, Interruption: 0.1, Reclamation: 0.1}

// Release says how long an idle machine of a releasable capacity type is kept before it is deleted; 0
// disables release of the type. Machines of other types are never released.
type Release struct {
	OnDemand time.Duration
	Spot     time.Duration
}

// DefaultRelease are the durations of the contract.
var DefaultRelease = Release{OnDemand: 10 * time.Minute, Spot: time.Minute}

// TopDomainsDefault is how many domains phase 2 searches for one Need.
const TopDomainsDefault = 8

// SearchPairsDefault is the default of Options.SearchPairs: three times as many pairs as in the most
// contended benchmark.
const SearchPairsDefault = 4 << 20

// SearchUnitsDefault is the default of Options.SearchUnits: three times as many machines as in the most
// contended benchmark.
const SearchUnitsDefault = 32 << 20

// NestedMax is the largest number of nested topology keys.
const NestedMax = 8

// CheckCyclesDefault is the default of Options.CheckCycles.
const CheckCyclesDefault = 100

// WorkersMax is the largest number of workers of an engine.
const WorkersMax = 256

// DrainSecondsDefault is the drain time, in seconds, of a machine whose instance type is not in
// Input.DrainSeconds.
const DrainSecondsDefault = 30

// ConfigureAllowanceSeconds is how long a plan of preemption may take from the end of its
// longest drain until its machines are bound. A reservation then ends.
const ConfigureAllowanceSeconds = 600

// Options are the engine's settings. Only those of the contract change an answer: weights, release,
// victims, band, top domains, search budget, nested keys, tenancy, and acquire with its constants.
type Options struct {
	// Workers is the number of workers of a cycle, 0 = GOMAXPROCS, at most WorkersMax. The answer does
	// not depend on it. One worker decides a fleet of fewer than 65,536 machines and rows together.
	Workers int
	// Pin, if not nil, is called by each worker on a thread of its own before its first task, and may
	// bind the thread to a CPU. Worker 0, the goroutine that calls Cycle, does not call it.
	Pin func(worker int)
	// Nodes are, by worker, the NUMA nodes for the worker's own memory: alloc.AnyNode where it does not
	// matter, and for workers beyond the list. It helps workers that Pin keeps near that memory. Memory
	// that workers share lies on any node, since all of them read all of it.
	Nodes   []int
	Victims VictimMode
	// Band is the width of a band of the victim score, in priority points. Within a band the gentler
	// way to free a machine goes first. 0 = the score alone decides; +Inf = the gentlest way always
	// wins. VictimsMachine ignores it.
	Band       float64
	TopDomains int
	// SearchPairs and SearchUnits bound the search for plans of preemption with VictimsGang; 0 =
	// SearchPairsDefault, SearchUnitsDefault. SearchPairs counts pairs of a Same-Need and a domain (or
	// a part of one, with Nested) in which free and preemptable machines together cover the Need,
	// before TopDomains applies. SearchUnits counts the machines of others that could be freed in these
	// pairs. Once a cycle reaches either bound, Same-Needs of lower rank make no plan in that cycle.
	SearchPairs, SearchUnits int
	// Nested are topology keys from the widest to the narrowest, at most NestedMax. Each value of a key
	// must lie in one value of the key before it. With VictimsGang, a Same-Need on one of them that
	// begins anew gets the narrowest domain that can hold it. None = a plan considers only whole
	// domains of the Need's own key.
	Nested  []string
	Weights Weights
	Release Release
	Tenancy Tenancy
	// Acquire says which free machines a Need takes.
	Acquire AcquireRule
	// Fit are the constants of AcquireFit.
	Fit Fit
	// MaxMachineShare is the largest part of a Need's aggregate, in its smallest dimension, that one
	// machine should be with AcquireFit, but not less than the minimum unit is; 0 = any. Larger ones are
	// taken if the others do not cover the Need.
	MaxMachineShare float64
	// Full makes every cycle start from nothing.
	Full bool
	// CheckCycles is the number of cycles after which an answer is checked against one from nothing; 0
	// = CheckCyclesDefault. In a large fleet it is the number of cycles in which the credit of all clusters is checked, part by part,
	// and the answer as a whole is checked after 100 times as many.
	CheckCycles int
	// Explain records why each decision was made, for Engine.ExplainNeed. Input.ExplainOnly limits it to some rows.
	Explain bool
}

// DefaultOptions returns the options of the contract.
func DefaultOptions() Options {
	return Options{Victims: VictimsGang, Band: BandDefault, TopDomains: TopDomainsDefault, Weights: DefaultWeights, Release: DefaultRelease, Fit: DefaultFit}
}

// Validate reports all faults of the options, joined; nil if there are none.
func (o *Options) Validate() error {
	var faults []error
	if o.Workers < 0 {
		faults = append(faults, fmt.Errorf("workers: must be 0 (all cores) or more, got %d", o.Workers))
	}
	if o.Workers > WorkersMax {
		faults = append(faults, fmt.Errorf("workers: must be at most %d, got %d", WorkersMax, o.Workers))
	}
	for i, node := range o.Nodes {
		if node < alloc.AnyNode {
			faults = append(faults, fmt.Errorf("nodes[%d]: must be a NUMA node or %d (any), got %d", i, alloc.AnyNode, node))
		}
	}
	if o.CheckCycles < 0 {
		faults = append(faults, fmt.Errorf("checkCycles: must be 0 (the default, %d) or more, got %d", CheckCyclesDefault, o.CheckCycles))
	}
	if o.TopDomains < 1 {
		faults = append(faults, fmt.Errorf("topDomains: must be at least 1, got %d", o.TopDomains))
	}
	if o.SearchPairs < 0 {
		faults = append(faults, fmt.Errorf("searchPairs: must be 0 (the default, %d) or more, got %d", SearchPairsDefault, o.SearchPairs))
	}
	if o.SearchUnits < 0 {
		faults = append(faults, fmt.Errorf("searchUnits: must be 0 (the default, %d) or more, got %d", SearchUnitsDefault, o.SearchUnits))
	}
	if int(o.Victims) >= NumVictimModes {
		faults = append(faults, fmt.Errorf("victims: no such way to choose victims: %d", o.Victims))
	}
	if !(o.Band >= 0) {
		faults = append(faults, fmt.Errorf("band: must be 0 or more priority points, +Inf included, got %v", o.Band))
	}
	faults = append(faults, o.acquireFaults()...)
	faults = append(faults, o.nestedFaults()...)
	faults = append(faults, o.Tenancy.faults()...)
	for _, w := range []struct {
		name  string
		value float64
	}{{"priority", o.Weights.Priority}, {"drainSpeed", o.Weights.DrainSpeed}, {"interruption", o.Weights.Interruption}, {"reclamation", o.Weights.Reclamation}} {
		if !(w.value >= 0 && w.value <= WeightMax) {
			faults = append(faults, fmt.Errorf("weights.%s: must be a number from 0 to %g, got %v", w.name, WeightMax, w.value))
		}
	}
	if o.Release.OnDemand < 0 || o.Release.Spot < 0 {
		faults = append(faults, errors.New("release: a hold cannot be negative; 0 switches release off"))
	}
	return errors.Join(faults...)
}

// acquireFaults returns the faults of the rule of acquisition and its constants.
func (o *Options) acquireFaults() (faults []error) {
	if int(o.Acquire) >= NumAcquireRules {
		faults = append(faults, fmt.Errorf("acquire: no such rule of acquisition: %d", o.Acquire))
	}
	for _, part := range []struct {
		name  string
		value float64
	}{{"fit.lambda", o.Fit.Lambda}, {"fit.epsilon", o.Fit.Epsilon}, {"maxMachineShare", o.MaxMachineShare}} {
		if !(part.value >= 0 && part.value <= 1) {
			faults = append(faults, fmt.Errorf("%s: must be a number from 0 to 1, got %v", part.name, part.value))
		}
	}
	return faults
}

// nestedFaults returns the faults of the nested keys.
func (o *Options) nestedFaults() (faults []error) {
	if len(o.Nested) > NestedMax {
		faults = append(faults, fmt.Errorf("nested: %d topology keys; at most %d are accepted", len(o.Nested), NestedMax))
	}
	for i, key := range o.Nested {
		switch {
		case key == "":
			faults = append(faults, fmt.Errorf("nested[%d]: is empty", i))
		case slices.Contains(o.Nested[:i], key):
			faults = append(faults, fmt.Errorf("nested[%d]: %q is there twice", i, key))
		}
	}
	return faults
}
