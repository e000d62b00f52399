// Package drivertest holds a driver to what package driver says of drivers. A driver's own test
// calls Run with one that makes real machines, or simulated ones.
package drivertest

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/tonnage/tonnage/provider/driver"
)

// Options say what is tried.
type Options struct {
	Driver driver.Driver
	// Reopen ends the driver and opens it again, as after a crash; nil = it has nothing to lose.
	Reopen    func() driver.Driver
	Offer     driver.Offer
	LateBound bool
	Blob      []byte        // what machines are started with
	Within    time.Duration // how long one change may take
	// Prefix begins the ids of the machines, which must be of nobody else.
	Prefix string
}

// poll is how often a driver is observed while a change is awaited.
const poll = 10 * time.Millisecond

// tester tries one driver.
type tester struct {
	*testing.T
	Options
	made int
}

// Run tries a driver. It leaves no machine behind.
func Run(t *testing.T, o Options) {
	x := &tester{T: t, Options: o}
	for _, c := range []struct {
		name string
		try  func(*tester)
	}{
		{"what does not exist is gone already", absent},
		{"a life, every verb twice", life},
		{"generations are apart", generations},
		{"what was said comes back", echo},
	} {
		t.Run(c.name, func(t *testing.T) {
			y := *x
			y.T = t
			c.try(&y)
			x.Driver, x.made = y.Driver, y.made
		})
	}
}

// next returns a machine that does not exist.
func (x *tester) next() *driver.Machine {
	x.made++
	return &driver.Machine{ID: fmt.Sprintf("%s%d", x.Prefix, x.made), Generation: 1, LateBound: x.LateBound, Offer: x.Offer}
}

// find returns what is observed of a machine, nil = nothing. A machine that is yielded twice is a fault.
func (x *tester) find(m *driver.Machine) (out *driver.Observation) {
	x.Helper()
	ctx, cancel := context.WithTimeout(x.Context(), driver.ObserveTimeout)
	defer cancel()
	err := x.Driver.Observe(ctx, func(o *driver.Observation) {
		if o.ID != m.ID || o.Generation != m.Generation {
			return
		}
		if out != nil {
			x.Errorf("machine %s/%d is yielded twice", m.ID, m.Generation)
		}
		kept := *o
		out = &kept
	})
	if err != nil {
		x.Fatalf("Observe: %v", err)
	}
	return out
}

// await waits until a machine is in a phase; 0 = gone.
func (x *tester) await(m *driver.Machine, want driver.Phase) *driver.Observation {
	x.Helper()
	deadline := time.NewTimer(x.Within)
	defer deadline.Stop()
	for {
		o := x.find(m)
		switch {
		case o == nil && want == 0, o != nil && o.Phase == want:
			return o
		case o != nil && o.Phase == driver.Failed:
			x.Fatalf("machine %s/%d failed: %s", m.ID, m.Generation, o.Reason)
		}
		again := time.NewTimer(poll)
		select {
		case <-again.C:
		case <-deadline.C:
			x.Fatalf("machine %s/%d is not %v within %v, but %+v", m.ID, m.Generation, want, x.Within, o)
		}
	}
}

// do calls a verb twice, and has the machine be observed right behind each when it must exist.
func (x *tester) do(name string, m *driver.Machine, exists bool, verb func(context.Context) error) {
	x.Helper()
	for range 2 {
		ctx, cancel := context.WithTimeout(x.Context(), driver.VerbTimeout)
		err := verb(ctx)
		cancel()
		if err != nil {
			x.Fatalf("%s of %s/%d: %v", name, m.ID, m.Generation, err)
		}
		if exists && x.find(m) == nil {
			x.Fatalf("%s of %s/%d has returned, and Observe does not have it", name, m.ID, m.Generation)
		}
	}
}

func (x *tester) binding() *driver.Binding {
	return &driver.Binding{
		Owner: driver.Owner{Shard: "shard-1", Epoch: 3, Sequence: 1 << 40}, Cluster: "drivertest",
		Metadata: map[string]string{"a": "", "": "b", "c\x00\n\"": "ä\u2028</x>"}, Blob: x.Blob,
	}
}

// up makes a machine and binds it.
func (x *tester) up(m *driver.Machine) *driver.Observation {
	x.Helper()
	if !x.LateBound {
		x.do("Create", m, true, func(ctx context.Context) error { return x.Driver.Create(ctx, m, x.binding().Owner) })
		if o := x.await(m, driver.Idle); o.Ref == "" {
			x.Errorf("machine %s is Idle without a reference", m.ID)
		}
	}
	x.do("Configure", m, true, func(ctx context.Context) error { return x.Driver.Configure(ctx, m, x.binding()) })
	return x.await(m, driver.Configured)
}

// down removes a machine.
func (x *tester) down(m *driver.Machine) {
	x.Helper()
	x.do("Delete", m, false, func(ctx context.Context) error { return x.Driver.Delete(ctx, m) })
	x.await(m, 0)
}

func absent(x *tester) {
	m := x.next()
	x.do("Drain", m, false, func(ctx context.Context) error { return x.Driver.Drain(ctx, m, time.Now()) })
	x.do("Delete", m, false, func(ctx context.Context) error { return x.Driver.Delete(ctx, m) })
	if o := x.find(m); o != nil {
		x.Errorf("a machine that was never made is %+v", o)
	}
}

func life(x *tester) {
	m := x.next()
	x.up(m)
	deadline := time.Now().Add(x.Within)
	x.do("Drain", m, false, func(ctx context.Context) error { return x.Driver.Drain(ctx, m, deadline) })
	if x.LateBound {
		x.await(m, 0)
		return
	}
	if o := x.await(m, driver.Idle); o.Cluster != "" || len(o.Metadata) > 0 {
		x.Errorf("a drained machine is %+v", o)
	}
	x.down(m)
}

func generations(x *tester) {
	first := x.next()
	x.up(first)
	second := *first
	second.Generation++
	x.do("Delete", &second, false, func(ctx context.Context) error { return x.Driver.Delete(ctx, &second) })
	x.do("Drain", &second, false, func(ctx context.Context) error { return x.Driver.Drain(ctx, &second, time.Now()) })
	if o := x.find(first); o == nil || o.Phase != driver.Configured {
		x.Errorf("verbs for another generation made it %+v", o)
	}
	x.down(first)
	x.up(&second)
	x.down(&second)
}

func echo(x *tester) {
	m := x.next()
	before := x.up(m)
	if x.Reopen != nil {
		x.Driver = x.Reopen()
	}
	b := x.binding()
	for _, o := range []*driver.Observation{before, x.await(m, driver.Configured)} {
		if o.Owner != b.Owner || o.Cluster != b.Cluster || !maps.Equal(o.Metadata, b.Metadata) {
			x.Errorf("said for %+v, %q with %q; comes back for %+v, %q with %q", b.Owner, b.Cluster, b.Metadata, o.Owner, o.Cluster, o.Metadata)
		}
		if o.Key != x.Offer.Key || o.LateBound != x.LateBound || o.Ref == "" || o.Ref != before.Ref {
			x.Errorf("of offer %+v, late-bound %t comes back %+v", x.Offer.Key, x.LateBound, o)
		}
	}
	x.down(m)
}
