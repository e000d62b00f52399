package simulated

import (
	"container/heap"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
)

// completion is a transition's end. The one with the earliest time comes
// first, of equal ones the one that started first.
type completion struct {
	due     int64
	started uint64
	entry   int32
	op      shard.Op
}

type completions []completion

func (c completions) Len() int { return len(c) }
func (c completions) Less(i, j int) bool {
	if c[i].due != c[j].due {
		return c[i].due < c[j].due
	}
	return c[i].started < c[j].started
}
func (c completions) Swap(i, j int) { c[i], c[j] = c[j], c[i] }
func (c *completions) Push(x any)   { *c = append(*c, x.(completion)) }
func (c *completions) Pop() any {
	old := *c
	x := old[len(old)-1]
	*c = old[:len(old)-1]
	return x
}

// begin numbers a transition and draws how long it takes. A late-bound machine is made while it is bound and
// gone when it is drained: Create and Delete take no time, Configure and Drain take theirs as well.
func (f *Fleet) begin(i int32, op shard.Op) (nanos int64) {
	f.transition++
	e := &f.entries[i]
	e.started = f.transition
	if e.machine.Labels[model.LabelLateBound] != "true" {
		return int64(f.latencies.of(op).draw(f.rng))
	}
	switch op {
	case shard.OpConfigure:
		return int64(f.latencies.Create.draw(f.rng) + f.latencies.Configure.draw(f.rng))
	case shard.OpDrain:
		return int64(f.latencies.Drain.draw(f.rng) + f.latencies.Delete.draw(f.rng))
	}
	return 0
}

// schedule notes when a transition that has begun will end.
func (f *Fleet) schedule(i int32, op shard.Op, nanos int64) {
	f.scheduleAt(i, op, f.now+nanos)
}

func (f *Fleet) scheduleAt(i int32, op shard.Op, due int64) {
	f.entries[i].due = due
	heap.Push(&f.pending, completion{due: due, started: f.entries[i].started, entry: i, op: op})
}

// Advance tells the fleet the time, Unix nanoseconds, and completes what is
// due by then, in the order in which it falls due. Time does not run backward:
// an earlier time than the last one changes nothing. It returns the number of
// transitions that ended.
func (f *Fleet) Advance(now int64) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = max(f.now, now)
	done := 0
	for len(f.pending) > 0 && f.pending[0].due <= f.now {
		c := heap.Pop(&f.pending).(completion)
		if e := &f.entries[c.entry]; e.live && e.started == c.started && e.machine.State == transitions[c.op].during {
			f.complete(c.entry, c.op, c.due)
			done++
		}
	}
	return done
}

// NextDue returns when the next transition ends, and whether there is one.
func (f *Fleet) NextDue() (int64, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.pending) == 0 {
		return 0, false
	}
	return f.pending[0].due, true
}
