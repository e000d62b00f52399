//go:build !amd64

package callgrind

// Toggle does nothing: instructions are counted on amd64 only.
func Toggle() {}
