// Package pin ties workers to processors.
//
// A worker that stays on one CPU keeps its caches, and memory bound to that
// CPU's node stays near. The goroutine is locked to its thread, and the
// thread's affinity is narrowed to the one CPU; the kernel still decides when
// it runs, and other threads may run there too.
//
// A worker normally never lets go: it returns while it is locked, and the
// runtime ends the thread with it, so that no thread with a narrow mask goes
// back to serve other goroutines. (The process's first thread cannot end; the
// runtime sets it aside, and tools that show the mask of a process then show
// that thread's.) Nor do new threads inherit the mask: the runtime starts them
// from one that nobody locked.
//
// A locked goroutine that waits hands its thread over to the kernel. To wake it
// and hear back took 100 µs on a busy machine of two cores, and 1 µs for one
// that was not locked (BenchmarkWake). Pin workers that work for long, or that
// spin for a while before they wait.
package pin
