package engine

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/tonnage/tonnage/engine/model"
)

// crew is the worker pool of an engine. Worker 0 is the goroutine that calls run; the others are
// goroutines that wait for tasks, and end with the engine.
type crew struct {
	tasks []chan func(worker int)
	alone bool // worker 0 does everything: the fleet is small
	wait  sync.WaitGroup
	fault atomic.Pointer[any] // the first panic of a worker
	quit  sync.Once
	// stage is what the workers are at; mark is called when a worker begins a task of it.
	stage model.Stage
	mark  func(stage model.Stage, worker int)
	dealt dealing
}

// newCrew starts workers − 1 goroutines. Each calls pin, if not nil, once before its first task.
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
		// A thread that was bound to a CPU must not serve other goroutines: it ends with this one.
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
			fault := r // the address of r itself would put r on the heap in every call
			c.fault.CompareAndSwap(nil, &fault)
		}
	}()
	if worker > 0 && c.mark != nil {
		c.mark(c.stage, worker)
	}
	f(worker)
}

// begin sets the stage that the workers are at.
func (c *crew) begin(stage model.Stage) {
	c.stage = stage
	if c.mark != nil {
		c.mark(stage, 0)
	}
}

// crewMin is the number of machines and rows together from which on all workers take part. With fewer,
// waking them in each stage costs more than they save. Tests lower it.
var crewMin = 1 << 16

// chunkMax bounds the chunks of each. Tests lower it.
var chunkMax = math.MaxInt

// size returns the number of workers that take part.
func (c *crew) size() int {
	if c.alone {
		return 1
	}
	return len(c.tasks) + 1
}

// run calls f on every worker and returns when all are done. A panic of a worker becomes a panic of
// run.
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

// each divides the numbers below n among the workers, in chunks, and calls f once for each chunk. A
// worker that finishes early takes the next chunk.
func (c *crew) each(n, chunk int, f func(worker, from, to int)) {
	c.dealt.next.Store(0)
	c.dealt.n, c.dealt.chunk, c.dealt.f = n, min(chunk, chunkMax), f
	c.run(c.dealt.work)
	c.dealt.f = nil
}

// dealing is the state of one call of each.
type dealing struct {
	next     atomic.Int64
	n, chunk int
	f        func(worker, from, to int)
	work     func(worker int) // the method value of take, made once
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

// close ends the goroutines. It may be called more than once.
func (c *crew) close() {
	c.quit.Do(func() {
		for _, t := range c.tasks {
			close(t)
		}
	})
}
