package engine

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/engine/model"
)

// VictimMode says how phase 2 chooses victims.
type VictimMode uint8

// The ways to choose victims.
const (
	// VictimsGang chooses among units: a gang is lost as a whole, or down to what it can
	// live with, or not at all. Of one that is lost what nobody uses stays bound.
	VictimsGang VictimMode = iota
	// VictimsMachine takes victims one by one, in the order of the victim score.
	VictimsMachine

	// NumVictimModes is the number of ways.
	NumVictimModes = int(VictimsMachine) + 1
)

var victimModeNames = [NumVictimModes]string{"gang", "machine"}

// String returns the name as files spell it.
func (v VictimMode) String() string { return victimModeNames[v] }

// BandDefault is the width of a band of the victim score: one priority point.
const BandDefault = 1

// TenantsMax is the most tenants of a policy.
const TenantsMax = 1024

// Tenancy is the policy of reclaim between tenants, which takes from those
// above their share for those below. None by default: priority is then the only
// throttle.
type Tenancy struct {
	// Tenants are at most TenantsMax. Clusters of none are neither taken from
	// nor given to.
	Tenants []Tenant
}

// Tenant is a named set of clusters and what is theirs by right.
type Tenant struct {
	Name     string
	Clusters []string
	// Share is what the tenant's machines may have in all without being taken
	// from; a dimension that it does not name has no share.
	Share model.Resources
}

// Weights are the factors of the victim score's terms.
type Weights struct {
	Priority     float64
	DrainSpeed   float64
	Interruption float64
	Reclamation  float64
}

// WeightMax is the largest weight: with it all scores are finite.
const WeightMax = 1e9

// DefaultWeights are the weights of the contract.
var DefaultWeights = Weights{Priority: 1, DrainSpeed: 0.1, Interruption: 0.1, Reclamation: 0.1}

// Release says how long an idle machine of a releasable capacity type is kept
// before it is deleted; 0 switches the type's release off. Other types cannot
// be released at all.
type Release struct {
	OnDemand time.Duration
	Spot     time.Duration
}

// DefaultRelease are the holds of the contract.
var DefaultRelease = Release{OnDemand: 10 * time.Minute, Spot: time.Minute}

// TopDomainsDefault is how many domains phase 2 tries for one Need.
const TopDomainsDefault = 8

// SearchPairsDefault is how many pairs of a Same-Need and a domain that could hold it
// phase 2 looks at in one cycle: three times as many as the most contended rung has.
const SearchPairsDefault = 4 << 20

// SearchUnitsDefault is how many machines are offered in these pairs in one cycle: three
// times as many as in the most contended rung.
const SearchUnitsDefault = 32 << 20

// NestedMax is the most nested topology keys.
const NestedMax = 8

// CheckCyclesDefault is after how many cycles an answer is checked.
const CheckCyclesDefault = 100

// WorkersMax is the most workers of an engine.
const WorkersMax = 256

// DrainSecondsDefault is the drain time of a machine whose own is not known.
const DrainSecondsDefault = 30

// Options are the engine's settings. None of them but those named in the
// contract (weights, release, victims, band, top domains, the budget of the
// search, nested keys, tenancy) changes an answer.
type Options struct {
	// Workers is the number of workers of a cycle, 0 = GOMAXPROCS, at most
	// WorkersMax. The answer never depends on it. A fleet of fewer than 65,536
	// machines and rows together is decided by one, unless needs race.
	Workers int
	// Pin, if there is one, is called by each worker but the first, which is
	// whoever calls Cycle, on a thread of its own before its first task: it may
	// bind the thread to a CPU.
	Pin func(worker int)
	// Nodes are, by worker, the NUMA nodes on which memory of the worker's own shall
	// lie, alloc.AnyNode where it does not matter; workers beyond the list take any.
	// It is of use for those that Pin keeps near that memory. What workers share lies
	// anywhere: all of them read all of it.
	Nodes   []int
	Victims VictimMode
	// Band is the width of a band of the victim score in priority points: within
	// a band the gentler way to free a machine goes first. 0 = the score alone
	// decides, +Inf = the gentlest way always does. It has no effect on
	// VictimsMachine.
	Band       float64
	TopDomains int
	// SearchPairs and SearchUnits bound the search for plans of preemption, with VictimsGang. SearchPairs
	// counts the pairs of a Same-Need and a domain (or a part of one, with Nested) in which everything together covers
	// it, before TopDomains; SearchUnits the machines of others that could be freed there. Once one of them is reached in
	// a cycle, Same-Needs of lower rank make no plan in that cycle. 0 = SearchPairsDefault, SearchUnitsDefault.
	SearchPairs, SearchUnits int
	// Nested are topology keys from the widest to the narrowest, at most NestedMax,
	// each of whose values lies in one value of the key before. With VictimsGang a
	// Same-Need on one of them that begins anew is freed the narrowest domain that can hold
	// it. None = only whole domains of its own key.
	Nested  []string
	Weights Weights
	Release Release
	Tenancy Tenancy
	// Full makes every cycle look at everything anew.
	Full bool
	// CheckCycles is after how many cycles the answer is checked against one
	// that builds on nothing; 0 = CheckCyclesDefault.
	CheckCycles int
	// Explain keeps, in the plan, why each decision fell as it did.
	Explain bool
}

// DefaultOptions returns the options of the contract.
func DefaultOptions() Options {
	return Options{Victims: VictimsGang, Band: BandDefault, TopDomains: TopDomainsDefault, Weights: DefaultWeights, Release: DefaultRelease}
}

// Validate returns every fault of the options.
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

// faults returns what is wrong with the policy.
func (t *Tenancy) faults() (faults []error) {
	if len(t.Tenants) > TenantsMax {
		return []error{fmt.Errorf("tenancy: %d tenants; at most %d are accepted", len(t.Tenants), TenantsMax)}
	}
	names, owner := map[string]bool{}, map[string]string{}
	for i := range t.Tenants {
		x := &t.Tenants[i]
		switch {
		case x.Name == "":
			faults = append(faults, fmt.Errorf("tenancy.tenants[%d].name: is missing", i))
		case names[x.Name]:
			faults = append(faults, fmt.Errorf("tenancy.tenants[%d].name: %q is used twice", i, x.Name))
		}
		names[x.Name] = true
		if !x.Share.Canonical() {
			faults = append(faults, fmt.Errorf("tenancy.tenants[%d].share: must be sorted by name, each name once and each value positive", i))
		}
		for j, c := range x.Clusters {
			if other, taken := owner[c]; taken {
				faults = append(faults, fmt.Errorf("tenancy.tenants[%d].clusters[%d]: %q is a cluster of tenant %q already", i, j, c, other))
			}
			owner[c] = x.Name
		}
	}
	return faults
}
