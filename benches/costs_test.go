//go:build !race && !invariants

package benches

// costsCount says whether costs are those of a production build.
const costsCount = true
