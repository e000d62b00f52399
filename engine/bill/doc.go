// Package bill says what a fleet costs, and what it would cost at least: the linear bound for what its
// Needs have.
//
// # The bound
//
// What the Needs of one kind have (engine.Covered) is a vector of resources, and the classes of machines
// that can serve them are known. The least cost of fractions of machines that cover the vector is a
// linear program with one row for each resource. No whole machines cost less. A class that can be
// bought, since it has a Speculative machine, counts without limit; any other counts as many machines
// as there are.
//
// Several kinds compete for the machines of a class that has a limit. With a price λ ≥ 0 on each such
// machine, added to what it costs and paid back once for every machine that exists, the kinds are
// independent of each other again, and the sum of their least costs is still a lower bound whatever λ
// is (Geoffrion, Lagrangean relaxation for integer programming, 1974). The λ are moved by the subgradient
// method with Polyak's step: what is taken beyond a limit becomes dearer.
//
// The bound is of what Needs have, not of what they ask for, so that a fleet that is short does not
// look cheap. Costs are effective ones, as the engine sees them: price, and probability of an interruption times what
// it costs the Need. The bound disregards what makes a fleet dearer for a reason: whole machines, domains, hard
// spread, machines that were bought for demand that has changed.
package bill
