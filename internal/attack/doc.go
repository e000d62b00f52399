// Package attack attacks running processes from outside, with nothing but the
// protocol, certificates and files: it tests the promises of docs/security.md.
//
// Each file has one subject. An attack states what the attacker holds, measures what
// its victims notice, and fails when a promise is broken. The short forms run with
// every test; -soak makes them longer.
package attack
