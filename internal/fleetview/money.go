package fleetview

import (
	"cmp"
	"context"
	"math"
	"net/url"
	"slices"

	"github.com/tonnage/tonnage/engine/bill"
	"github.com/tonnage/tonnage/engine/model"
)

// MoneyAnswer is what the fleet costs, in US dollars an hour.
type MoneyAnswer struct {
	List      float64 `json:"list"`      // prices of what has a host or is getting one
	Effective float64 `json:"effective"` // with what interruptions of the workloads cost
	Idle      float64 `json:"idle"`      // of Idle machines
	// Incomplete is the part of List of machines that gangs hold which are short: all of a gang runs, or nothing of it.
	Incomplete float64 `json:"incomplete"`
	// IncompleteGangs is how many such gangs hold machines.
	IncompleteGangs int `json:"incompleteGangs"`
	// Bill is what machines for what Needs have cost, and would cost at least, as of its own time; all 0 while that
	// is not known.
	Bill bill.Bill `json:"bill"`
	// Interruptions is how many machines are interrupted in an hour, on average.
	Interruptions float64    `json:"interruptions"`
	Kinds         []MoneyRow `json:"kinds"`  // by capacity type
	IdleBy        []MoneyRow `json:"idleBy"` // Idle machines by instance type, the dearest first
	Types         []MoneyRow `json:"types"`  // all by instance type, the dearest first
}

// MoneyRow is machines that have something in common.
type MoneyRow struct {
	Name          string  `json:"name"`
	Capacity      string  `json:"capacity,omitempty"`
	Machines      int     `json:"machines"`
	Idle          int     `json:"idle"`
	List          float64 `json:"list"`
	Effective     float64 `json:"effective"`
	IdleCost      float64 `json:"idleCost"`
	Interruptions float64 `json:"interruptions"`
	Longest       int64   `json:"longest,omitempty"` // since when the longest has been idle
}

// money sums up what machines cost.
func (v *View) money(context.Context, url.Values) (any, error) {
	f, err := v.copy()
	if err != nil {
		return nil, err
	}
	out := MoneyAnswer{}
	for i := range v.parts {
		out.Bill = out.Bill.Plus(v.parts[i].Recorder.Bill())
	}
	short := v.shortGangs()
	kinds, types := map[string]*MoneyRow{}, map[string]*MoneyRow{}
	for i := range f.ids {
		if !paid(f.countedAs(i)) {
			continue
		}
		c := &f.classes[f.class[i]]
		if held, ok := short[f.stamp(i)]; ok && serves(f.state[i]) {
			out.Incomplete += c.price
			if !held {
				out.IncompleteGangs++
				short[f.stamp(i)] = true
			}
		}
		capacity := f.capacity[i].String()
		for _, row := range [...]*MoneyRow{moneyRow(kinds, capacity, ""), moneyRow(types, c.instanceType, capacity)} {
			f.addMoney(row, i)
		}
	}
	for _, row := range kinds {
		out.List, out.Effective, out.Idle = out.List+row.List, out.Effective+row.Effective, out.Idle+row.IdleCost
		out.Interruptions += row.Interruptions
	}
	dearest := func(by func(*MoneyRow) float64) func(a, b MoneyRow) int {
		return func(a, b MoneyRow) int {
			return cmp.Or(cmp.Compare(by(&b), by(&a)), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Capacity, b.Capacity))
		}
	}
	out.Kinds = moneyRows(kinds, math.MaxInt, dearest(func(r *MoneyRow) float64 { return r.List }))
	out.Types = moneyRows(types, listDefault, dearest(func(r *MoneyRow) float64 { return r.List }))
	for name, row := range types {
		if row.Idle == 0 {
			delete(types, name)
		}
	}
	out.IdleBy = moneyRows(types, listDefault, dearest(func(r *MoneyRow) float64 { return r.IdleCost }))
	return out, nil
}

// stamp is the Need that a machine was bound for.
func (f *fleet) stamp(i int) needKey {
	return needKey{cluster: f.names[f.cluster[i]], fingerprint: f.fingerprint[i], group: f.names[f.group[i]]}
}

// shortGangs returns the Needs that have to be in one domain and are short, false for each.
func (v *View) shortGangs() map[needKey]bool {
	out := map[needKey]bool{}
	v.unmetNow(func(l *unmetList) {
		for i := range l.rows {
			if x := &l.rows[i]; x.profile.Same() != nil {
				out[x.key] = false
			}
		}
	})
	return out
}

func moneyRow(rows map[string]*MoneyRow, name, capacity string) *MoneyRow {
	r := rows[name+" "+capacity]
	if r == nil {
		r = &MoneyRow{Name: name, Capacity: capacity}
		rows[name+" "+capacity] = r
	}
	return r
}

func (f *fleet) addMoney(row *MoneyRow, i int) {
	c := &f.classes[f.class[i]]
	row.Machines++
	row.List += c.price
	row.Effective += f.effective(i)
	row.Interruptions += c.probability
	if f.state[i] != model.Idle {
		return
	}
	row.Idle++
	row.IdleCost += c.price
	if since := f.idleSince[i] / 1e6; since > 0 && (row.Longest == 0 || since < row.Longest) {
		row.Longest = since
	}
}

func moneyRows(rows map[string]*MoneyRow, most int, order func(a, b MoneyRow) int) []MoneyRow {
	out := make([]MoneyRow, 0, len(rows))
	for _, r := range rows {
		out = append(out, *r)
	}
	slices.SortFunc(out, order)
	return out[:min(len(out), most)]
}
