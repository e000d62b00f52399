package engine

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// VictimMode says how phase 2 chooses victims.
type VictimMode uint8

// VictimsMachine takes victims one by one, in the order of the victim score.
const (
	VictimsMachine VictimMode = iota
)

// Weights are the factors of the victim score's terms.
type Weights struct {
	Priority     float64
	DrainSpeed   float64
	Interruption float64
	Reclamation  float64
}

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

// DrainSecondsDefault is the drain time of a machine whose own is not known.
const DrainSecondsDefault = 30

// Options are the engine's settings. None of them but those named in the
// contract (weights, release, victims, top domains) changes an answer.
type Options struct {
	// Workers is the number of workers of a cycle, 0 = GOMAXPROCS. The answer
	// never depends on it. A cycle is one sequential pass so far: the number is
	// checked and has no effect.
	Workers    int
	Victims    VictimMode
	TopDomains int
	Weights    Weights
	Release    Release
	// Explain keeps, in the plan, why each decision fell as it did.
	Explain bool
}

// DefaultOptions returns the options of the contract.
func DefaultOptions() Options {
	return Options{Victims: VictimsMachine, TopDomains: TopDomainsDefault, Weights: DefaultWeights, Release: DefaultRelease}
}

// Validate returns every fault of the options.
func (o *Options) Validate() error {
	var faults []error
	if o.Workers < 0 {
		faults = append(faults, fmt.Errorf("workers: must be 0 (all cores) or more, got %d", o.Workers))
	}
	if o.TopDomains < 1 {
		faults = append(faults, fmt.Errorf("topDomains: must be at least 1, got %d", o.TopDomains))
	}
	for _, w := range []struct {
		name  string
		value float64
	}{{"priority", o.Weights.Priority}, {"drainSpeed", o.Weights.DrainSpeed}, {"interruption", o.Weights.Interruption}, {"reclamation", o.Weights.Reclamation}} {
		if !(w.value >= 0) || math.IsInf(w.value, 0) {
			faults = append(faults, fmt.Errorf("weights.%s: must be a finite number, at least 0, got %v", w.name, w.value))
		}
	}
	if o.Release.OnDemand < 0 || o.Release.Spot < 0 {
		faults = append(faults, errors.New("release: a hold cannot be negative; 0 switches release off"))
	}
	return errors.Join(faults...)
}
