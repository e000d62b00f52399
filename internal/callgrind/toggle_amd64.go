package callgrind

// Toggle lets callgrind count the instructions of the calling thread from now on, or
// no longer. The goroutine must be locked to its thread. Without valgrind it does nothing.
func Toggle()
