package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tonnage/tonnage/provider/simulated"
	"github.com/tonnage/tonnage/shard"
)

// repairAfter is how long a machine that a fault broke stays Failed. Without
// repairs a fleet with faults would wear away.
const repairAfter = 30 * time.Second

// clockedFleet is the built-in provider on the wall clock: what falls due is
// completed before each listing, and machines that faults broke are repaired
// after a while, as an administrator would.
type clockedFleet struct {
	*simulated.Fleet
	now    func() time.Time
	failed atomic.Int64 // calls that ended in an error

	mu     sync.Mutex
	broken []repair // by time
}

type repair struct {
	machine string
	at      time.Time
}

// List lists the fleet as it is now.
func (f *clockedFleet) List(ctx context.Context, req shard.ListRequest) (shard.ListResponse, error) {
	now := f.now()
	f.Advance(now.UnixNano())
	f.mu.Lock()
	for len(f.broken) > 0 && !f.broken[0].at.After(now) {
		// A machine that is gone or well again needs no repair.
		_ = f.Heal(f.broken[0].machine)
		f.broken = f.broken[1:]
	}
	f.mu.Unlock()
	return f.Fleet.List(ctx, req)
}

func (f *clockedFleet) Create(ctx context.Context, req shard.CreateRequest) (shard.Record, error) {
	r, err := f.Fleet.Create(ctx, req)
	return r, f.note(req.Machine, err)
}

func (f *clockedFleet) Configure(ctx context.Context, req shard.ConfigureRequest) (shard.Record, error) {
	r, err := f.Fleet.Configure(ctx, req)
	return r, f.note(req.Machine, err)
}

func (f *clockedFleet) Drain(ctx context.Context, req shard.DrainRequest) (shard.Record, error) {
	r, err := f.Fleet.Drain(ctx, req)
	return r, f.note(req.Machine, err)
}

func (f *clockedFleet) Delete(ctx context.Context, req shard.DeleteRequest) (shard.Record, error) {
	r, err := f.Fleet.Delete(ctx, req)
	return r, f.note(req.Machine, err)
}

// note counts a call's error and puts its machine down for repair. A machine
// fails at most once before it is repaired, so the list is no longer than the
// fleet.
func (f *clockedFleet) note(machine string, err error) error {
	if err == nil {
		return nil
	}
	f.failed.Add(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broken = append(f.broken, repair{machine, f.now().Add(repairAfter)})
	return err
}
