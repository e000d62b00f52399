// Package workload generates the calibrated fleets that Tonnage is measured
// and demonstrated on: a catalog of nine workload archetypes whose shares come
// from published production calibrations, and rungs of it, from 1,265 machines
// to half a million.
//
// # From catalog to fleet
//
// Nothing is left to the luck of a draw. Counts are apportioned by largest
// remainder, and heavy-tailed quantities (replicas, gang sizes) are drawn
// stratified: of n objects the i-th takes the quantile (i+½)/n, and only the
// order in which objects reach clusters is shuffled from the seed. So every
// seed gives the same totals, and one seed gives the same bytes everywhere.
//
//  1. Objects: a cluster holds 1,350 workloads (25,000 pods), by the catalog's
//     weights. Gangs are rows of their own; the objects of a plain archetype
//     join in one Need per profile (with and without zone spread): about 222
//     gangs and 9 plain Needs.
//  2. Machines: gangs fix how many machines their archetypes take; the rest of
//     the Configured tier goes to the plain archetypes by the catalog's shares,
//     and inside one to its Needs by the weight of their objects.
//  3. Aggregates: a plain Need asks for what its machines hold, less half of
//     the smallest one. So a Need's machines cover it, and none of them can be
//     missed: the Configured tier covers the demand exactly, in whole machines,
//     and nothing of it is excess.
//
// What gangs need as folds (three sizes, each rounded up to whole machines) is
// a little more than the catalog's machine share of memory-cache and
// stateful-db; the other shares give way by less than a percentage point. On
// the smallest rung, where one machine is a third of a percent, training gangs
// take more than their share too.
//
// # Two special rungs
//
// 500k-rows has more rows (776,000) than machines, and a row takes at least one
// machine, so a third of them can never be served. Rows that are served keep
// the catalog's priorities; those beyond the supply have priority 0, which makes
// them wait without anybody to preempt. Steady binds every tier. What is left
// over in the racks of gangs is taken in the first cycle: about one machine in
// a hundred.
//
// 500k-flat has one instance type. Its last tenth of rows accepts two zones and
// ranks low, the Idle tier stands in the third zone: so it stays unmet.
//
// # Readings
//
// A machine is the pod size times the pods per machine, in every dimension but
// devices: those are what the instance type has (8 on an "-8g" type), which is
// also what the pods of one machine need. Instance types follow pod sizes:
// larger pods lie on the larger types of the archetype's list. All tiers have
// racks. The Configured tier is priced like the Idle one: half bare metal at
// price 0, half on-demand at list price.
//
// # Memory
//
// A Fleet keeps twelve bytes a machine and some forty a row. Machines and
// Needs are made when asked for, one machine or one cluster at a time, with
// instance types, zones, label maps, resource vectors and profiles shared.
package workload
