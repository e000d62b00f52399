package supply

import (
	"encoding/binary"
	"slices"
	"strings"
	"sync"

	"github.com/cespare/xxhash/v2"
	"github.com/dgraph-io/ristretto/v2"

	"github.com/tonnage/tonnage/engine/model"
)

const (
	// VerdictsBytesMax is about how much the process remembers of what
	// requirements said of values.
	VerdictsBytesMax = 16 << 20
	// verdictCounters is of how many verdicts the cache keeps count to know
	// which to give up, ten times as many as it holds of ordinary ones.
	verdictCounters = 1 << 18
	// longList is from how many values on a requirement's verdicts are worth
	// remembering: below, looking at them is quicker.
	longList = 48
)

// compiled is a requirement with a long list, once for all tables that use it,
// as long as it is remembered.
type compiled struct {
	encoded string
	hash    uint64
}

// verdict is what a requirement said of a value. Both stand beside it: numbers
// that agree do not make them the same. Without a requirement's word it is the
// requirement itself.
type verdict struct {
	of    *compiled
	value string
	ok    bool
}

// verdicts remembers verdicts. It may forget any at any time, and be slow to
// learn; what it returns is right.
type verdicts interface {
	get(key uint64) *verdict
	set(key uint64, v *verdict)
}

// remembered is the verdicts of the process: requirements are pure, so all
// tables may share what they said.
var remembered = sync.OnceValue(func() verdicts {
	cache, err := ristretto.NewCache(&ristretto.Config[uint64, *verdict]{
		NumCounters: verdictCounters, MaxCost: VerdictsBytesMax, BufferItems: 64, IgnoreInternalCost: true,
	})
	if err != nil { // it refuses settings of zero only
		return forgetful{}
	}
	return &lasting{cache}
})

// lasting remembers by a cache that drops what is asked for least.
type lasting struct {
	cache *ristretto.Cache[uint64, *verdict]
}

func (l *lasting) get(key uint64) *verdict {
	v, _ := l.cache.Get(key)
	return v
}

func (l *lasting) set(key uint64, v *verdict) {
	const self = 112 // the verdict and its place in the cache
	cost := self + int64(len(v.value))
	if v.value == "" {
		cost += int64(len(v.of.encoded))
	}
	l.cache.Set(key, v, cost)
}

// forgetful remembers nothing.
type forgetful struct{}

func (forgetful) get(uint64) *verdict  { return nil }
func (forgetful) set(uint64, *verdict) {}

// Forgetful makes a new table decide every requirement anew each time, as it
// must be able to: what is remembered saves work and changes nothing.
func (t *Table) Forgetful() *Table {
	t.verdicts = forgetful{}
	return t
}

// memory returns where the table remembers verdicts.
func (t *Table) memory() verdicts {
	if t.verdicts == nil {
		t.verdicts = remembered()
	}
	return t.verdicts
}

// predicate is a requirement in use, prepared to be asked often.
type predicate struct {
	model.Requirement
	*compiled // nil = its verdicts are not worth remembering
}

// compile prepares a requirement. One that was there before is found again, and
// so is what it said.
func (t *Table) compile(r model.Requirement) predicate {
	if len(r.Values) < longList {
		return predicate{r, nil}
	}
	b := []byte{byte(r.Operator)}
	for _, v := range r.Values {
		b = append(binary.AppendUvarint(b, uint64(len(v))), v...)
	}
	hash := xxhash.Sum64(b)
	if v := t.memory().get(hash); v != nil && v.value == "" && v.of.encoded == string(b) {
		return predicate{r, v.of}
	}
	c := &compiled{encoded: string(b), hash: hash}
	t.memory().set(hash, &verdict{of: c})
	return predicate{r, c}
}

// is reports whether a compiled requirement is this one. The cache learns late,
// so there may be several of one: they become one when they meet.
func (p *predicate) is(c *compiled) bool {
	if c != p.compiled && c.encoded == p.encoded {
		p.compiled = c
	}
	return c == p.compiled
}

// decide is Requirement.Matches for a value that is present: a profile's values
// are sorted.
func (p *predicate) decide(value string) bool {
	switch p.Operator {
	case model.In, model.NotIn:
		_, listed := slices.BinarySearch(p.Values, value)
		return listed == (p.Operator == model.In)
	}
	return p.Matches(value, true)
}

// matches is Requirement.Matches.
func (p *predicate) matches(t *Table, value string, present bool) bool {
	if p.compiled == nil || value == "" || !present {
		return p.Matches(value, present)
	}
	key := (p.hash ^ xxhash.Sum64String(value)) * mixer
	if v := t.memory().get(key); v != nil && v.value == value && p.is(v.of) {
		return v.ok
	}
	ok := p.decide(value)
	t.memory().set(key, &verdict{of: p.compiled, value: strings.Clone(value), ok: ok})
	return ok
}
