// Package cycle holds what all stages of a cycle share: the columns of Needs and machines (Pass), what one cycle leaves
// to the next (Store), and the memory of one goroutine (Worker). It decides nothing.
//
// The packages above it decide, each in its part of the cycle. Each has a Pass and a Worker, and all but preempt a
// Store, which embed those of the package before and add what its own part writes:
//
//	cycle → order → acquire → assign → victims → search → preempt → engine
//
// A column that a later part reads is an exported field; what only its own part reads is not. So a part reads
// everything that was decided before it and nothing of what comes after it. (What plans of preemption count on,
// acquire.Promised, is declared below its writer: phase 1 calls functions that phase 2 calls again.) All of it is one
// block of memory, and a column is as far away from the last stage as from the first. Pass, and the groups of its
// columns, are in pass.go of each package.
package cycle
