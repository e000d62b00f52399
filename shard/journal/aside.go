package journal

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tonnage/tonnage/internal/disk"
)

const (
	// asideInfix stands between the name of a damaged file and its number.
	asideInfix = ".damaged-"
	// AsideMax is how many damaged files of a name are kept, the newest.
	AsideMax = 4
)

// keepAside keeps what a damaged file held under another name, for those who want
// to know what was in it.
func (j *Journal) keepAside(name string, content []byte) error {
	there, err := j.asides(name)
	if err != nil {
		return err
	}
	next := 1
	if len(there) > 0 {
		next = there[len(there)-1] + 1
	}
	aside := j.path(name + asideInfix + strconv.Itoa(next))
	if err := disk.Replace(j.fs, aside, content); err != nil {
		return fmt.Errorf("%s is damaged and cannot be kept aside as %s: %w; make room on the disk, or move the file away", j.path(name), aside, err)
	}
	j.log.Error("a damaged file is kept aside; check the disk, and remove the file when you have seen it", "file", j.path(name), "aside", aside)
	for len(there) >= AsideMax {
		if err := j.fs.Remove(j.path(name + asideInfix + strconv.Itoa(there[0]))); err != nil {
			return err
		}
		there = there[1:]
	}
	return nil
}

// asides returns the numbers of the damaged files of a name, in order.
func (j *Journal) asides(name string) ([]int, error) {
	names, err := j.fs.Names(j.dir)
	if err != nil {
		return nil, err
	}
	var out []int
	for _, x := range names {
		number, ok := strings.CutPrefix(x, name+asideInfix)
		if n, err := strconv.Atoi(number); ok && err == nil {
			out = append(out, n)
		}
	}
	slices.SortFunc(out, cmp.Compare[int])
	return out, nil
}

// Damaged returns how many damaged files lie aside in the folder now.
func (j *Journal) Damaged() (n int) {
	for _, name := range [...]string{fileName, j.guard.File, j.guard.File + copySuffix} {
		there, _ := j.asides(name)
		n += len(there)
	}
	return n
}
