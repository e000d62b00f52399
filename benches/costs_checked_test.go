//go:build race || invariants

package benches

// costsCount: the race detector and the checks of lent memory allocate too.
const costsCount = false
