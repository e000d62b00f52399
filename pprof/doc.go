// Package pprof marks goroutines with the stage of the cycle and the number of
// the worker, so that profiles and traces tell them apart.
//
// # Where labels are set
//
// The engine knows neither profiles nor this package: it looks at no clock and
// does no I/O, and what it cannot reach it cannot depend on. It is given a
// function, as it is given its clock, and calls it with a stage and a worker
// where either begins. The caller of cycles makes Labels, hands the engine
// Labels.Mark, and calls Clear when the cycle is over:
//
//	labels := pprof.New(ctx, workers)
//	…
//	in.Mark = labels.Mark // once: a method value allocates where it is made
//	plan, err := e.Cycle(in)
//	labels.Clear()
//
// # Cost
//
// All label sets are made beforehand, a set for each stage of each worker. Mark
// is then a look-up and a store into the goroutine: a few nanoseconds, without
// allocation, whether or not somebody takes a profile. While an execution trace
// runs (a flight recorder does so all the time), Mark also writes an event of
// category "stage", which `go tool trace` shows on the goroutine's line.
//
// # Reading
//
//	go tool pprof -tagfocus stage=phase1 tonnage cpu.pprof
//	go tool pprof -tagroot stage -top tonnage cpu.pprof
//
// Labels belong to samples of processor time; the runtime does not keep them
// with samples of the heap, nor with those of mutexes and of blocking.
package pprof
