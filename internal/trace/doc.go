// Package trace replays a production GPU cluster: the openb trace (1,523 nodes
// and about 8,150 pods of 2023) as machines and as the roll-ups of one or more
// clusters over time. The trace has no prices, racks or purchasable capacity;
// they come from two public tables beside it, a price list and a real network.
// All of the mapping is modelling; this page states every choice.
//
// # Demand
//
// A pod is live from its creation to its deletion, whether or not it was ever
// scheduled (pending pods are demand too); with ArrivalsOnly it never leaves.
// Honouring departures the trace is nearly idle (at most 56 pods live), so
// arrivals only is what fills the fleet. The clock starts at the first deletion
// of the trace, t = 9,964,972 s: what was gone by then is missing from the
// lists. The list multigpu20 has no times, quality of service or models: it is
// one static demand of pods that count as Burstable.
//
// GPUs are counted in thousandths (nvidia.com/gpu-milli): the sum of
// num_gpu × gpu_milli. Rounding shares up to whole GPUs would ask for a fifth
// more than there is, where the cluster did run them side by side.
//
// The engine counts in whole machines, and each machine serves one row. Fewer
// rows waste less; but the minimum unit of a row is its largest pod, so pods of
// different sizes in one row shut out machines that suit most of them. Rows
// are, per cluster:
//
//   - quality of service × GPU models × size class, where
//   - the size class is the number of GPUs (none, up to 1, 2, 4, 8), and, apart,
//     what exceeds the commonest GPU node (96 cores, 384 GiB);
//   - pods that name models ask for In {…}; other GPU pods ask that the label
//     nvidia.com/gpu.product exists; pods without GPU ask for nothing.
//
// With every pod of the default list held, the 1,523 nodes satisfy all of it in
// one cluster (16 rows), and 97 % of the cpu and 98 % of the GPUs in 20 clusters
// (158 rows), where rounding up to whole nodes costs more. One row for all
// sizes of a quality of service satisfies 37 % of the GPUs in one cluster: its
// minimum unit is a whole 8-GPU node. One row for each set of node shapes that
// a pod fits, the exact grouping, satisfies 92 % in 20 clusters (293 rows).
//
// Priority comes from quality of service: Guaranteed 1,000,000, LS 950,000,
// Burstable 300,000, BE 0. So do the penalties (see qualities). The reclamation
// penalty also grows with what is hard to place: it doubles with every doubling
// of the GPUs of a size class, for pods that name models, and for large ones.
// It ranks rows of equal priority, so the difficult ones choose first; without
// it single-GPU pods break up the 8-GPU nodes.
//
// # Supply
//
// Every node is a bare metal machine with its own id. The 847 hosts of the
// network stand in 119 racks; nodes are spread over them in the order of both
// files, so that neighbours share racks: label topology.kubernetes.io/rack is
// the access switch, topology.kubernetes.io/block the one above it.
//
// Owned nodes cost what they draw: 1 kW for a plain node and 5 kW for one with
// GPUs, at 10 cents. Pods without GPU so keep to plain nodes while there are
// any. Rates do not depend on the model on purpose: nodes then fill in the
// order of their ids, in which models are mixed. Any rate by size or model
// drains one model first, mostly a scarce one that some pods insist on
// (measured on gpuspec33: 91 to 94 % of the GPUs satisfied against 95 %).
//
// Speculative capacity is a small choice of types of one region of the price
// list, on demand and spot, SlotsPerType of each. None of them has a GPU model
// of the trace, by default: models join only through the table equivalents, and
// T4 is scarce in gpuspec33 (1,028 GPUs asked for by pods that take nothing
// else, 842 in the fleet). That shortage is real and must show as such; with
// OfferEquivalents the shop sells T4 and V100, and it is bought away. The
// models G1 to G3 are undisclosed and have no equivalent. A slot's interruption
// is the midpoint of its bucket, which is per month, brought to one hour.
package trace
