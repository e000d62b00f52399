// Package drivertest holds a driver to what package driver says of drivers. A driver's own test
// calls Run with one that makes real machines, or simulated ones.
//
// Errors that are transient are repeated, as the provider repeats them, and are a fault only when they do not end within
// Options.Within. With a Cut in front of the far end, verbs are cut off after each of their requests in turn, and
// have to go on where they stopped.
package drivertest

import (
	"context"
	"errors"
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
	// Hosts are the hosts of a driver of owned hosts, at least one; machines are made on them in turn. nil = machines have none.
	Hosts  []string
	Blob   []byte        // what machines are started with
	Within time.Duration // how long one change may take, with repeats of transient errors
	// Cluster is for which cluster machines are; empty = drivertest.
	Cluster string
	// Prefix begins the ids of the machines, which must be of nobody else.
	Prefix string
	// Cut stands in front of the driver's far end; nil = no verb is cut off.
	Cut *Cut
	// Take has somebody else use a host by hand, whatever claim it has; nil = that is not tried.
	Take func(host string) Taking
}

// Taking is a host in somebody else's use.
type Taking struct {
	// Harmed says what the driver has done to the host since, nil = nothing that its user would notice.
	Harmed func() error
	// End has the user leave the host as it was found.
	End func()
}

const (
	// poll is how often a driver is observed while a change is awaited, and the first wait after a transient error.
	poll = 10 * time.Millisecond
	// retryMax is the longest wait after a transient error.
	retryMax = time.Second
)

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
		runs bool
		try  func(*tester)
	}{
		{"what does not exist is gone already", true, absent},
		{"a life, every verb twice", true, life},
		{"generations are apart", true, generations},
		{"what was said comes back", true, echo},
		{"verbs go on where they were cut off", o.Cut != nil, cutOff},
		{"a host has one machine", len(o.Hosts) > 0, oneMachine},
		{"a host that somebody else uses is left alone", o.Take != nil, taken},
	} {
		if !c.runs {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			y := *x
			y.T = t
			defer func() { x.Driver, x.made = y.Driver, y.made }() // also of one that fails
			c.try(&y)
		})
	}
}

// next returns a machine that does not exist.
func (x *tester) next() *driver.Machine {
	m := &driver.Machine{Generation: 1, LateBound: x.LateBound, Offer: x.Offer}
	if len(x.Hosts) > 0 {
		m.Host = x.Hosts[x.made%len(x.Hosts)]
	}
	x.made++
	m.ID = fmt.Sprintf("%s%d", x.Prefix, x.made)
	return m
}

// repeat makes a call until it ends otherwise than in a transient error, as the provider does. It returns that
// error, or the last transient one.
func (x *tester) repeat(what string, within time.Duration, call func(context.Context) error) error {
	x.Helper()
	end := time.Now().Add(within)
	for wait := poll; ; wait = min(2*wait, retryMax) {
		ctx, cancel := context.WithTimeout(x.Context(), driver.VerbTimeout)
		err := call(ctx)
		cancel()
		if err == nil || errors.Is(err, driver.ErrPermanent) || errors.Is(err, driver.ErrOutOfStock) || time.Now().Add(wait).After(end) {
			return err
		}
		x.Logf("%s: %v; it is called again", what, err)
		pause(wait)
	}
}

func pause(d time.Duration) { <-time.After(d) }

// find returns what is observed of a machine, nil = nothing. A machine that is yielded twice, or lacks what its phase needs, is
// a fault.
func (x *tester) find(m *driver.Machine) (out *driver.Observation) {
	x.Helper()
	err := x.repeat("Observe", x.Within, func(ctx context.Context) error {
		out = nil
		return x.Driver.Observe(ctx, func(o *driver.Observation) {
			if o.ID != m.ID || o.Generation != m.Generation {
				return
			}
			if out != nil {
				x.Errorf("machine %s/%d is yielded twice", m.ID, m.Generation)
			}
			kept := *o
			out = &kept
		})
	})
	if err != nil {
		x.Fatalf("Observe: %v", err)
	}
	if out != nil {
		x.whole(m, out)
	}
	return out
}

// whole holds an observation to what its phase needs.
func (x *tester) whole(m *driver.Machine, o *driver.Observation) {
	x.Helper()
	if o.Key != x.Offer.Key || o.LateBound != x.LateBound || o.HostName != m.Host {
		x.Errorf("machine %s of offer %+v, late-bound %t, on host %q is observed as %+v", m.ID, x.Offer.Key, x.LateBound, m.Host, o)
	}
	switch p := o.Phase; {
	case p < driver.Creating || p > driver.Failed:
		x.Errorf("machine %s is in %v, which is no phase", m.ID, p)
	case o.Ref == "" && (p == driver.Idle || p == driver.Configured || p == driver.Draining):
		x.Errorf("machine %s is %v without a Ref", m.ID, p)
	case o.Node == "" && p == driver.Configured:
		x.Errorf("machine %s is Configured without a Node", m.ID)
	case o.Reason == "" && p == driver.Failed:
		x.Errorf("machine %s is Failed without a Reason", m.ID)
	case (o.OutOfStock || o.Taken) && p != driver.Failed:
		x.Errorf("machine %s is %v, and OutOfStock or Taken, which are said of Failed ones", m.ID, p)
	}
}

