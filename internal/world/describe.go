package world

import "github.com/tonnage/tonnage/internal/world/document"

// Kinds are the kinds of files that can be described.
func Kinds() []string { return []string{"world", "run", "edits", "batch"} }

// Describe returns the keys of a kind of file, as the parser reads them; nil when there is no such
// kind.
func Describe(kind string) []document.Description {
	switch kind {
	case "world":
		return worldSchema.Describe()
	case "run":
		return runSchema.Describe()
	case "edits":
		return editsSchema.Describe()
	case "batch":
		return batchSchema.Describe()
	}
	return nil
}
