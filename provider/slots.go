package provider

import (
	"bytes"
	"maps"
	"slices"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/driver"
)

// sameOffer tells whether two offers say the same.
func sameOffer(a, b *driver.Offer) bool {
	return a.Key == b.Key && a.Resources.Equal(b.Resources) && a.Allocatable.Equal(b.Allocatable) && maps.Equal(a.Labels, b.Labels) &&
		slices.Equal(a.Taints, b.Taints) && a.PricePerHour == b.PricePerHour && a.InterruptionProbability == b.InterruptionProbability &&
		bytes.Equal(a.Template, b.Template)
}

// addFree adds a row that is a slot.
func (p *Provider) addFree(o *offer, x row) {
	x.offer = o
	i := p.table.add(x)
	p.table.rows[i].place = len(o.free)
	o.free = append(o.free, i)
	o.total++
	if x.rec != nil {
		p.table.relist(i, p.table.state(&p.table.rows[i]))
	}
}

// addUsed adds a row that is a machine.
func (p *Provider) addUsed(o *offer, x row) {
	x.offer = o
	i := p.table.add(x)
	o.total++
	p.table.relist(i, p.table.state(&p.table.rows[i]))
}

// unfree takes a row out of its offer's slots.
func (p *Provider) unfree(i int32) {
	x := &p.table.rows[i]
	o, last := x.offer, len(x.offer.free)-1
	moved := o.free[last]
	o.free[x.place] = moved
	p.table.rows[moved].place = x.place
	o.free = o.free[:last]
	x.place = none
	if x.rec == nil {
		o.dirty = true // the slot's number is in the offer's record
	}
}

// change changes a record, and keeps everything in step with it: the slots, the limits, the
// listing and what is to be saved.
func (p *Provider) change(i int32, do func(*record)) {
	x := &p.table.rows[i]
	was := p.table.state(x)
	wasUsed := x.rec != nil && x.rec.used()
	if x.rec == nil {
		x.rec = &record{ID: x.id, Key: x.offer.Key, State: model.Speculative}
		p.table.keep(i)
		x.offer.dirty = true
	}
	do(x.rec)
	switch free := x.rec.free(); {
	case free && x.place == none:
		x.place = len(x.offer.free)
		x.offer.free = append(x.offer.free, i)
	case !free && x.place != none:
		p.unfree(i)
		x.withheld = false
	}
	if x.rec.used() != wasUsed {
		n := 1
		if wasUsed {
			n = -1
		}
		p.account.charge(x.offer, n)
		p.pending.account = true
	}
	if x.rec.State != model.Configuring && x.blob != nil {
		x.blob = nil
		p.pending.blobs[x.id] = true
	}
	p.pending.rows[x.id] = true
	p.table.relist(i, was)
}

// drop ends a row: its id is never used again.
func (p *Provider) drop(i int32) {
	x := &p.table.rows[i]
	o := x.offer
	if x.rec != nil && x.rec.used() {
		p.account.charge(o, -1)
	}
	if x.place != none {
		p.unfree(i)
	}
	if x.rec != nil {
		p.pending.rows[x.id], p.pending.blobs[x.id] = true, true
	}
	p.fence.Forget(x.id)
	o.total--
	o.dirty = o.dirty || o.total == 0
	p.pending.account = true
	p.table.remove(i)
}

// next returns a new id.
func (p *Provider) next(pool string) string {
	p.books.Sequence++
	p.pending.books = true
	return p.id(pool, p.books.Sequence)
}

// settle has each offer list as many slots as it may: new ones where there are too few, and others
// withheld where the limits leave no room. Nothing new is listed before the driver has said what exists: an
// object may be one of them.
func (p *Provider) settle() {
	p.pending.account = false
	now := p.cfg.Now()
	for _, o := range p.offers {
		if o.pool == nil {
			for _, i := range slices.Clone(o.free) {
				p.drop(i)
			}
			continue
		}
		switch h := p.hands[o.pool.Driver]; {
		case !o.pool.Owned:
			p.settleBought(o, h.known, now)
		case h.whole:
			p.settleOwned(o, now)
		}
	}
	p.pending.account = false
}

func (p *Provider) settleBought(o *offer, known bool, now time.Time) {
	target := min(o.pool.FreeSlots, p.account.room(o, p.quotas))
	for known && len(o.free) < target {
		p.addFree(o, row{id: p.next(o.Pool)})
		o.dirty = true
	}
	for k := len(o.free) - 1; k >= 0 && len(o.free) > o.pool.FreeSlots; k-- {
		if x := &p.table.rows[o.free[k]]; x.rec == nil || now.Sub(x.rec.Since) > slotKeptFor {
			p.drop(o.free[k])
		}
	}
	if !o.withheld && len(o.free) <= target {
		return
	}
	o.withheld = len(o.free) > target
	for k, i := range o.free {
		x := &p.table.rows[i]
		if withheld := k >= target; x.withheld != withheld {
			was := p.table.state(x)
			x.withheld = withheld
			p.table.relist(i, was)
		}
	}
}

// settleOwned has a machine for each host, or as many as the pool has, be made.
func (p *Provider) settleOwned(o *offer, now time.Time) {
	if o.total >= o.pool.Machines {
		return
	}
	missing := map[string]bool{}
	for _, h := range o.pool.Hosts {
		missing[h] = true
	}
	n := 0
	for _, i := range p.table.kept {
		if x := &p.table.rows[i]; x.offer == o {
			n++
			delete(missing, x.rec.Host)
		}
	}
	add := func(host string) {
		r := &record{ID: p.next(o.Pool), Key: o.Key, Driver: o.pool.Driver, Host: host, Generation: 1}
		r.move(model.Creating, now)
		p.pending.rows[r.ID] = true
		p.addUsed(o, row{id: r.ID, rec: r})
		p.account.charge(o, 1)
	}
	if len(o.pool.Hosts) > 0 {
		for _, h := range o.pool.Hosts {
			if missing[h] {
				add(h)
			}
		}
		return
	}
	for ; n < o.pool.Machines; n++ {
		add("")
	}
}
