// Package packing places pods on machines, to find out how many of them a fleet
// can hold. Sums are not enough: machines with much CPU and machines with much
// memory may add up to the demand of the pods while the pods fit on neither.
//
// [Place] places the biggest pods first, each where it brings the free capacity of a machine
// closest to the shape of the demand that is left. That is the idea of the dot product
// heuristic for vector bin packing (Panigrahy, Talwar, Uyeda, Wieder, Heuristics for Vector Bin
// Packing, 2011), with the demand that is left in place of the pod: with the pod itself, on
// fleets that were bought for the sum of their pods, a tenth to a half of the pods found no
// room at first, and with the demand that is left most often none.
//
// Where machines differ in shape it is not enough: all pods that are leaner than the demand are drawn to the lean
// machines, the biggest first, and the leanest find no room. Then a second try first deals the pods to the shapes of
// machines, as a linear program would (deal.go).
//
// Nothing here depends on a clock, on chance or on the order of maps: equal input
// gives equal placements. Ties go to the machine that was given first.
package packing
