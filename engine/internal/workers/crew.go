// Package workers runs the workers of an engine: a pool of goroutines that do a task together. It knows no
// machine and no Need.
package workers

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/tonnage/tonnage/engine/model"
)

// Crew is the worker pool of an engine. Worker 0 is the goroutine that calls Run; the others are
// goroutines that wait for tasks, and end with the engine.
type Crew struct {
	tasks []chan func(worker int)
	Alone bool // worker 0 does everything: the fleet is small
	wait  sync.WaitGroup
	fault atomic.Pointer[any] // the first panic of a worker
	quit  sync.Once
	stage model.Stage // what the workers are at
	// Mark, if not nil, is called when a worker begins a task of the stage.
	Mark  func(stage model.Stage, worker int)
	dealt dealing
	// Instead, if not nil, runs the tasks. Tests set it.
	Instead Runner
}

// Runner runs tasks on one goroutine, for as many workers as a crew has.
type Runner interface {
	// Run calls f for every worker.
	Run(workers int, f func(worker int))
	// Each divides the numbers below n among the workers, in chunks, and calls f for each chunk.
	Each(workers, n, chunk int, f func(worker, from, to int))
}

// New starts workers − 1 goroutines. Each calls pin, if not nil, once before its first task.
func New(workers int, pin func(worker int)) *Crew {
	c := &Crew{tasks: make([]chan func(int), max(workers-1, 0))}
	c.dealt.work = c.dealt.take
	for i := range c.tasks {
		c.tasks[i] = make(chan func(int))
		go c.serve(i+1, c.tasks[i], pin)
	}
	return c
}

func (c *Crew) serve(worker int, tasks <-chan func(int), pin func(int)) {
	if pin != nil {
		// A thread that was bound to a CPU must not serve other goroutines: it ends with this one.
		runtime.LockOSThread()
		pin(worker)
	}
	for f := range tasks {
		c.do(worker, f)
	}
}

func (c *Crew) do(worker int, f func(int)) {
	defer c.wait.Done()
	defer func() {
		if r := recover(); r != nil {
			fault := r // the address of r itself would put r on the heap in every call
			c.fault.CompareAndSwap(nil, &fault)
		}
	}()
	if worker > 0 && c.Mark != nil {
		c.Mark(c.stage, worker)
	}
	f(worker)
}

// Begin sets the stage that the workers are at.
func (c *Crew) Begin(stage model.Stage) {
	c.stage = stage
	if c.Mark != nil {
		c.Mark(stage, 0)
	}
}

// ChunkMax bounds the chunks of Each. Tests lower it.
var ChunkMax = math.MaxInt

// Size returns the number of workers that take part.
func (c *Crew) Size() int {
	if c.Alone {
		return 1
	}
	return len(c.tasks) + 1
}

// Run calls f on every worker and returns when all are done. A panic of a worker becomes a panic of
// Run.
func (c *Crew) Run(f func(worker int)) {
	n := c.Size()
	if c.Instead != nil {
		c.Instead.Run(n, f)
		return
	}
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

// Each divides the numbers below n among the workers, in chunks, and calls f once for each chunk. A
// worker that finishes early takes the next chunk.
func (c *Crew) Each(n, chunk int, f func(worker, from, to int)) {
	if c.Instead != nil {
		c.Instead.Each(c.Size(), n, min(chunk, ChunkMax), f)
		return
	}
	c.dealt.next.Store(0)
	c.dealt.n, c.dealt.chunk, c.dealt.f = n, min(chunk, ChunkMax), f
	defer func() { c.dealt.f = nil }() // also when a worker has panicked: f refers to the engine
	c.Run(c.dealt.work)
}

// dealing is the state of one call of Each.
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

// Close ends the goroutines. It may be called more than once.
func (c *Crew) Close() {
	c.quit.Do(func() {
		for _, t := range c.tasks {
			close(t)
		}
	})
}
