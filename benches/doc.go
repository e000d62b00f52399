// Package benches holds the engine's gates and benchmarks on named rungs of the
// calibrated workload.
//
// # Gates
//
// A gate compares what is the same on every machine and in every run: the plan,
// the number of candidates that were looked at, the allocations of a steady
// cycle. It never compares time. What is expected stands in
// testdata/gates.json and, for the plans of `tonnage bench`, in
// testdata/plans.json; a change that means to move a figure writes the files
// anew, so that the change shows what it moved:
//
//	make gates
//	go test ./benches -run Gates -update
//
// # Benchmarks
//
// Names are key=value, as benchstat groups by them; seeds are fixed, and what a
// cycle decides on is brought about outside its time. The phases of a cycle are
// metrics of their own, which benchstat compares like any other:
//
//	make bench
//	make bench BENCH='Cycle/rung=5k/regime=steady' BENCH_TIME=3s
//	go test ./benches -run '^$' -bench Cycle -count 10 > new.txt
//	benchstat -col .file -row /rung,/regime old.txt new.txt
//
// Larger rungs, percentiles, memory and checksums are for `tonnage bench`.
package benches
