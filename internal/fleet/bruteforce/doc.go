// Package bruteforce finds, for small fleets, the best set of victims there is,
// by trying every set. It takes from the engine what phase 1 attributed to
// whom, and re-derives the rest from the contract in other words: whom a set
// frees, which gangs it breaks, what it destroys. Tests hold plans against it.
package bruteforce
