package provider

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/driver"
)

// How long an offer that was out of stock is held back: doubling, with one probe at the end.
const (
	outOfStockMin = 3 * time.Minute
	outOfStockMax = 30 * time.Minute
)

// The same after a machine that failed while it was made. The first time all slots are offered again at the end: one failure may
// be chance.
const (
	failingMin = 10 * time.Second
	failingMax = 30 * time.Minute
	// whyBytesMax is how much of the reason its slots are listed with.
	whyBytesMax = 256
)

// stock is why an offer is held back, if it is. The zero value is that it is not.
type stock struct {
	Until time.Time     // not offered before; zero = it is offered
	Wait  time.Duration // the last wait
	Probe string        // the slot that is offered alone after Until, "" = none

	Why string `json:",omitempty"` // the last failure, or what the cloud has said of its stock

	// Of machines that failed. Not in the file: a restart may be what mends it.
	failures int       // in a row; 0 = out of stock
	types    int       // of how many types machines failed with its template; 0 = its own failed
	since    time.Time // of the last failure
}

// held tells whether the offer is held back for all but the probe.
func (s *stock) held(id string) bool { return !s.Until.IsZero() && s.Probe != id }

// says is what slots are listed with that are held back.
func (s *stock) says() string {
	until := s.Until.UTC().Format(time.RFC3339)
	switch {
	case s.types > 0:
		return fmt.Sprintf("held back until %s, since machines of %d types fail with its template: %s", until, s.types, s.Why)
	case s.failures == 0:
		return fmt.Sprintf("%v until %s", driver.ErrOutOfStock, until)
	case s.failures == 1:
		return fmt.Sprintf("held back until %s after a failure: %s", until, s.Why)
	}
	return fmt.Sprintf("held back until %s after %d failures in a row: %s", until, s.failures, s.Why)
}

// saved is what the file has of it.
func (s *stock) saved() stock {
	if s.failures > 0 {
		return stock{}
	}
	return *s
}

// sellOut notes that there is no capacity for an offer now, and in which words that was said.
func (p *Provider) sellOut(o *offer, why string, now time.Time) {
	wait := outOfStockMin
	if o.stock.failures == 0 {
		if now.Before(o.stock.Until) {
			return // of a machine that was asked for before it was known
		}
		wait = min(max(2*o.stock.Wait, outOfStockMin), outOfStockMax)
	}
	p.hold(o, stock{Until: now.Add(wait), Wait: wait, Why: brief(why)})
	p.log.Warn("out of stock", append(nameOf(o), "until", o.stock.Until, "reason", o.stock.Why)...)
}

// brief is what is kept of a reason.
func brief(why string) string {
	return strings.ToValidUTF8(why[:min(len(why), whyBytesMax)], "")
}

// failing notes that a machine of an offer failed while it was made. began is when that was asked for.
func (p *Provider) failing(o *offer, id, why string, began, now time.Time) {
	last := &o.stock
	switch {
	case o.pool == nil || o.pool.Owned: // hosts fail one by one, and are tried again when they are no longer listed as Failed
		return
	case last.failures == 0 && now.Before(last.Until): // it is held back for longer
		return
	case last.failures > 0 && !began.After(last.since) && id != last.Probe:
		return // asked for before it was known
	}
	wait, failures := failingMin, 1
	if last.failures > 0 {
		wait, failures = min(2*last.Wait, failingMax), last.failures+1
	}
	if last.types > 0 { // the others' failures; one slot is offered all the same
		failures = 2
	}
	why = brief(why)
	p.hold(o, stock{Until: now.Add(wait), Wait: wait, failures: failures, since: now, Why: why})
	p.log.Warn("offer is held back: its machines fail", append(nameOf(o), "failures", o.stock.failures, "until", o.stock.Until, "reason", why)...)
	p.doubt(o, now)
}

func (p *Provider) hold(o *offer, s stock) {
	was := p.freeStates(o)
	o.stock, o.dirty = s, true
	o.writeBodies()
	p.relistFree(o, was)
}

