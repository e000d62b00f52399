// Command stages runs the stages of the tests, and shows that they advance.
//
//	stages test [GO-TEST-ARGUMENT…]   one go test, with progress and a summary; with
//	                                  -with=LIBRARY only of packages that reach it, also
//	                                  by their tests, with -without=LIBRARY of the others
//	stages run SUITE                  every stage of a suite: test-all, ci or nightly
//	stages table                      the stages and their budgets, as Markdown
//
// # Stages
//
// A stage is a target of the Makefile with a budget: the seconds that it takes
// on two quiet cores from empty caches. The table in table.go is the single
// source of both; docs/testing.md shows a copy, which a test compares. Every
// stage of a suite runs, also after one that failed. The ends of what failed stages
// said, and a table with one row for each stage, close the output. A suite fails when one of its stages fails.
//
// # Budgets
//
// A stage fails when it takes more than 1.5 times its budget, or more than 3
// times on a busy machine; fifteen seconds more than its budget are always
// allowed. A machine is busy when processes other than the
// stage's own used more than a quarter of its cores on average over the stage.
// That figure is exact where the load average is not: /proc/stat says how much
// processor time was used in all, stolen time of a virtual machine included,
// and the kernel accounts to this process the time that its own children used.
// The table prints it beside the load average. Where /proc/stat cannot be read, the
// load average beyond the number of cores stands in for it.
//
// # Progress
//
// No more than ten seconds pass without a line: a line of progress is printed
// when a stage has been silent for a while. It says which packages are tested
// or, while the go command compiles and downloads, which programs run.
package main
