// Package order is the first two stages of a cycle: normalise and rank. It takes over the state of the last cycle,
// turns the rows of changed clusters into lines, folds gangs that one machine could hold (fold.go, begun.go,
// fold_price.go), and brings all Needs into one total order (rank.go). See Pass.CarryOver, Pass.Normalise, Pass.Merge
// and Pass.Rank, which are called in this order.
package order

import (
	// The compiler inlines functions of packages that are imported directly, and of no others. What the packages
	// below hand up has types and methods of these.
	_ "github.com/tonnage/tonnage/engine/supply"
)
