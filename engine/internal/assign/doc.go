// Package assign is phase 1. Each Need is credited machines that are bound to its cluster, cluster by cluster
// (credit.go, stamps.go, shared.go; worklist.go says which Needs are looked at again), and Needs with Same choose their
// domain (domain_choice.go). Then the Needs that lack something have their turns in rank order (turns.go,
// components.go); those whose credit waited are credited there (spare.go). At the end rows of one stamp give back
// together (together.go), and what machines are worth as victims is noted (priorities.go). See Pass.Assign.
package assign

import (
	// The compiler inlines functions of packages that are imported directly, and of no others. What the packages
	// below hand up has types and methods of these.
	_ "github.com/tonnage/tonnage/engine/demand"
	_ "github.com/tonnage/tonnage/engine/internal/free"
	_ "github.com/tonnage/tonnage/engine/internal/holds"
	_ "github.com/tonnage/tonnage/engine/internal/order"
	_ "github.com/tonnage/tonnage/engine/supply"
)
