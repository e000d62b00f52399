// Package packing places pods on machines, to find out how many of them a fleet
// can hold. Sums do not say it: machines rich in cores and machines rich in memory
// add up to what the pods ask for while the pods fit neither.
//
// [Aligned] places the biggest pods first, each where it keeps the free room of the machines
// like what is still to be placed. That is the idea of the dot product heuristic for vector bin
// packing (Panigrahy, Talwar, Uyeda, Wieder, Heuristics for Vector Bin Packing, 2011), with the
// demand that is left in place of the pod: with the pod itself, on fleets that were bought for
// the sum of their pods, a tenth to a half of the pods found no room at first, and with the
// demand that is left most often none.
//
// Nothing here depends on a clock, on chance or on the order of maps: equal input
// gives equal placements. Ties go to the machine that was given first.
package packing
