package model

import (
	"math"
	"slices"
	"strings"
)

// Amount is one dimension of a resource vector, in the dimension's natural
// unit: thousandths of a core for cpu, bytes for memory-like dimensions,
// counts for everything else.
type Amount struct {
	Name  string
	Value int64
}

// Resources is a resource vector: amounts sorted by name, each name once, each
// value positive. A dimension that is absent is zero. The nil vector is empty.
// Values of this type are shared and must not be modified in place.
type Resources []Amount

// NewResources returns the canonical vector of the amounts: sorted, equal
// names added (saturating), amounts that are not positive left out.
func NewResources(amounts ...Amount) Resources {
	r := slices.Clone(amounts)
	slices.SortFunc(r, func(a, b Amount) int { return strings.Compare(a.Name, b.Name) })
	out := r[:0]
	for _, a := range r {
		if a.Value <= 0 {
			continue
		}
		if n := len(out); n > 0 && out[n-1].Name == a.Name {
			out[n-1].Value = SatAdd(out[n-1].Value, a.Value)
			continue
		}
		out = append(out, a)
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// Canonical reports whether r is what NewResources returns: sorted by name,
// each name once and not empty, each value positive.
func (r Resources) Canonical() bool {
	for i, a := range r {
		if a.Value <= 0 || a.Name == "" || i > 0 && r[i-1].Name >= a.Name {
			return false
		}
	}
	return true
}

// Get returns the amount of a dimension, 0 when absent.
func (r Resources) Get(name string) int64 {
	for _, a := range r {
		if a.Name == name {
			return a.Value
		}
	}
	return 0
}

// Add returns r + o, saturating in every dimension.
func (r Resources) Add(o Resources) Resources {
	return NewResources(append(slices.Clone(r), o...)...)
}

// Sub returns r − o, clamped at zero in every dimension.
func (r Resources) Sub(o Resources) Resources {
	out := make(Resources, 0, len(r))
	for _, a := range r {
		if v := a.Value - o.Get(a.Name); v > 0 {
			out = append(out, Amount{a.Name, v})
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// Max returns the larger amount of each dimension.
func (r Resources) Max(o Resources) Resources {
	out := slices.Clone(r)
	for _, a := range o {
		i := slices.IndexFunc(out, func(b Amount) bool { return b.Name == a.Name })
		if i < 0 {
			out = append(out, a)
		} else if out[i].Value < a.Value {
			out[i].Value = a.Value
		}
	}
	return NewResources(out...)
}

// Covers reports whether r holds at least want in each of want's dimensions.
func (r Resources) Covers(want Resources) bool {
	for _, a := range want {
		if r.Get(a.Name) < a.Value {
			return false
		}
	}
	return true
}

// IsZero reports whether the vector holds nothing.
func (r Resources) IsZero() bool { return len(r) == 0 }

// Equal reports whether two canonical vectors are the same.
func (r Resources) Equal(o Resources) bool {
	if len(r) != len(o) {
		return false
	}
	return len(r) == 0 || &r[0] == &o[0] || slices.Equal(r, o) // they are shared, as a rule
}

// SatAdd returns a + b for non-negative values, math.MaxInt64 on overflow.
func SatAdd(a, b int64) int64 {
	if s := a + b; s >= 0 {
		return s
	}
	return math.MaxInt64
}

// SatMul returns a × b for non-negative values, math.MaxInt64 on overflow.
func SatMul(a, b int64) int64 {
	if a == 0 || b == 0 {
		return 0
	}
	if p := a * b; p/b == a && p >= 0 {
		return p
	}
	return math.MaxInt64
}
