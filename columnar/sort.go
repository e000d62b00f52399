package columnar

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"
)

// SortByString sorts the rows by their strings, byte by byte; rows with equal
// strings by number. key is called for each row a few times and must return
// the same string every time.
//
// Ids share long beginnings ("i-0", "rack-12-node-"). What all rows have in
// common is skipped, the next eight bytes are the sort key of a radix sort,
// and what these do not tell apart is sorted again by the eight bytes after
// them, by itself. Strings are compared only in runs that are too short for
// that. What counts is how often a string is read: each time is a cache miss.
func SortByString(rows []Row, key func(Row) string) { new(StringSorter).Sort(rows, key) }

// StringSorter is SortByString for repeated sorts: it keeps its scratch memory.
type StringSorter struct {
	scratch []piece
	runs    []piece // a stack: those of a run are above those that it is one of
}

// Sort is SortByString.
func (x *StringSorter) Sort(rows []Row, key func(Row) string) {
	if len(rows) <= smallSort {
		compareSort(rows, key)
		return
	}
	x.scratch, x.runs = slices.Grow(x.scratch[:0], 2*len(rows))[:2*len(rows)], x.runs[:0]
	x.sortFrom(rows, key, commonFrom(rows, key, 0))
}

// smallSort is up to how many rows comparisons are cheaper than passes.
const smallSort = 48

// piece is a row with eight bytes of its string, the first one on top.
type piece struct {
	bytes uint64
	row   Row
}

// sortFrom sorts rows whose strings agree in the first depth bytes (or end
// before). The scratch is at least twice as long as rows.
func (x *StringSorter) sortFrom(rows []Row, key func(Row) string, depth int) {
	pieces, spare := x.scratch[:len(rows)], x.scratch[len(rows):2*len(rows)]
	longer := false // some string goes on after the piece
	for i, r := range rows {
		s := key(r)
		longer = longer || len(s) > depth+8
		pieces[i] = piece{eightFrom(s, depth), r}
	}
	pieces = sortPieces(pieces, spare)
	for i, p := range pieces {
		rows[i] = p.row
	}
	// Runs of equal pieces are found before any is sorted, which overwrites the
	// scratch.
	first := len(x.runs)
	for from := 0; from < len(rows); {
		to := from + 1
		for to < len(rows) && pieces[to].bytes == pieces[from].bytes {
			to++
		}
		if to-from > 1 {
			x.runs = append(x.runs, piece{uint64(to), Row(from)})
		}
		from = to
	}
	for i := first; i < len(x.runs); i++ {
		part := rows[x.runs[i].row:x.runs[i].bytes]
		switch {
		case len(part) <= smallSort || !longer:
			compareSort(part, key)
		case len(part) == len(rows): // nothing told apart: leap to where they differ
			x.sortFrom(part, key, depth+8+commonFrom(part, key, depth+8))
		default:
			x.sortFrom(part, key, depth+8)
		}
	}
	x.runs = x.runs[:first]
}

func compareSort(rows []Row, key func(Row) string) {
	slices.SortFunc(rows, func(a, b Row) int {
		if c := strings.Compare(key(a), key(b)); c != 0 {
			return c
		}
		return cmp.Compare(a, b)
	})
}

// commonFrom returns how many bytes after the first depth all strings share.
func commonFrom(rows []Row, key func(Row) string, depth int) int {
	first := tail(key(rows[0]), depth)
	for _, r := range rows[1:] {
		s := tail(key(r), depth)
		n := min(len(first), len(s))
		if first[:n] == s[:n] {
			first = first[:n]
			continue
		}
		i := 0
		for first[i] == s[i] {
			i++
		}
		first = first[:i]
	}
	return len(first)
}

func tail(s string, depth int) string { return s[min(depth, len(s)):] }

// eightFrom returns the eight bytes after the first depth, padded with zeros.
func eightFrom(s string, depth int) uint64 {
	s = tail(s, depth)
	if len(s) >= 8 { // one load, as the compiler sees it
		return uint64(s[7]) | uint64(s[6])<<8 | uint64(s[5])<<16 | uint64(s[4])<<24 |
			uint64(s[3])<<32 | uint64(s[2])<<40 | uint64(s[1])<<48 | uint64(s[0])<<56
	}
	var b [8]byte
	copy(b[:], s)
	return binary.BigEndian.Uint64(b[:])
}

// sortPieces sorts by bytes, stably, and returns the sorted ones, which lie in
// a or in b. One pass per byte in which the pieces differ, the last one first.
func sortPieces(a, b []piece) []piece {
	var counts [8][256]uint32
	for i := range a { // written out: the compiler would not
		w := a[i].bytes
		counts[0][byte(w)]++
		counts[1][byte(w>>8)]++
		counts[2][byte(w>>16)]++
		counts[3][byte(w>>24)]++
		counts[4][byte(w>>32)]++
		counts[5][byte(w>>40)]++
		counts[6][byte(w>>48)]++
		counts[7][byte(w>>56)]++
	}
	for digit := range counts {
		c := &counts[digit]
		if c[byte(a[0].bytes>>(8*digit))] == uint32(len(a)) {
			continue // all the same
		}
		at := uint32(0)
		for value, n := range c {
			c[value] = at
			at += n
		}
		shift := 8 * digit & 63
		for _, p := range a {
			to := &c[byte(p.bytes>>shift)]
			b[*to] = p
			*to++
		}
		a, b = b, a
	}
	return a
}
