package fleetview

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/web"
)

// DomainsAnswer lists the domains of one key.
type DomainsAnswer struct {
	Keys    []string    `json:"keys"` // that machines can be grouped by, the narrowest first
	Key     string      `json:"key"`
	Types   []string    `json:"types"` // instance types, for a filter
	Total   int         `json:"total"`
	Holding int         `json:"holding"` // domains that could hold the gang at some priority
	Domains []DomainRow `json:"domains"`
}

// DomainRow is one domain: one rack, one zone.
type DomainRow struct {
	Value       string  `json:"value"`
	Machines    int     `json:"machines"` // with a host or getting one
	Idle        int     `json:"idle"`
	Bound       int     `json:"bound"`
	Moving      int     `json:"moving"`
	Failed      int     `json:"failed"`
	Speculative int     `json:"speculative"`
	Clusters    int     `json:"clusters"` // that have a machine there
	Spend       float64 `json:"spend"`
	// Holds says of a gang of so many machines: now = idle machines are enough; drains = with those that are
	// on their way; preempts = with machines of priorities up to Above; buys = with what can be bought;
	// no = the domain is too small.
	Holds string `json:"holds,omitempty"`
	Above int32  `json:"above,omitempty"` // a Need of higher priority could have it
}

// holdOrder is the order of Holds.
var holdOrder = map[string]int{"now": 0, "drains": 1, "buys": 2, "preempts": 3, "no": 4}

// Limits of a gang that is asked about.
const gangMax = 100_000

// domains lists the domains of a key: hold is the size of a gang, type the instance type that it wants.
func (v *View) domains(_ context.Context, q url.Values) (any, error) {
	w, err := windowOf(q)
	if err != nil {
		return nil, err
	}
	hold, err := integer(q, "hold", 1, gangMax, 0)
	if err != nil {
		return nil, err
	}
	f, err := v.copy()
	if err != nil {
		return nil, err
	}
	key, err := f.keyOf(q.Get("key"))
	if err != nil {
		return nil, err
	}
	out := DomainsAnswer{Keys: f.keys, Key: key, Types: f.types(), Domains: []DomainRow{}}
	if key == "" {
		return out, nil
	}
	rows := f.domainRows(key, q.Get("type"), hold)
	out.Total = len(rows)
	for i := range rows {
		if rows[i].Holds != "" && rows[i].Holds != "no" {
			out.Holding++
		}
	}
	slices.SortFunc(rows, func(a, b DomainRow) int {
		if hold > 0 {
			return cmp.Or(cmp.Compare(holdOrder[a.Holds], holdOrder[b.Holds]), cmp.Compare(a.Above, b.Above), cmp.Compare(b.Idle, a.Idle), cmp.Compare(a.Value, b.Value))
		}
		return cmp.Compare(a.Value, b.Value)
	})
	out.Domains = cut(w, rows)
	return out, nil
}

// keyOf returns the key to group by: the one that is asked for, or the narrowest.
func (f *fleet) keyOf(asked string) (string, error) {
	if asked == "" && len(f.keys) > 0 {
		return f.keys[0], nil
	}
	if asked != "" && !slices.Contains(f.keys, asked) {
		return "", f.noKey(asked)
	}
	return asked, nil
}

// noKey says that there are no domains of a key, and of which there are.
func (f *fleet) noKey(asked string) error {
	if len(f.keys) == 0 {
		return fmt.Errorf("%w: machines are not grouped by %.80q, nor by anything else", web.ErrNotFound, asked)
	}
	return fmt.Errorf("%w: machines are not grouped by %.80q; they are by %s", web.ErrNotFound, asked, strings.Join(f.keys, ", "))
}

// types returns the instance types that machines have.
func (f *fleet) types() []string {
	seen := map[string]bool{}
	for i := range f.classes {
		seen[f.classes[i].instanceType] = true
	}
	delete(seen, "")
	out := make([]string, 0, len(seen))
	for t := range seen {
		out = append(out, t)
	}
	slices.Sort(out)
	return out[:min(len(out), listMax)]
}

