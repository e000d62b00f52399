// Package cycle holds what all stages of a cycle share: the columns of Needs and machines (Pass), what one cycle leaves
// to the next (Store), and the memory of one goroutine (Worker). It decides nothing.
//
// Each stage has a package of its own, whose Pass, Store and Worker embed those of the package below and add what
// the stage writes:
//
//	cycle → order → acquire → assign → victims → search → preempt
//
// A column that a later stage reads is an exported field; what only its own stage reads is not. So a stage reads
// everything that was decided before it and nothing of what comes after it. All of it is one block of memory, and
// a column is as far away from the last stage as from the first.
package cycle
