package trace

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The limits of the options.
const (
	SpeedMax    = 86_400
	ClustersMax = 1_000
)

// Defaults of the options.
const (
	SpeedDefault    = 3_600
	IntervalDefault = 10 * time.Second
	SlotsPerType    = 32
)

// Offer says which speculative capacity is on sale.
type Offer uint8

// The offers.
const (
	// OfferDefault sells plain machines and GPU models that the trace does not
	// have: pods that take any model can use them, pods that name one cannot.
	OfferDefault Offer = iota
	// OfferNone sells nothing.
	OfferNone
	// OfferEquivalents also sells the models of the trace that have a public
	// equivalent (T4, V100).
	OfferEquivalents
)

var offerNames = []string{"default", "none", "equivalents"}

// String returns the offer's name.
func (o Offer) String() string {
	if int(o) < len(offerNames) {
		return offerNames[o]
	}
	return fmt.Sprintf("Offer(%d)", uint8(o))
}

// ParseOffer returns the offer of that name; the error lists the names.
func ParseOffer(name string) (Offer, error) {
	if i := slices.Index(offerNames, name); i >= 0 {
		return Offer(i), nil
	}
	return 0, fmt.Errorf("no offer named %q; use one of %s", name, strings.Join(offerNames, ", "))
}

// lists are the pod lists of the trace.
var lists = []string{"default", "gpushare40", "gpuspec33", "multigpu20"}

// Lists returns the names of the pod lists.
func Lists() []string { return slices.Clone(lists) }

// Options say how a trace is replayed. Zero fields take their defaults.
type Options struct {
	// List names the pod list: default, gpushare40, gpuspec33 or multigpu20.
	List string
	// Speed is seconds of trace per second, up to SpeedMax.
	Speed float64
	// ArrivalsOnly keeps every pod for ever once it has been created.
	ArrivalsOnly bool
	// Clusters is in how many clusters the pods are split, by hash of name.
	Clusters int
	// Seed changes which cluster a pod belongs to.
	Seed uint64
	// Interval is the time between two roll-ups of a cluster, in trace time.
	Interval time.Duration
	// Offer says which speculative capacity is on sale.
	Offer Offer
}

// withDefaults fills in what is not set and returns every fault.
func (o Options) withDefaults() (Options, error) {
	if o.List == "" {
		o.List = lists[0]
	}
	if o.Speed == 0 {
		o.Speed = SpeedDefault
	}
	if o.Clusters == 0 {
		o.Clusters = 1
	}
	if o.Interval == 0 {
		o.Interval = IntervalDefault
	}
	var faults []error
	if !slices.Contains(lists, o.List) {
		faults = append(faults, fmt.Errorf("no pod list named %q; use one of %s", o.List, strings.Join(lists, ", ")))
	}
	if !(o.Speed > 0 && o.Speed <= SpeedMax) {
		faults = append(faults, fmt.Errorf("speed must be above 0x and at most %dx, got %vx", SpeedMax, o.Speed))
	}
	if o.Clusters < 1 || o.Clusters > ClustersMax {
		faults = append(faults, fmt.Errorf("clusters must be 1 to %d, got %d", ClustersMax, o.Clusters))
	}
	if o.Interval < time.Second {
		faults = append(faults, fmt.Errorf("roll-up interval must be at least 1s of trace time, got %s", o.Interval))
	}
	if int(o.Offer) >= len(offerNames) {
		faults = append(faults, fmt.Errorf("no such offer: %d", o.Offer))
	}
	return o, errors.Join(faults...)
}

// ParseSpeed reads a speed as "3600x" or "3600".
func ParseSpeed(s string) (float64, error) {
	v, err := strconv.ParseFloat(strings.TrimSuffix(s, "x"), 64)
	if err != nil || !(v > 0 && v <= SpeedMax) {
		return 0, fmt.Errorf("speed %q is not a number above 0 and at most %d; write it like 3600x", s, SpeedMax)
	}
	return v, nil
}