// await waits until a machine is in a phase; 0 = gone.
func (x *tester) await(m *driver.Machine, want driver.Phase) *driver.Observation {
	x.Helper()
	return x.awaitThat(m, fmt.Sprint(want), func(o *driver.Observation) bool { return o == nil && want == 0 || o != nil && o.Phase == want })
}

func (x *tester) awaitThat(m *driver.Machine, want string, is func(*driver.Observation) bool) *driver.Observation {
	x.Helper()
	for end := time.Now().Add(x.Within); ; pause(poll) {
		switch o := x.find(m); {
		case is(o):
			return o
		case o != nil && o.Phase == driver.Failed:
			x.Fatalf("machine %s/%d failed: %s", m.ID, m.Generation, o.Reason)
		case time.Now().After(end):
			x.Fatalf("machine %s/%d is not %s within %v, but %+v", m.ID, m.Generation, want, x.Within, o)
		}
	}
}

// call is a verb for a machine, and the phase in which its change ends; 0 = gone.
type call struct {
	name string
	ends driver.Phase
	verb func(context.Context, *driver.Machine) error
}

func (x *tester) create() call {
	return call{"Create", driver.Idle, func(ctx context.Context, m *driver.Machine) error { return x.Driver.Create(ctx, m, x.owner(1)) }}
}

func (x *tester) configure() call {
	return call{"Configure", driver.Configured, func(ctx context.Context, m *driver.Machine) error { return x.Driver.Configure(ctx, m, x.binding()) }}
}

func (x *tester) drain() call {
	c := call{"Drain", driver.Idle, func(ctx context.Context, m *driver.Machine) error {
		return x.Driver.Drain(ctx, m, time.Now().Add(x.Within))
	}}
	if x.LateBound {
		c.ends = 0
	}
	return c
}

func (x *tester) delete() call {
	return call{"Delete", 0, func(ctx context.Context, m *driver.Machine) error { return x.Driver.Delete(ctx, m) }}
}

// twice calls a verb twice, and has the machine be observed right behind each when it must exist.
func (x *tester) twice(c call, m *driver.Machine, exists bool) {
	x.Helper()
	for range 2 {
		if err := x.repeat(c.name, x.Within, func(ctx context.Context) error { return c.verb(ctx, m) }); err != nil {
			x.Fatalf("%s of %s/%d: %v", c.name, m.ID, m.Generation, err)
		}
		if exists && x.find(m) == nil {
			x.Fatalf("%s of %s/%d has returned, and Observe does not have it", c.name, m.ID, m.Generation)
		}
	}
}

// owner is that of the n-th call.
func (x *tester) owner(n int64) driver.Owner {
	return driver.Owner{Shard: "shard-1", Epoch: 3, Sequence: 1<<40 + n}
}

func (x *tester) binding() *driver.Binding {
	cluster := x.Cluster
	if cluster == "" {
		cluster = "drivertest"
	}
	return &driver.Binding{
		Owner: x.owner(2), Cluster: cluster,
		Metadata: map[string]string{"a": "", "": "b", "c\x00\n\"": "ä\u2028</x>"}, Blob: x.Blob,
	}
}

// up makes a machine and binds it.
func (x *tester) up(m *driver.Machine) *driver.Observation {
	x.Helper()
	if !x.LateBound {
		x.twice(x.create(), m, true)
		x.said(x.await(m, driver.Idle), m)
	}
	x.twice(x.configure(), m, true)
	return x.await(m, driver.Configured)
}

// down removes a machine.
func (x *tester) down(m *driver.Machine) {
	x.Helper()
	x.twice(x.delete(), m, false)
	x.await(m, 0)
}

// said holds an observation of a settled machine to what Create or Configure has brought.
func (x *tester) said(o *driver.Observation, m *driver.Machine) {
	x.Helper()
	want := driver.Binding{Owner: x.owner(1)}
	switch o.Phase {
	case driver.Configured:
		want = *x.binding()
	case driver.Idle:
		if o.Owner == x.owner(2) { // of one that was drained
			want.Owner = o.Owner
		}
	default:
		return
	}
	if o.Owner != want.Owner || o.Cluster != want.Cluster || len(o.Metadata) != len(want.Metadata) || !maps.Equal(o.Metadata, want.Metadata) {
		x.Errorf("machine %s is %v; said for %+v, %q with %q; comes back for %+v, %q with %q", m.ID, o.Phase, want.Owner, want.Cluster, want.Metadata, o.Owner, o.Cluster, o.Metadata)
	}
}

func absent(x *tester) {
	m := x.next()
	x.twice(x.drain(), m, false)
	x.twice(x.delete(), m, false)
	if o := x.find(m); o != nil {
		x.Errorf("a machine that was never made is %+v", o)
	}
}

func life(x *tester) {
	m := x.next()
	x.up(m)
	x.twice(x.drain(), m, false)
	if x.LateBound {
		x.await(m, 0)
		return
	}
	x.said(x.await(m, driver.Idle), m)
	x.down(m)
}

func generations(x *tester) {
	first := x.next()
	x.up(first)
	second := *first
	second.Generation++
	x.twice(x.delete(), &second, false)
	x.twice(x.drain(), &second, false)
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
	after := x.await(m, driver.Configured)
	x.said(before, m)
	x.said(after, m)
	if after.Ref != before.Ref {
		x.Errorf("the Ref was %q and is %q", before.Ref, after.Ref)
	}
	x.down(m)
}
