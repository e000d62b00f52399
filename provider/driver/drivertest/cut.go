package drivertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/tonnage/tonnage/provider/driver"
)

// ErrCut is what Pass returns for a request that does not get through.
var ErrCut = errors.New("503 Service Unavailable: the request was cut off by drivertest")

// requestsMax is how many requests one verb makes at most.
const requestsMax = 64

// Cut stands between a driver and its far end: requests pass it, at random some do not, and none do after the
// n-th of a verb that is to be cut off. Safe for concurrent use.
type Cut struct {
	mu      sync.Mutex
	rng     *rand.Rand
	failing float64
	armed   bool
	left    int // requests that still pass, while armed
	hit     bool
}

// NewCut returns a Cut at which a share of all requests fails, from 0 to 1; which ones follows from the seed.
func NewCut(seed uint64, failing float64) *Cut {
	return &Cut{rng: rand.New(rand.NewPCG(seed, 0x637574)), failing: failing}
}

// Pass tells whether a request gets through; the far end asks before it carries one out.
func (c *Cut) Pass() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.armed {
		c.left--
		if c.left < 0 {
			c.hit = true
			return ErrCut
		}
		return nil
	}
	if c.rng.Float64() < c.failing {
		return ErrCut
	}
	return nil
}

// Handler puts the Cut in front of a far end that speaks HTTP. What does not get through is answered with 503; the first
// request after the last that passes is carried out, and its answer is lost.
func (c *Cut) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := c.Pass(); err != nil {
			if c.first() {
				next.ServeHTTP(httptest.NewRecorder(), r)
			}
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// first tells whether the request that was just cut off is the first one.
func (c *Cut) first() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.armed && c.left == -1
}

// arm lets so many requests pass and no more, until disarm, which tells whether any was cut off.
func (c *Cut) arm(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed, c.left, c.hit = true, n, false
}

func (c *Cut) disarm() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed = false
	return c.hit
}

// cutOff takes machines through their lives with each verb cut off after n requests, for every n.
func cutOff(x *tester) {
	lives := [][]call{{x.create(), x.configure(), x.drain(), x.delete()}, {x.create(), x.configure(), x.delete()}}
	if x.LateBound {
		lives = [][]call{{x.configure(), x.drain()}, {x.configure(), x.delete()}}
	}
	for _, verbs := range lives {
		for n, hit := 0, true; hit; n++ {
			if n > requestsMax {
				x.Fatalf("a verb makes more than %d requests", requestsMax)
			}
			hit = false
			m := x.next()
			for _, c := range verbs {
				hit = x.cutOffAt(c, m, n) || hit
			}
		}
	}
}

// cutOffAt calls a verb with n requests that pass, opens the driver anew, and brings the change to its end as the provider
// does: it calls the verb until it is accepted, unless the change is seen to have ended. It tells whether the verb was cut off.
func (x *tester) cutOffAt(c call, m *driver.Machine, n int) bool {
	x.Helper()
	what := fmt.Sprintf("%s of %s/%d, cut off after %d requests", c.name, m.ID, m.Generation, n)
	x.Cut.arm(n)
	ctx, cancel := context.WithTimeout(x.Context(), driver.VerbTimeout)
	err := c.verb(ctx, m)
	cancel()
	hit := x.Cut.disarm()
	if errors.Is(err, driver.ErrPermanent) || errors.Is(err, driver.ErrOutOfStock) {
		x.Fatalf("%s, is no transient error: %v", what, err)
	}
	if hit && x.Reopen != nil {
		x.Driver = x.Reopen()
	}
	x.bringToItsEnd(c, m, what, err == nil)
	return hit
}

// bringToItsEnd calls a verb until it is accepted, and waits until the change is seen to have ended.
func (x *tester) bringToItsEnd(c call, m *driver.Machine, what string, accepted bool) {
	x.Helper()
	absent := 0
	for end := time.Now().Add(x.Within); ; pause(poll) {
		o := x.find(m)
		if absent++; o != nil {
			absent = 0
		}
		switch {
		case o != nil && o.Phase == driver.Failed && c.name != "Delete": // a Failed one is deleted again
			x.Fatalf("%s, made the machine Failed: %s", what, o.Reason)
		case c.ends == 0 && absent > 1 && accepted:
			return
		case o != nil && o.Phase == c.ends && !o.Incomplete:
			x.said(o, m)
			return
		case time.Now().After(end):
			x.Fatalf("%s, and called again: the machine is not %v within %v, but %+v", what, c.ends, x.Within, o)
		case accepted && !x.isToRepeat(c, o):
			continue
		}
		if err := x.repeat(what+", and called again", x.Within, func(ctx context.Context) error { return c.verb(ctx, m) }); err != nil {
			x.Fatalf("%s, and called again: %v", what, err)
		}
		accepted = true
	}
}

// isToRepeat reports whether the provider calls a verb again that was accepted, given what is observed.
func (x *tester) isToRepeat(c call, o *driver.Observation) bool {
	if o == nil {
		return false
	}
	return o.Incomplete || c.ends == driver.Configured && o.Phase == driver.Idle && !x.LateBound
}
