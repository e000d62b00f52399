package topology

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// NumberMax bounds the numbers of CPUs and nodes that are believed: what Linux
// can be built for.
const NumberMax = 8191

// parseList reads a list as the kernel writes it ("0-3,8,10-11"; "" is none)
// into ascending numbers.
func parseList(text string) ([]int, error) {
	text = strings.TrimSpace(text)
	var out []int
	if text == "" {
		return out, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		first, last, many := strings.Cut(part, "-")
		if !many {
			last = first
		}
		from, err1 := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err1 != nil || err2 != nil || from < 0 || from > to || to > NumberMax {
			return nil, fmt.Errorf("%q is no list of numbers from 0 to %d (like 0-3,8)", text, NumberMax)
		}
		for n := from; n <= to; n++ {
			out = append(out, n)
		}
		if len(out) > NumberMax+1 {
			return nil, fmt.Errorf("%.40q… lists numbers more than once", text)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// intersect returns the numbers that are in both ascending lists.
func intersect(a, b []int) []int {
	return slices.DeleteFunc(slices.Clone(a), func(n int) bool {
		_, found := slices.BinarySearch(b, n)
		return !found
	})
}
