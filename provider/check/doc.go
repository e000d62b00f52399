// Package check tries a provider from outside, with nothing but the calls of
// bigfleet.v1alpha1.CapacityProvider: a list of checks, each with a stable id, the sentence
// of the protocol that it checks, and a result.
//
// A check that changes machines brings one into the state that it needs, by the calls of the
// protocol, and does what it checks. The next check starts from wherever that one ended, so
// each can run alone and in any order, and one that fails does not spoil the others. What is
// seen of machines on the way is held to the rules of records, whatever the check was about.
//
// One life of a machine costs minutes with a real provider. Checks that only look at a life
// share one (journey.go); so do those that need a restart, a machine that vanishes or a change
// that fails.
//
// A Target never touches a machine that it did not claim, and Restore brings those back into
// the state in which they were found. A machine that was found Idle is never deleted: nobody
// could say that it comes back.
package check
