// Package acquire lets one Need claim free machines: which are free and what they cost (free.go), what it takes of
// machines that are held, and when reservations end (holds.go), the rules of acquisition (acquire.go, fit.go), hard
// spread (spread.go, spread_deal.go, spread_fit.go), and what a Need gives back in the same turn (giveback.go). It does
// not know when a Need has its turn: phase 1 calls Acquire, and phase 2 reads what is free and takes it.
package acquire

import (
	// The compiler inlines functions of packages that are imported directly, and of no others. What the packages
	// below hand up has types and methods of these.
	_ "github.com/tonnage/tonnage/engine/demand"
	_ "github.com/tonnage/tonnage/engine/supply"
)
