// Package preempt is phase 2: the Needs that phase 1 left short have their turns in rank order, and each may preempt
// machines of lower priority in other clusters. With VictimsGang a plan is made for each (package search), and Needs that
// lost machines to a plan count on others (lost.go); with VictimsMachine machines are taken one by one (preempt.go,
// same.go, spread.go). See Pass.Preempt.
package preempt

import (
	// The compiler inlines functions of packages that are imported directly, and of no others. What the packages
	// below hand up has types and methods of these.
	_ "github.com/tonnage/tonnage/engine/demand"
	_ "github.com/tonnage/tonnage/engine/internal/acquire"
	_ "github.com/tonnage/tonnage/engine/internal/assign"
	_ "github.com/tonnage/tonnage/engine/internal/free"
	_ "github.com/tonnage/tonnage/engine/internal/order"
	_ "github.com/tonnage/tonnage/engine/supply"
)
