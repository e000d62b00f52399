package engine

// Fleets of tests are small, and meant to be decided by all workers.
func init() { crewMin, chunkMax = 0, 2 }

// SetCrewMin changes from how many machines and rows on several workers are at
// work, and returns what it was.
func SetCrewMin(n int) (was int) {
	was, crewMin = crewMin, n
	return was
}

// SetComponentsMin changes from how many needs on components are dealt to
// workers, and returns what it was.
func SetComponentsMin(n int) (was int) {
	was, componentsMin = componentsMin, n
	return was
}

// SetGatherMin changes from how many needs on another worker gathers, and
// returns what it was.
func SetGatherMin(n int) (was int) {
	was, gatherMin = gatherMin, n
	return was
}

// SetWholePercent changes what share of a cluster's needs, credited again, makes
// it be credited anew as a whole from then on, and returns what it was.
func SetWholePercent(n int) (was int) {
	was, wholePercent = wholePercent, n
	return was
}

// SetRace changes how often a need may walk in a race and whether the last go
// first, and returns what undoes that.
func SetRace(tries int, backwards bool) (undo func()) {
	t, b := raceTries, raceBackwards
	raceTries, raceBackwards = tries, backwards
	return func() { raceTries, raceBackwards = t, b }
}
