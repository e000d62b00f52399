package provider

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/driver"
)

// callersBehind is for how long calls may still come of callers that have not heard of machines: a shard acts on a listing for a
// cycle, 10 s if nothing else is said, and a call waits for bootstrap data.
const callersBehind = time.Minute

// unseenIn returns why clusters were not seen in an Observe. It tells whether all that exists elsewhere was.
func unseenIn(trouble error) (why map[string]error, elsewhere bool) {
	if trouble == nil {
		return nil, true
	}
	if u, ok := trouble.(*driver.Unseen); ok { //nolint:errorlint // a wrapped one may be beside another error
		return u.Clusters, true
	}
	return nil, false
}

// first is what the first listing of a cluster has shown.
type first struct {
	at    time.Time
	found bool // machines
}

// noteObserved remembers what was observed: in the records that a driver was, and which clusters were never listed since their
// file was made. The machines there are not in the records.
func (p *Provider) noteObserved(h *hand, exists map[string][]driver.Observation, trouble error, now time.Time) {
	why, elsewhere := unseenIn(trouble)
	if !elsewhere {
		return
	}
	name := h.spec.Name
	h.whole = h.whole || trouble == nil
	h.known = h.known || trouble == nil || p.newest
	if !p.books.Observed[name] {
		if p.books.Observed == nil {
			p.books.Observed = map[string]bool{}
		}
		p.books.Observed[name], p.pending.books = true, true
		if p.books.Unlisted == nil {
			p.books.Unlisted = map[string][]string{}
		}
		if len(why) > 0 {
			p.books.Unlisted[name] = slices.Sorted(maps.Keys(why))
			p.log.Warn("clusters were never listed with these records; no machine is made for them before", "driver", name, "clusters", p.books.Unlisted[name])
		}
	}
	for _, cluster := range slices.Clone(p.books.Unlisted[name]) {
		if f := h.listed[cluster]; why[cluster] == nil && f == nil {
			h.listed[cluster] = &first{at: now, found: hasCluster(exists, cluster)}
		}
		if f := h.listed[cluster]; f != nil && (!f.found || now.Sub(f.at) >= callersBehind) {
			p.endHold(h, cluster, f.found, now)
		}
	}
}

// hasCluster tells whether a machine of a cluster was observed.
func hasCluster(exists map[string][]driver.Observation, cluster string) bool {
	for _, all := range exists {
		for k := range all {
			if all[k].Cluster == cluster {
				return true
			}
		}
	}
	return false
}

// endHold has machines be made for a cluster again. Those that were asked for before its machines were known are given up:
// the callers have these instead.
func (p *Provider) endHold(h *hand, cluster string, found bool, now time.Time) {
	left := slices.DeleteFunc(p.books.Unlisted[h.spec.Name], func(c string) bool { return c == cluster })
	if p.books.Unlisted[h.spec.Name] = left; len(left) == 0 {
		delete(p.books.Unlisted, h.spec.Name)
	}
	p.pending.books = true
	delete(h.listed, cluster)
	p.log.Info("cluster was listed for the first time with these records", "driver", h.spec.Name, "cluster", cluster, "machines", found)
	if !found || p.unlisted(cluster) {
		return
	}
	for _, i := range slices.Clone(p.table.kept) {
		if x := &p.table.rows[i]; x.rec.Cluster == cluster && x.rec.unmade() && !x.busy {
			p.broke(i, fmt.Sprintf("it was asked for before it was known which machines cluster %q has, and is not made; ask again", cluster), now)
		}
	}
}

// unlisted tells whether machines may exist for a cluster that the records do not have.
func (p *Provider) unlisted(cluster string) bool {
	for name, all := range p.books.Unlisted {
		if p.hands[name] != nil && slices.Contains(all, cluster) {
			return true
		}
	}
	return false
}

// unmade tells whether it is a late-bound machine that the driver was not asked for, as far as is known.
func (r *record) unmade() bool { return r.State == model.Configuring && r.LateBound && !r.Asked }

// held tells whether a machine is not made for now, since its cluster may have others already that nobody knows of.
// It is given up when that takes too long; its offer is not to blame.
func (p *Provider) held(h *hand, i int32, now time.Time) bool {
	x := &p.table.rows[i]
	if !x.rec.unmade() || !p.unlisted(x.rec.Cluster) {
		return false
	}
	waits := fmt.Sprintf("it is not known yet which machines cluster %q has", x.rec.Cluster)
	if limit := p.timeouts(x.offer).Configure; now.Sub(x.rec.Since) > limit {
		p.broke(i, fmt.Sprintf("%s took longer than %v: %s", x.rec.State, limit, waits), now)
		return true
	}
	p.tellWait(h, x, &seen{now: now, obs: &driver.Observation{Reason: waits}})
	return true
}
