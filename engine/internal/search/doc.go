// Package search makes a plan of preemption for one Need: it chooses units (choose.go, whole.go, reprieve.go, gangs.go;
// spread.go under hard spread), compares the domains in which a gang could be placed (domains.go, bounds.go), carries the
// plan out (plan.go) and notes why (explain.go). Between tenants it gives all short Needs a second turn with other units
// (tenancy.go). What it may look at has a budget, which is part of the contract (budget.go).
package search

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
