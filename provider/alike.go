package provider

import (
	"time"
)

// alikeMin is of how many types machines must have failed, with one template and none made in between, until all offers of it are
// held back.
const alikeMin = 5

// template is what machines of a pool are made by.
type template struct{ pool, text string }

// alike is what is known of the offers of one template of which machines have failed since one was made.
type alike struct {
	types map[string]bool // of machines that failed
	wait  time.Duration   // the last one of all together, 0 = there was none
}

func (o *offer) template() template { return template{o.Pool, string(o.Template)} }

// doubt notes that a machine of an offer has failed. When those of several types have, their template is what they have in
// common, and all of its offers are held back, those also that were not tried.
func (p *Provider) doubt(o *offer, now time.Time) {
	of := o.template()
	a := p.alike[of]
	if a == nil {
		a = &alike{types: map[string]bool{}}
		p.alike[of] = a
	}
	if a.types[o.InstanceType] = true; len(a.types) < alikeMin {
		return
	}
	a.wait = min(max(2*a.wait, failingMin), failingMax)
	until, held := now.Add(a.wait), 0
	for _, other := range p.offers {
		own := &other.stock
		outOfStock := own.failures == 0 && !own.Until.IsZero()
		if other.pool == nil || other.template() != of || outOfStock || own.Until.After(until) {
			continue
		}
		s := stock{Until: until, Wait: a.wait, failures: 2, since: now, Why: o.stock.Why, types: len(a.types)}
		if own.types == 0 && own.failures >= 2 { // its own machines fail
			s.types, s.failures, s.Why = 0, own.failures, own.Why
		}
		p.hold(other, s)
		held++
	}
	p.log.Warn("all offers of a template are held back: machines of many of its types fail", "pool", o.Pool, "types", len(a.types), "offers", held, "until", until, "reason", o.stock.Why)
}

// trust ends that: a machine was made with the template. Offers stay held back whose own machines have failed more than once.
func (p *Provider) trust(o *offer) {
	of := o.template()
	a := p.alike[of]
	delete(p.alike, of)
	if a == nil || a.wait == 0 {
		return
	}
	for _, other := range p.offers {
		if other.stock.types > 0 && other.template() == of {
			p.offerAgain(other, "machines of its template can be made again")
		}
	}
}
