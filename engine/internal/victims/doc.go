// Package victims finds what phase 2 could preempt, and keeps the record of what it does. What could be preempted is
// units of gangs and single machines, listed by class, matcher, priority and domain (alike.go, roster.go, scope.go,
// gang_find.go, gang_table.go, sunk.go; machines.go with VictimsMachine), and machines that drain or that lower ranks
// have acquired (leaving.go, acquired.go). What cannot be found is memoized (exhausted.go, and shut.go by class), and with
// VictimsGang turns.go tells which Needs have a turn at all. Machines that can be taken again are logged by class (log.go).
// The record is Preempted: the victims and the plans. Who counts on which machine is in acquire.Promised, and between
// tenants in Tenants.
package victims

import (
	// The compiler inlines functions of packages that are imported directly, and of no others. What the packages
	// below hand up has types and methods of these.
	_ "github.com/tonnage/tonnage/engine/demand"
	_ "github.com/tonnage/tonnage/engine/internal/domains"
	_ "github.com/tonnage/tonnage/engine/internal/free"
	_ "github.com/tonnage/tonnage/engine/internal/order"
	_ "github.com/tonnage/tonnage/engine/supply"
)
