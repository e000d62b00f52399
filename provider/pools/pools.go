package pools

import (
	"encoding/json"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/driver"
)

// The limits of a file.
const (
	DriversMax  = 256
	QuotasMax   = 1024
	PoolsMax    = 1024
	TypesMax    = 4096      // of a pool
	ZonesMax    = 256       // of a pool
	OffersMax   = 1 << 16   // of all pools
	MachinesMax = 1 << 20   // of a pool or a quota
	TaintsMax   = 64        // of a pool
	LaunchesMax = 1_000_000 // a minute
	TimeoutMax  = 24 * time.Hour
	// FreeSlotsMax is how many free slots of each offer are listed at most.
	FreeSlotsMax = 64
)

// Labels that a listed machine carries beside those of its pool.
const (
	LabelLateBound = model.LabelLateBound // "true": made when it is bound
	LabelPool      = "tonnage.dev/pool"
	LabelHost      = "tonnage.dev/host" // the owned host
)

// Defaults of what a file leaves out.
const (
	LaunchesDefault   = 60.0 // a minute
	BurstDefault      = 20
	CreateDefault     = 15 * time.Minute
	ConfigureDefault  = 20 * time.Minute
	DrainDefault      = 10 * time.Minute // beside the grace
	DeleteDefault     = 15 * time.Minute
	KeepFailedDefault = 10 * time.Minute
)

// File is what a pools file says. It is not changed after it was read.
type File struct {
	Drivers []Driver
	Quotas  []Quota
	Pools   []Pool
}

// Driver is one account, cluster or other place where machines are made.
type Driver struct {
	Name string
	Kind string
	// LaunchesPerMinute and LaunchBurst are a token bucket over all machines that the driver makes.
	LaunchesPerMinute float64
	LaunchBurst       int
	Config            json.RawMessage // the driver's own; nil = none
}

// Quota limits what pools have together.
type Quota struct {
	Name      string
	Machines  int             // 0 = no limit
	Resources model.Resources // nominal; a resource that is not named has no limit
}

// Pool is a set of offers that one driver makes in one way.
type Pool struct {
	Name   string
	Driver string
	// Owned machines exist without being bought: they are Idle from the start.
	Owned     bool
	LateBound bool
	Machines  int      // at most so many that are no free slots
	Hosts     []string // of an owned pool: one machine for each, in place of Machines
	Quotas    []string
	Timeouts  Timeouts
	// KeepFailed is how long a Failed machine is listed after everything of it was removed.
	KeepFailed time.Duration
	FreeSlots  int // of each offer, at most FreeSlotsMax
	Offers     []*driver.Offer
}

// Traits are what drivers must know of the pool.
func (p *Pool) Traits() driver.PoolTraits {
	return driver.PoolTraits{LateBound: p.LateBound, Owned: p.Owned, Hosts: len(p.Hosts) > 0}
}

// Timeouts say how long each change may take before the machine is Failed.
type Timeouts struct {
	Create, Configure, Drain, Delete time.Duration
}

// Pool returns the pool of a name, nil = there is none.
func (f *File) Pool(name string) *Pool {
	for i := range f.Pools {
		if f.Pools[i].Name == name {
			return &f.Pools[i]
		}
	}
	return nil
}

// OfKind returns the pools whose driver is one of the kind, with that driver.
func (f *File) OfKind(kind string, yield func(*Driver, *Pool)) {
	for i := range f.Drivers {
		if f.Drivers[i].Kind != kind {
			continue
		}
		for k := range f.Pools {
			if f.Pools[k].Driver == f.Drivers[i].Name {
				yield(&f.Drivers[i], &f.Pools[k])
			}
		}
	}
}
