// Command gates holds the speed of the tree it stands in to what it was.
//
//	gates instructions [-update]   instructions of pinned work, counted by valgrind, against what is written down
//	gates compare                  processor time of pinned work, base and head in turn
//	gates binaries OLD NEW         two tonnage binaries in turn, on rungs
//	gates benchmarks BINARY        every rung and regime, as a table for docs/explanation/benchmarks.md
//
// Pinned work is what benches/gates_pinned_test.go lists. docs/explanation/benchmarks.md says
// how to read what is printed and how to move what is expected.
//
// # Counting
//
// A Go program does not take the same instructions twice: maps are seeded at
// random, the heap's profile picks objects at random, a thread of the runtime
// takes the processor away from goroutines by the clock, and fast paths follow
// the processor's features. Pinned work is therefore built with a runtime of
// which some lines are replaced (no seeds, no such thread), and runs with what
// else can be switched off switched off. What remains is counted while the work
// runs: it switches callgrind on and off itself (internal/callgrind). Of kernels and
// tables the count is the same to the instruction, run after run and whatever else the
// machine does. A whole cycle has maps whose keys are pointers; where the heap puts
// objects differs a little, and the count by less than a thousandth.
//
// # Comparing
//
// Time does differ from run to run, so it is never compared with a number that
// was written down: base and head are built side by side and run A B B A on the
// machine at hand. A difference counts when the median ratio is a tenth or more over 1, when a
// sign test gives it a p below 0.05, and when all of three rounds say the same: where a
// process finds its memory moves the figures of small cycles by several percent. Where the linker puts a function moves a short loop by a
// fifth, and would do so in every round; each round is therefore of several binaries of
// each side, with functions in another order in each.
//
// Work that comes to other plans in base and head is other work: it is named and not
// compared.
package main
