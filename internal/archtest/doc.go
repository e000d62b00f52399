// Package archtest keeps the architecture: which package may import which,
// what the core must not reach, and a few conventions that a compiler does not
// check. It holds tests only.
//
// Two tables say which imports are right. layers lists, for each package, the
// packages and libraries that it may import itself; a package that has no line
// fails, so a new one is placed on purpose. walls lists what a package must not
// reach by any way, also through another package, and a breach is shown with
// the whole chain of imports. Every line carries its reason.
//
// Paths that begin with "./" are of this module, as in the go command; a path
// that ends in "/..." stands for the package and everything below it.
//
// A library's own use of the standard library is not followed: a set of row
// numbers may well import math/rand for its tests' sake. Which libraries may be
// imported at all is what layers says.
package archtest
