package supply

import "github.com/tonnage/tonnage/columnar"

// Zone returns a machine's zone, empty when it has none or there is no machine
// in the row. It costs less than Get, which makes a map of the labels.
func (t *Table) Zone(r columnar.Row) string {
	if !t.Has(r) {
		return ""
	}
	return t.labels.zone(t.cols.labels[r])
}

// Label returns the value of a machine's label, empty when it has none or there is no machine in the row. It
// costs less than Get, which makes a map of the labels. O(labels).
func (t *Table) Label(r columnar.Row, key string) string {
	if !t.Has(r) {
		return ""
	}
	value, _ := t.labels.value(t.cols.labels[r], key)
	return value
}
