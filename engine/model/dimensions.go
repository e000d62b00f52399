package model

// Limits of the resource names that take part in decisions. Vectors have one
// dimension for each such name, and a set of dimensions is one word of 64 bits.
const (
	// OfferedNamesMax is the most resource names, beside those of
	// AlwaysOffered, that machines can bring into decisions together. Of more,
	// the first by name count; machines are as if they did not offer the others.
	OfferedNamesMax = 60
	// UnofferedNamesMax is the most resource names that no machine offers in
	// one cluster's demand.
	UnofferedNamesMax = 16
)

// alwaysOffered are the names that have a dimension whether or not any machine
// offers them.
var alwaysOffered = [...]string{DimensionCPU, "memory", "pods"}

// DimensionsMax is the most dimensions that decisions can have.
const DimensionsMax = OfferedNamesMax + len(alwaysOffered)

// A set of dimensions is one word.
const _ = uint(64 - DimensionsMax)

// AlwaysOffered reports whether a resource name has a dimension whether or not
// any machine offers it: cpu, memory and pods.
func AlwaysOffered(name string) bool {
	for _, n := range alwaysOffered {
		if n == name {
			return true
		}
	}
	return false
}
