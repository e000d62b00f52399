package main

import (
	"errors"
	"fmt"

	"github.com/tonnage/tonnage/internal/world"
)

// warningsMax is how many warnings about a file a command writes; `tonnage validate` writes all.
const warningsMax = 10

// nameOf returns what messages call the file that -f names.
func nameOf(path string) string {
	if path == "-" {
		return "stdin"
	}
	return path
}

// faultsIn marks what reading a file gave as the caller's to mend. Faults say in which file they
// are.
func faultsIn(err error, path string) error {
	if faults, ok := errors.AsType[*world.Faults](err); ok {
		faults.File = nameOf(path)
	}
	return badInput(err)
}

// warnOf writes the warnings about a world on the error stream. Notes are shown on request
// only.
func warnOf(s streams, path string, w *world.World) {
	said := 0
	for i := range w.Hints {
		h := &w.Hints[i]
		switch {
		case h.Note:
			continue
		case said == warningsMax:
			fmt.Fprintf(s.err, "%s: warning: there are more; `tonnage validate -f %s` lists them\n", nameOf(path), path)
			return
		}
		said++
		fmt.Fprintln(s.err, hintLine(h, path))
	}
}

// hintLine writes a hint as compilers do.
func hintLine(h *world.Hint, path string) string {
	kind := "warning"
	if h.Note {
		kind = "note"
	}
	f := h.Fault
	f.Path = kind + ": " + f.Path
	return f.In(nameOf(path))
}
