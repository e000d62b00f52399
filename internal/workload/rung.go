package workload

import (
	"fmt"
	"strings"
)

// kind says how a rung's demand is made.
type kind uint8

const (
	kindCatalog kind = iota // the calibrated catalog
	kindRows                // as many rows as possible, none of them foldable
	kindFlat                // one instance type, simple demand
)

// Rung names one size of the calibrated workload. The tiers are machines.
type Rung struct {
	Name        string
	Clusters    int
	Configured  int
	Idle        int
	Speculative int
	About       string // what it stands for
	kind        kind
}

// Machines returns the number of machines of all tiers.
func (r Rung) Machines() int { return r.Configured + r.Idle + r.Speculative }

var rungs = []Rung{
	{Name: "tiny", Clusters: 2, Configured: 305, Idle: 60, Speculative: 900, About: "two clusters, for a first look"},
	{Name: "5k", Clusters: 20, Configured: 5_800, Idle: 1_160, Speculative: 15_500, About: "one region"},
	{Name: "50k", Clusters: 200, Configured: 57_000, Idle: 11_000, Speculative: 157_000, About: "a large company"},
	{Name: "500k", Clusters: 1_000, Configured: 250_000, Idle: 50_000, Speculative: 200_000, About: "the ceiling of one shard"},
	{Name: "500k-rows", Clusters: 2_000, Configured: 250_000, Idle: 50_000, Speculative: 200_000, About: "776,000 rows of which none folds", kind: kindRows},
	{Name: "500k-flat", Clusters: 50, Configured: 450_000, Idle: 50_000, About: "many machines, simple demand", kind: kindFlat},
}

// ByName returns the rung of that name; the error lists the names there are.
func ByName(name string) (Rung, error) {
	for _, r := range rungs {
		if r.Name == name {
			return r, nil
		}
	}
	return Rung{}, fmt.Errorf("no rung named %q; use one of %s", name, strings.Join(Names(), ", "))
}

// Names returns the names of all rungs, smallest first.
func Names() []string {
	names := make([]string, len(rungs))
	for i, r := range rungs {
		names[i] = r.Name
	}
	return names
}

// Regime says how a fleet starts and what has become of its demand.
type Regime uint8

// The regimes.
const (
	// Cold: nothing is bound, the Configured tier is Idle, everything is to be
	// acquired.
	Cold Regime = iota
	// Steady: the Configured tier is bound to the rows it serves; a cycle finds
	// nothing to do.
	Steady
	// Burst: as Steady, but a tenth of the plain rows ask for twice as much, and
	// gangs of 64 to 256 machines have come; slots for them are on offer.
	Burst
	// Shrink: as Steady, but half of the rows of every tenth cluster are gone.
	Shrink
	// Contended: as Steady without Speculative slots, the rows at five
	// priorities, and the demand 130 % of all hosts.
	Contended

	numRegimes = int(Contended) + 1
)

var regimeNames = [numRegimes]string{"cold", "steady", "burst", "shrink", "contended"}

// String returns the regime's name.
func (g Regime) String() string {
	if int(g) < numRegimes {
		return regimeNames[g]
	}
	return fmt.Sprintf("Regime(%d)", uint8(g))
}

// ParseRegime returns the regime of that name; the error lists the names.
func ParseRegime(name string) (Regime, error) {
	for i, n := range regimeNames {
		if n == name {
			return Regime(i), nil
		}
	}
	return 0, fmt.Errorf("no regime named %q; use one of %s", name, strings.Join(regimeNames[:], ", "))
}
