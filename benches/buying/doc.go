// Package buying measures what a fleet costs that is bought for pods, against a bound that no
// fleet can beat, and how many pods are pending in the end.
//
// A feed of pods goes through what a cluster has: the operator's pod controller makes requests,
// its roll-up makes rows, the engine buys machines of a real price list, a scheduler places the pods, and
// the operator looks for those that are stuck. Round follows round until every pod runs or nothing
// more is bought. Only the scheduler is played (package operator/packing), and a round takes no time.
//
//	go test ./benches/buying -run Whole -whole -v -timeout 1h
//
// The bound is a linear program, solved by gonum: fractions of machines, and pods that can be cut. Pods with devices take them, and their
// cores and memory, from machines that have as many.
package buying
