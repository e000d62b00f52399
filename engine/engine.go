// Package engine decides, once per cycle, what a shard should do with its
// machines: which to bind, to buy, to preempt, to reclaim and to give back.
//
// It is a pure function of supply, demand, time and options. It does no I/O,
// looks at no clock, draws no random numbers and logs nothing: what happened
// is in the Plan and its Stats. One answer belongs to one input.
//
// The way of a cycle is cycle.go. A Need is walked over machines by class:
// machines of one class are alike in everything that the walk looks at, so
// that the next candidate of a Need is the smallest head among the lists of
// the few classes that suit it.
package engine

import (
	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/snapshot"
	"github.com/tonnage/tonnage/engine/supply"
)

// Input is everything that a cycle looks at.
type Input struct {
	Supply *supply.Table
	Demand *demand.Table
	// Now is the time of the decision in Unix nanoseconds.
	Now int64
	// DrainSeconds is the observed drain time by instance type; types that are
	// missing take DrainSecondsDefault.
	DrainSeconds map[string]float64
	// Clock gives nanoseconds for the durations in Stats; nil leaves them 0.
	Clock func() int64
}

// Engine decides cycle after cycle, reusing its memory. It has one owner; it
// is not safe for concurrent use.
type Engine struct {
	opts     Options
	accounts alloc.Accounts
	snaps    *snapshot.Builder
	arena    *alloc.Arena
	// Lists whose elements hold pointers are kept from cycle to cycle.
	needs  []need
	rows   []rowRef
	ranked []ranked
	keys   [2][]rankKey
	plan   Plan
	last   *pass // the last cycle, for Explain
}

// New returns an engine. The error lists every fault of the options.
func New(opts Options) (*Engine, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	e := &Engine{opts: opts}
	e.snaps = snapshot.NewBuilder(&e.accounts)
	e.arena = e.accounts.NewArena(alloc.Pass)
	return e, nil
}

// Options returns the engine's options.
func (e *Engine) Options() Options { return e.opts }

// Memory returns what the engine's working memory holds, by purpose.
func (e *Engine) Memory() [alloc.NumPurposes]alloc.Usage { return e.accounts.Usage() }
