package supply

import "github.com/tonnage/tonnage/engine/model"

// Demand may have thousands of sets of requirements, and a fleet as many classes:
// one application on machines of its own each. To decide every matcher on every
// class would be their product, where most matchers ask for a value that most
// classes do not have. So matchers that list a few values of a key are found by
// these.

const (
	// askedMin is from how many matchers on they are found by value.
	askedMin = 64
	// askedValuesMax is the most values by which a matcher is found.
	askedValuesMax = 8
)

// asked finds the matchers that may accept a class.
type asked struct {
	byValue map[int]map[string][]uint32 // by key column
	others  []uint32                    // to be decided in any case
}

// asksOf returns how to find some matchers.
func (t *Table) asksOf(ids []uint32) *asked {
	if len(ids) < askedMin {
		return &asked{others: ids}
	}
	x := &asked{byValue: map[int]map[string][]uint32{}}
	for _, id := range ids {
		m := &t.matchers.list[id]
		at := m.narrowest()
		if at < 0 {
			x.others = append(x.others, id)
			continue
		}
		values := x.byValue[m.keys[at]]
		if values == nil {
			values = map[string][]uint32{}
			x.byValue[m.keys[at]] = values
		}
		for _, v := range m.requirements[at].Values {
			values[v] = append(values[v], id)
		}
	}
	return x
}

// narrowest returns the place of the requirement that asks for the fewest values, −1
// when none asks for few.
func (m *matcher) narrowest() int {
	best, least := -1, askedValuesMax+1
	for i := range m.requirements {
		if r := &m.requirements[i]; r.Operator == model.In && len(r.Values) < least {
			best, least = i, len(r.Values)
		}
	}
	return best
}

// each calls f for the matchers that accept a class, in no order.
func (x *asked) each(t *Table, c *kind, f func(id uint32)) {
	try := func(ids []uint32) {
		for _, id := range ids {
			if t.accepts(&t.matchers.list[id], c) {
				f(id)
			}
		}
	}
	try(x.others)
	for key, values := range x.byValue {
		if v := c.value(key); v != 0 {
			try(values[t.ValueString(v)])
		}
	}
}
