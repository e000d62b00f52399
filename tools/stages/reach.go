package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Flags of stages test that divide packages by a library: one runs those that reach
// it, the other those that do not, so that no package is left out of both.
const (
	withFlag    = "-with="
	withoutFlag = "-without="
)

// division is which packages a run is for.
type division struct {
	library string // import path; empty = all packages
	with    bool
}

// divisionOf takes the flag of a division from arguments of go test.
func divisionOf(args []string) (division, []string) {
	var d division
	rest := slices.DeleteFunc(slices.Clone(args), func(a string) bool {
		library, with := strings.CutPrefix(a, withFlag)
		if !with {
			var without bool
			if library, without = strings.CutPrefix(a, withoutFlag); !without {
				return false
			}
		}
		d = division{library, with}
		return true
	})
	return d, rest
}

// leaves says what is the matter with packages that are left out.
func (d *division) leaves() string {
	if d.with {
		return "do not reach"
	}
	return "reach"
}

// choose returns those of the packages that belong to the division.
func (d *division) choose(ctx context.Context, root string, packages []string) ([]string, error) {
	text, err := goList(ctx, root, append([]string{"-test", "-f", "{{.ImportPath}}{{range .Deps}} {{.}}{{end}}"}, packages...))
	if err != nil {
		return nil, err
	}
	reach := reaching(text, d.library)
	chosen := slices.DeleteFunc(slices.Clone(packages), func(p string) bool { return slices.Contains(reach, p) != d.with })
	if len(chosen) == 0 {
		return nil, fmt.Errorf("every package is left out: they all %s %s", d.leaves(), d.library)
	}
	return chosen, nil
}

// reaching returns the packages that reach a library, or whose tests do. A line is a
// package and all that it depends on.
func reaching(list, library string) []string {
	var out []string
	for line := range strings.Lines(list) {
		fields := strings.Fields(line)
		reaches := func(path string) bool { return path == library || strings.HasPrefix(path, library+"/") }
		if len(fields) > 0 && slices.ContainsFunc(fields, reaches) {
			out = append(out, strings.TrimSuffix(fields[0], ".test"))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
