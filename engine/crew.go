package engine

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/tonnage/tonnage/engine/model"
)

// crew is the workers of an engine. The first is whoever calls run; the others
// are goroutines that wait for the next task, and end with the engine.
type crew struct {
	tasks []chan func(worker int)
	alone bool // the first does everything
	wait  sync.WaitGroup
	fault atomic.Pointer[any] // what a worker panicked with
	quit  sync.Once
	// What the workers are at, and whom they tell when they begin with it.
	stage model.Stage
	mark  func(stage model.Stage, worker int)
	dealt dealing
}

// newCrew starts workers − 1 goroutines. pin, if there is one, is called once
// by each of them before its first task.
func newCrew(workers int, pin func(worker int)) *crew {
	c := &crew{tasks: make([]chan func(int), max(workers-1, 0))}
	c.dealt.work = c.dealt.take
	for i := range c.tasks {
		c.tasks[i] = make(chan func(int))
		go c.serve(i+1, c.tasks[i], pin)
	}
	return c
}

func (c *crew) serve(worker int, tasks <-chan func(int), pin func(int)) {
	if pin != nil {
		// A thread that has been bound to a CPU ends with its goroutine.
		runtime.LockOSThread()
		pin(worker)
	}
	for f := range tasks {
		c.do(worker, f)
	}
}

func (c *crew) do(worker int, f func(int)) {
	defer c.wait.Done()
	defer func() {
		if r := recover(); r != nil {
			fault := r // r itself would be on the heap, each time
			c.fault.CompareAndSwap(nil, &fault)
		}
	}()
	if worker > 0 && c.mark != nil {
		c.mark(c.stage, worker)
	}
	f(worker)
}

// begin says what the workers are at from now on.
func (c *crew) begin(stage model.Stage) {
	c.stage = stage
	if c.mark != nil {
		c.mark(stage, 0)
	}
}

// crewMin is from how many machines and rows on the others are woken: with fewer
// that takes longer, stage by stage, than what they spare the first. Tests lower it.
var crewMin = 1 << 16

// chunkMax is how many numbers are dealt at a time at most. Tests lower it.
var chunkMax = math.MaxInt

// size returns the number of workers.
func (c *crew) size() int {
	if c.alone {
		return 1
	}
	return len(c.tasks) + 1
}

// run lets every worker do f and returns when all have. A panic of one is a
// panic of run.
func (c *crew) run(f func(worker int)) {
	n := c.size()
	c.wait.Add(n)
	for _, t := range c.tasks[:n-1] {
		t <- f
	}
	c.do(0, f)
	c.wait.Wait()
	if r := c.fault.Swap(nil); r != nil {
		panic(*r)
	}
}

// each deals the numbers below n to the workers, chunk by chunk, and calls f
// for each chunk.
func (c *crew) each(n, chunk int, f func(worker, from, to int)) {
	c.dealt.next.Store(0)
	c.dealt.n, c.dealt.chunk, c.dealt.f = n, min(chunk, chunkMax), f
	c.run(c.dealt.work)
	c.dealt.f = nil
}

// dealing is the work of one call of each.
type dealing struct {
	next     atomic.Int64
	n, chunk int
	f        func(worker, from, to int)
	work     func(worker int) // take, bound once
}

func (d *dealing) take(worker int) {
	for {
		to := int(d.next.Add(int64(d.chunk)))
		if to-d.chunk >= d.n {
			return
		}
		d.f(worker, to-d.chunk, min(to, d.n))
	}
}

// close ends the goroutines.
func (c *crew) close() {
	c.quit.Do(func() {
		for _, t := range c.tasks {
			close(t)
		}
	})
}
