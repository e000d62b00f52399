// Package pods makes a CapacityRequest of every live pod: pending pods need a
// machine, running pods must keep theirs.
//
// A request is named after its pod and owned by it, so there is one for each pod,
// and it is deleted with the pod, or when the pod has finished. It says what the
// scheduler would look at:
//
//   - requirements: the node selector and the required node affinity. Affinity
//     terms are alternatives and a request has none: terms that differ in the
//     values of one key are joined, and of what is left the first counts.
//   - resources: what the scheduler counts, with init containers, sidecars, overhead
//     and pod-level resources. A pod that asks for nothing asks for a thousandth
//     of a core, or it would never get a machine.
//   - priority, hard topology spread, and as co-location the first required pod
//     affinity.
//   - penalties: the pod's annotations, else the default of its priority class.
//
// Pods that a scheduling gate holds back do not ask yet.
package pods
