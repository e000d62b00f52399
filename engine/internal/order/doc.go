// Package order is the stages normalise and rank. It takes over the state of the last cycle (Pass.CarryOver), turns the
// rows of changed clusters into lines (Pass.Normalise), folds gangs that one machine could hold (fold.go, begun.go,
// fold_price.go), and brings all Needs into one total order: Pass.Merge where few have moved, else Pass.Rank (rank.go).
package order

import (
	// The compiler inlines functions of packages that are imported directly, and of no others. What the packages
	// below hand up has types and methods of these.
	_ "github.com/tonnage/tonnage/engine/supply"
)
