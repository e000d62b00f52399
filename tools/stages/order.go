package main

import (
	"cmp"
	"slices"
)

// early are packages whose tests take longest and leave processors idle, the longest first. go test starts packages in the order in which they are named, each when
// it and those before it are compiled: named last, as their paths have it, they would run when nothing else is left to run beside them.
var early = []string{"web/e2e"}

// ordered returns the packages in the order in which they are to be started: the early ones, then all others as they were.
func ordered(packages []string) []string {
	rank := func(p string) int {
		if i := slices.Index(early, short(p)); i >= 0 {
			return i
		}
		return len(early)
	}
	out := slices.Clone(packages)
	slices.SortStableFunc(out, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	return out
}
