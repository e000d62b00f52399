//go:build !amd64 || purego

package cpu

// best: there are no kernels for this architecture, or none were wanted.
func best() Level { return Generic }
