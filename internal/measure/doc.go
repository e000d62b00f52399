// Package measure drives the engine through a regime of a calibrated workload
// and measures its cycles: it is what `tonnage bench` runs.
//
// # Regimes
//
// A regime says what lies before each measured cycle. Everything but the cycle
// itself lies outside the measured time.
//
//   - cold and contended decide from scratch: two equal worlds take turns, so
//     that nothing an engine may remember of its last cycle helps it. Plans are
//     not carried out. Working memory is kept, as in a process that runs.
//   - burst and shrink decide on one change: the engine has just decided on the
//     steady demand, then the change comes, is measured, and is taken back.
//     Plans are not carried out. The change may come in some of the clusters
//     only (Config.ClustersPercent): a burst of deployments.
//   - steady runs on: before each cycle 1 % of the Needs ask for something else
//     and 1 % of the machines are in another state, those included that the plan
//     of the cycle before has moved: it is carried out as by a provider that
//     needs no time, and machines that have come to serve another Need get its
//     stamp, as a shard does. Where a plan moves more by itself, nothing else moves; see
//     Result.ChangedMachines. What is measured begins
//     when the fleet has come to rest and has taken a few changes.
//
// In all regimes but steady every measured cycle must give the same plan; one
// that does not is an error, not a figure.
//
// # Time
//
// The engine's time goes on by CycleStep from cycle to cycle: it never stands
// still, which an engine could notice, and never passes a hold or a deadline,
// which would release idle machines in the middle of a measurement.
//
// # Statistics
//
// Percentiles are exact, by nearest rank: of n cycles sorted by time, p is the
// ⌈p·n⌉-th. Nothing is interpolated, so every figure is one that was measured;
// of fewer than 100 cycles p99 is the slowest. The percentiles of phases are
// taken by themselves: those of one cycle need not be the cycle's.
//
// # Costs beside time
//
// Allocations are counted exactly, by stopping the world right before and
// after the cycle. Where the regime leaves garbage behind, it is collected
// before the clock starts: what the collector does within a cycle is the
// cycle's own. Bytes per machine and per Need are those of the tables' own
// accounts; beside them stands by how much the heap grew when the tables were
// filled.
package measure
