// Package benches holds the engine's gates: what a cycle on a named rung of the
// calibrated workload must answer, and at which cost.
//
// A gate compares what is the same on every machine and in every run: the plan,
// the number of candidates that were looked at, the allocations of a steady
// cycle. It never compares time. What is expected stands in
// testdata/gates.json; a change that means to move a figure writes the file
// anew, so that the change shows what it moved:
//
//	go test ./benches -run Gates -update
//
// Times come from the benchmarks beside the packages (make bench).
package benches
