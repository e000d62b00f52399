package engine

// SetFlatClassesMin changes from how many classes on a matcher is walked as
// one merged list, and returns what it was.
func SetFlatClassesMin(n int) (was int) {
	was, flatClassesMin = flatClassesMin, n
	return was
}
