// Package contract holds the contract of the engine (docs/explanation/contract.md) as tests: one for each
// sentence that states a rule, on a world of a few machines, and invariants
// over random fleets. They speak of reference.Input and reference.Plan only,
// so that the slow twin and the engine, behind an adapter, run the same tests:
//
//	func TestContract(t *testing.T) { contract.Run(t, decide) }
//
// A subtest's name is the sentence. Machines and rows are written with the
// small words of scene.go: a row first, then the machines that name it.
package contract
