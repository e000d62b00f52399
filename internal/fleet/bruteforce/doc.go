// Package bruteforce finds the best set of victims of a small fleet by trying
// every set. It takes the claims of phase 1 from the engine, and derives the
// rest anew from the contract: which machines a set frees, which gangs it
// breaks, what it destroys. Tests compare plans with it.
package bruteforce