// offerAgain offers all slots again.
func (p *Provider) offerAgain(o *offer, why string) {
	if held := !o.stock.Until.IsZero(); !held {
		o.stock = stock{}
		return
	}
	was := p.freeStates(o)
	o.stock, o.dirty = stock{}, true
	p.relistFree(o, was)
	p.log.Info(why, nameOf(o)...)
}

// inStock ends what holds an offer back when a machine of it shows that it can be had.
func (p *Provider) inStock(x *row, obs *driver.Observation) {
	o := x.offer
	if obs == nil || o.stock.failures > 0 || o.stock.Probe != x.id || obs.Phase == driver.Failed {
		return
	}
	if obs.Phase == driver.Idle || obs.Phase == driver.Configured || obs.Ref != "" {
		p.offerAgain(o, "in stock again")
	}
}

// made ends it when a machine of it was made.
func (p *Provider) made(o *offer) {
	if o.stock.failures > 0 {
		p.offerAgain(o, "machines can be made again")
	}
	p.trust(o)
}

func nameOf(o *offer) []any {
	return []any{"pool", o.Pool, "type", o.InstanceType, "zone", o.Zone, "capacityType", o.CapacityType.String()}
}

// probe offers slots of each offer whose wait is over: one, or all after a first failure.
func (p *Provider) probe(now time.Time) {
	for _, o := range p.offers {
		if o.stock.Until.IsZero() || now.Before(o.stock.Until) {
			continue
		}
		was := p.freeStates(o)
		if o.stock.failures == 1 {
			o.stock.Until = time.Time{} // and the failure is remembered
			p.relistFree(o, was)
			continue
		}
		if i, ok := p.table.byID[o.stock.Probe]; ok && (p.table.rows[i].rec == nil || p.table.rows[i].rec.State != model.Failed) {
			continue
		}
		o.stock.Probe, o.dirty = "", true
		for _, i := range o.free {
			if x := &p.table.rows[i]; !x.withheld {
				o.stock.Probe = x.id
				break
			}
		}
		for k, i := range o.free {
			if p.table.state(&p.table.rows[i]) != was[k] {
				p.table.relist(i, was[k])
			}
		}
	}
}

// Held is an offer that is held back. It is not offered before Until; then one slot of it is.
type Held struct {
	Pool         string    `json:"pool"`
	InstanceType string    `json:"instanceType"`
	Zone         string    `json:"zone"`
	CapacityType string    `json:"capacityType"`
	Until        time.Time `json:"until"`
	Failures     int       `json:"failures"` // in a row; of its template's types where it is held back with all offers of that; 0 = it is out of stock
	Why          string    `json:"why"`
}

// Held returns the offers that are held back, in the order of their names.
func (p *Provider) Held() []Held {
	p.mu.RLock()
	defer p.mu.RUnlock()
	out := []Held{}
	for _, o := range p.offers {
		if o.stock.Until.IsZero() || o.pool == nil {
			continue
		}
		x := Held{o.Pool, o.InstanceType, o.Zone, o.CapacityType.String(), o.stock.Until, max(o.stock.failures, o.stock.types), o.stock.Why}
		if x.Why == "" { // from a file of before it was kept
			x.Why = driver.ErrOutOfStock.Error()
		}
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b Held) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.InstanceType, b.InstanceType), cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.CapacityType, b.CapacityType))
	})
	return out
}

// making tells whether the machine does not exist yet, and is to.
func (r *record) making() bool {
	return r.State == model.Creating || r.State == model.Configuring && r.LateBound
}

// waits tells whether a machine that was bought before its offer was held back is not made now, and why it is given up at
// once: the shard buys something else then.
func (x *row) waits() (giveUp string, waits bool) {
	s := &x.offer.stock
	switch {
	case x.rec.Asked || !s.held(x.id) || x.offer.pool == nil || x.offer.pool.Owned:
		return "", false
	case s.failures == 1:
		return "", true
	}
	return s.says(), true
}