// domainRows counts the machines of each domain of a key; with a type, of that type alone.
func (f *fleet) domainRows(key, kind string, hold int) []DomainRow {
	column := f.domains[key]
	rows := map[uint32]*DomainRow{}
	clusters := map[[2]uint32]bool{}
	priorities := map[uint32][]int32{} // of bound machines, by domain
	for i, value := range column {
		if value == 0 || kind != "" && f.classes[f.class[i]].instanceType != kind {
			continue
		}
		r := rows[value]
		if r == nil {
			r = &DomainRow{Value: f.values[value]}
			rows[value] = r
		}
		r.count(f.countedAs(i), f.classes[f.class[i]].price)
		if c := f.cluster[i]; c != 0 && !clusters[[2]uint32{value, c}] {
			clusters[[2]uint32{value, c}] = true
			r.Clusters++
		}
		if hold > 0 && serves(f.state[i]) {
			priorities[value] = append(priorities[value], f.priority[i])
		}
	}
	out := make([]DomainRow, 0, len(rows))
	for value, r := range rows {
		if hold > 0 {
			r.holds(hold, priorities[value])
		}
		out = append(out, *r)
	}
	return out
}

func (r *DomainRow) count(s model.State, price float64) {
	if paid(s) {
		r.Machines++
		r.Spend += price
	}
	switch s {
	case model.Idle:
		r.Idle++
	case model.Configured, model.Configuring:
		r.Bound++
	case model.Creating, model.Draining, model.Deleting:
		r.Moving++
	case model.Failed:
		r.Failed++
	case model.Speculative:
		r.Speculative++
	}
}

// holds says whether a gang of so many machines fits, and above which priority. It counts machines: who may
// preempt whom is the engine's to decide.
func (r *DomainRow) holds(n int, priorities []int32) {
	switch free := r.Idle + r.Moving; {
	case r.Idle >= n:
		r.Holds = "now"
	case free >= n:
		r.Holds = "drains"
	case free+r.Speculative >= n:
		r.Holds = "buys"
	case free+r.Speculative+len(priorities) >= n:
		slices.Sort(priorities)
		r.Holds, r.Above = "preempts", priorities[n-free-r.Speculative-1]
	default:
		r.Holds = "no"
	}
}

// DomainAnswer is one domain.
type DomainAnswer struct {
	Key string `json:"key"`
	DomainRow
	Owners   []CountRow   `json:"owners"` // clusters, most machines first
	Types    []CountRow   `json:"types"`
	Machines []MachineRow `json:"list"` // the first listDefault
	Gangs    []CountRow   `json:"gangs"`
}

// domain answers with one domain, by key and value.
func (v *View) domain(_ context.Context, q url.Values) (any, error) {
	key, err := wanted(q, "key")
	if err != nil {
		return nil, err
	}
	value, err := wanted(q, "value")
	if err != nil {
		return nil, err
	}
	f, err := v.copy()
	if err != nil {
		return nil, err
	}
	if _, err := f.keyOf(key); err != nil {
		return nil, err
	}
	out := DomainAnswer{Key: key, DomainRow: DomainRow{Value: value}, Machines: []MachineRow{}}
	owners, types, gangs := map[string]int{}, map[string]int{}, map[string]int{}
	found := 0
	for i, number := range f.domains[key] {
		if f.values[number] != value {
			continue
		}
		found++
		out.count(f.countedAs(i), f.classes[f.class[i]].price)
		types[f.classes[f.class[i]].instanceType]++
		if f.cluster[i] != 0 {
			owners[f.names[f.cluster[i]]]++
		}
		if f.group[i] != 0 {
			gangs[f.names[f.cluster[i]]+" "+f.names[f.group[i]]]++
		}
		if len(out.Machines) < listDefault {
			out.Machines = append(out.Machines, f.row(i))
		}
	}
	if found == 0 {
		return nil, fmt.Errorf("%w: no machine has %.80s %.80q", web.ErrNotFound, key, value)
	}
	out.Clusters = len(owners)
	out.Owners, out.Types, out.Gangs = countRows(owners), countRows(types), countRows(gangs)
	return out, nil
}

// lost returns the ids of the machines of a domain.
func (f *fleet) lost(key, value string) []string {
	var out []string
	for i, number := range f.domains[key] {
		if f.values[number] == value && f.state[i] != model.Failed {
			out = append(out, f.ids[i])
		}
	}
	return out
}
