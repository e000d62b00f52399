package fleetview

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/web"
)

// ClustersAnswer lists clusters.
type ClustersAnswer struct {
	Total    int          `json:"total"`
	Clusters []ClusterRow `json:"clusters"`
	Names    []string     `json:"names"` // of tenants, for a filter
}

// ClusterRow is what a cluster asks for and has.
type ClusterRow struct {
	Cluster  string   `json:"cluster"`
	Tenant   string   `json:"tenant,omitempty"`
	Rows     int      `json:"rows"`
	Short    int      `json:"short"`            // Needs
	Reason   string   `json:"reason,omitempty"` // why most of them are
	Top      int32    `json:"top"`              // the highest priority of a Need that is short
	Demand   []Amount `json:"demand"`
	Deficit  []Amount `json:"deficit"`
	Machines int      `json:"machines"` // that serve it, or are about to
	Draining int      `json:"draining"`
	Share    float64  `json:"share"` // of all that is bound, in its largest dimension: 0 to 1
	Spend    float64  `json:"spend"` // USD an hour, everything that belongs to it
	Risk     float64  `json:"risk"`  // USD an hour that interruptions cost
	Trend    []uint32 `json:"trend"` // Needs that were short, every five seconds, oldest first

	has model.Resources
}

// clusterRows sums up all clusters that ask for something or have a machine.
func (v *View) clusterRows(f *fleet) []ClusterRow {
	rows := map[string]*ClusterRow{}
	row := func(cluster string) *ClusterRow {
		r := rows[cluster]
		if r == nil {
			r = &ClusterRow{Cluster: cluster, Demand: []Amount{}, Deficit: []Amount{}}
			rows[cluster] = r
		}
		return r
	}
	for i := range f.demand {
		d := &f.demand[i]
		r := row(d.cluster)
		r.Rows, r.Demand = d.rows, vectorOf(d.wants)
	}
	for i := range f.tenants {
		for _, cluster := range f.tenants[i].Clusters {
			if r := rows[cluster]; r != nil {
				r.Tenant = f.tenants[i].Name
			}
		}
	}
	all := f.addBound(row)
	v.unmetNow(func(l *unmetList) {
		for i := range l.clusters {
			row(l.clusters[i].cluster).shortOf(l, &l.clusters[i])
		}
	})
	out := make([]ClusterRow, 0, len(rows))
	for _, r := range rows {
		r.Share = share(r.has, all)
		r.Trend = v.trendOf(r.Cluster)
		out = append(out, *r)
	}
	return out
}

func (r *ClusterRow) shortOf(l *unmetList, c *clusterShort) {
	r.Short, r.Top, r.Deficit = c.short, c.top, vectorOf(amountsOf(l.dims, c.deficit))
	most := 0
	for u, n := range c.reasons {
		if n > most {
			most, r.Reason = n, engine.Unmet(u).String()
		}
	}
}

// addBound adds what clusters have, and returns what all have together.
func (f *fleet) addBound(row func(string) *ClusterRow) (all model.Resources) {
	type use struct{ cluster, class uint32 }
	bound := map[use]int64{}
	byCluster := make([]*ClusterRow, len(f.names))
	for i := range f.ids {
		c := f.cluster[i]
		if c == 0 {
			continue
		}
		if byCluster[c] == nil {
			byCluster[c] = row(f.names[c])
		}
		r, price := byCluster[c], f.classes[f.class[i]].price
		r.Spend += price
		r.Risk += f.effective(i) - price
		switch {
		case serves(f.state[i]):
			r.Machines++
			bound[use{c, f.class[i]}]++
		case f.state[i] == model.Draining:
			r.Draining++
		}
	}
	for u, n := range bound {
		var sum []model.Amount
		for _, a := range f.classes[u.class].offers {
			sum = append(sum, model.Amount{Name: a.Name, Value: model.SatMul(a.Value, n)})
		}
		offers := model.NewResources(sum...)
		byCluster[u.cluster].has = byCluster[u.cluster].has.Add(offers)
		all = all.Add(offers)
	}
	return all
}

// trendOf returns the trend of a cluster, of the shard that has seen it short.
func (v *View) trendOf(cluster string) []uint32 {
	var out []uint32
	for _, p := range v.parts {
		p.Recorder.mu.Lock()
		trend := p.Recorder.trends.of(cluster)
		p.Recorder.mu.Unlock()
		if len(out) == 0 || slices.Max(append(trend, 0)) > 0 {
			out = trend
		}
	}
	if out == nil {
		out = []uint32{}
	}
	return out
}

// clusterOrders are what lists of clusters are sorted by; ties go by name.
var clusterOrders = map[string]func(a, b *ClusterRow) int{
	"short":    func(a, b *ClusterRow) int { return cmp.Or(cmp.Compare(b.Short, a.Short), cmp.Compare(b.Top, a.Top)) },
	"cluster":  func(_, _ *ClusterRow) int { return 0 },
	"share":    func(a, b *ClusterRow) int { return cmp.Compare(b.Share, a.Share) },
	"spend":    func(a, b *ClusterRow) int { return cmp.Compare(b.Spend, a.Spend) },
	"machines": func(a, b *ClusterRow) int { return cmp.Compare(b.Machines, a.Machines) },
	"rows":     func(a, b *ClusterRow) int { return cmp.Compare(b.Rows, a.Rows) },
}

