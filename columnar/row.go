package columnar

// Row is the number of a row in a table. Rows are dense, start at 1 and are
// reused after a removal; 0 is no row.
type Row uint32

// None is the row that does not exist.
const None Row = 0
