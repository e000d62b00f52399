package drivertest

import (
	"context"
	"errors"

	"github.com/tonnage/tonnage/provider/driver"
)

// oneMachine tries verbs of a second machine on a host that has one.
func oneMachine(x *tester) {
	first := x.next()
	x.up(first)
	second := x.next()
	second.Host = first.Host
	for _, c := range []call{x.create(), x.configure()} {
		// A few times: the error may be about something else.
		if err := x.repeat(c.name, 10*poll, func(ctx context.Context) error { return c.verb(ctx, second) }); err == nil {
			x.Errorf("host %s is machine %s; %s makes it machine %s too", first.Host, first.ID, c.name, second.ID)
		}
	}
	x.twice(x.drain(), second, false)
	x.twice(x.delete(), second, false)
	if o := x.find(second); o != nil {
		x.Errorf("a machine whose host was refused is %+v", o)
	}
	o := x.find(first)
	if o == nil || o.Phase != driver.Configured {
		x.Fatalf("verbs for another machine on its host made it %+v", o)
	}
	x.said(o, first)
	x.down(first)
}

// taken has somebody else use hosts: one that is in use by us, and one that is not.
func taken(x *tester) {
	m := x.next()
	x.twice(x.create(), m, true)
	x.await(m, driver.Idle)
	by := x.Take(m.Host)
	seen := x.awaitThat(m, "Taken, nor gone", func(o *driver.Observation) bool { return o == nil || o.Phase == driver.Failed })
	if seen != nil && !seen.Taken {
		x.Errorf("host %s is in somebody else's use, and its machine is Failed and not Taken: the provider would call Delete", m.Host)
	}
	// A person may ask for it, where the machine is an orphan.
	ctx, cancel := context.WithTimeout(x.Context(), driver.VerbTimeout)
	err := x.Driver.Delete(ctx, m)
	cancel()
	x.Logf("Delete of a machine whose host is in somebody else's use: %v", err)
	if err := by.Harmed(); err != nil {
		x.Errorf("Delete on a host in somebody else's use: %v", err)
	}
	by.End()
	x.down(m)

	m = x.next()
	by = x.Take(m.Host)
	c := x.create()
	if err := x.repeat(c.name, x.Within, func(ctx context.Context) error { return c.verb(ctx, m) }); !errors.Is(err, driver.ErrPermanent) {
		x.Errorf("Create on a host in somebody else's use: %v, want a permanent error", err)
	}
	if o := x.find(m); o != nil {
		x.Errorf("a machine whose host is in somebody else's use was made: %+v", o)
	}
	if err := by.Harmed(); err != nil {
		x.Errorf("Create on a host in somebody else's use: %v", err)
	}
	by.End()
	x.down(m)
}
