package columnar

// RowSet is a set of rows, one bit for each, that grows as needed. The zero value is empty.
type RowSet []uint64

// NewRowSet returns an empty set with room for rows below end.
func NewRowSet(end int) RowSet { return make(RowSet, end/64+1) }

// Add adds a row.
func (x *RowSet) Add(r Row) {
	for int(r>>6) >= len(*x) {
		*x = append(*x, 0)
	}
	(*x)[r>>6] |= 1 << (r & 63)
}

// Remove takes a row out.
func (x RowSet) Remove(r Row) {
	if int(r>>6) < len(x) {
		x[r>>6] &^= 1 << (r & 63)
	}
}

// Has tells whether a row is in the set.
func (x RowSet) Has(r Row) bool {
	return int(r>>6) < len(x) && x[r>>6]&(1<<(r&63)) != 0
}