// clusters lists clusters: q is text in the name, tenant is equal, sort is one of clusterOrders, the shortest first
// unless told otherwise.
func (v *View) clusters(_ context.Context, q url.Values) (any, error) {
	w, err := windowOf(q)
	if err != nil {
		return nil, err
	}
	order := clusterOrders[cmp.Or(q.Get("sort"), "short")]
	if order == nil {
		return nil, fmt.Errorf("%w: clusters are not sorted by %.40q", web.ErrBadQuery, q.Get("sort"))
	}
	f, err := v.copy()
	if err != nil {
		return nil, err
	}
	text, tenant := strings.ToLower(q.Get("q")), q.Get("tenant")
	rows := slices.DeleteFunc(v.clusterRows(f), func(r ClusterRow) bool {
		return tenant != "" && r.Tenant != tenant || text != "" && !strings.Contains(strings.ToLower(r.Cluster), text)
	})
	slices.SortFunc(rows, func(a, b ClusterRow) int { return cmp.Or(order(&a, &b), cmp.Compare(a.Cluster, b.Cluster)) })
	out := ClustersAnswer{Total: len(rows), Clusters: cut(w, rows), Names: []string{}}
	for i := range f.tenants {
		out.Names = append(out.Names, f.tenants[i].Name)
	}
	return out, nil
}

// ClusterAnswer is one cluster.
type ClusterAnswer struct {
	ClusterRow
	Reasons []web.ReasonCount `json:"reasons"` // most Needs first
	Has     []Amount          `json:"has"`
	Types   []CountRow        `json:"types"`  // of its machines, most first
	States  []CountRow        `json:"states"` // of its machines
}

// CountRow is how many machines there are of something.
type CountRow struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

// cluster answers with one cluster, by name.
func (v *View) cluster(_ context.Context, q url.Values) (any, error) {
	name, err := wanted(q, "name")
	if err != nil {
		return nil, err
	}
	f, err := v.copy()
	if err != nil {
		return nil, err
	}
	rows := v.clusterRows(f)
	at := slices.IndexFunc(rows, func(r ClusterRow) bool { return r.Cluster == name })
	if at < 0 {
		return nil, fmt.Errorf("%w: no cluster %.80q asks for anything or has a machine", web.ErrNotFound, name)
	}
	out := ClusterAnswer{ClusterRow: rows[at], Reasons: []web.ReasonCount{}, Has: vectorOf(rows[at].has)}
	v.unmetNow(func(l *unmetList) {
		for i := range l.clusters {
			if l.clusters[i].cluster == name {
				out.Reasons = append(out.Reasons, reasonsOf(&l.clusters[i])...)
			}
		}
	})
	types, states := map[string]int{}, map[string]int{}
	for i := range f.ids {
		if f.names[f.cluster[i]] == name {
			types[f.classes[f.class[i]].instanceType]++
			states[f.state[i].String()]++
		}
	}
	out.Types, out.States = countRows(types), countRows(states)
	return out, nil
}

func reasonsOf(c *clusterShort) []web.ReasonCount {
	var out []web.ReasonCount
	for u, n := range c.reasons {
		if n > 0 {
			out = append(out, web.ReasonCount{Reason: engine.Unmet(u).String(), Count: n})
		}
	}
	slices.SortStableFunc(out, func(a, b web.ReasonCount) int { return cmp.Compare(b.Count, a.Count) })
	return out
}

// countRows lists counts, the largest first.
func countRows(counts map[string]int) []CountRow {
	out := make([]CountRow, 0, len(counts))
	for name, n := range counts {
		out = append(out, CountRow{name, n})
	}
	slices.SortFunc(out, func(a, b CountRow) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name)) })
	return out[:min(len(out), listDefault)]
}

// TenantRow is what a tenant has of its share.
type TenantRow struct {
	Tenant   string     `json:"tenant"`
	Clusters []string   `json:"clusters"`
	Machines int        `json:"machines"`
	Short    int        `json:"short"`
	Spend    float64    `json:"spend"`
	Ratio    float64    `json:"ratio"` // the largest has/share; above 1 others may take from it
	Shares   []ShareRow `json:"shares"`
	Trend    []uint32   `json:"trend"`
	Reasons  []CountRow `json:"reasons"`
}

// ShareRow is one dimension of a tenant's share.
type ShareRow struct {
	Name  string `json:"name"`
	Has   int64  `json:"has"`
	Share int64  `json:"share"`
}

// tenants lists the tenants, those furthest above their share first.
func (v *View) tenants(context.Context, url.Values) (any, error) {
	f, err := v.copy()
	if err != nil {
		return nil, err
	}
	rows := map[string]ClusterRow{}
	for _, r := range v.clusterRows(f) {
		rows[r.Cluster] = r
	}
	out := []TenantRow{}
	for i := range f.tenants {
		out = append(out, tenantOf(&f.tenants[i], rows))
	}
	slices.SortStableFunc(out, func(a, b TenantRow) int { return cmp.Compare(b.Ratio, a.Ratio) })
	return out, nil
}

func tenantOf(t *engine.Tenant, rows map[string]ClusterRow) TenantRow {
	out := TenantRow{Tenant: t.Name, Clusters: append([]string{}, t.Clusters...), Shares: []ShareRow{}, Trend: []uint32{}}
	var has model.Resources
	reasons := map[string]int{}
	for _, c := range t.Clusters {
		r, ok := rows[c]
		if !ok {
			continue
		}
		has = has.Add(r.has)
		out.Machines, out.Short, out.Spend = out.Machines+r.Machines, out.Short+r.Short, out.Spend+r.Spend
		if r.Reason != "" {
			reasons[r.Reason] += r.Short
		}
		for k, n := range r.Trend {
			if k == len(out.Trend) {
				out.Trend = append(out.Trend, 0)
			}
			out.Trend[k] += n
		}
	}
	for _, a := range t.Share {
		out.Shares = append(out.Shares, ShareRow{a.Name, has.Get(a.Name), a.Value})
		out.Ratio = max(out.Ratio, float64(has.Get(a.Name))/float64(a.Value))
	}
	out.Reasons = countRows(reasons)
	return out
}
