package engine

import (
	"reflect"
	"testing"
)

// TestColumnsAreReserved: what is reserved for the store's columns is what they take.
func TestColumnsAreReserved(t *testing.T) {
	sum := func(columns ...any) (bytes int) {
		for _, c := range columns {
			bytes += int(reflect.TypeOf(c).Elem().Size())
		}
		return bytes
	}
	var st store
	if got := sum(st.lines, st.aggregates, st.rankSlots, st.rankOf, st.order, st.kindAt, st.byCluster, st.lacking, st.gangs.looked); got != lineBytes {
		t.Errorf("a line takes %d bytes in the columns, %d are reserved", got, lineBytes)
	}
	if got := sum(st.claims, st.taken, st.priority, st.class, st.owner, st.gangs.of); got != machineBytes {
		t.Errorf("a machine takes %d bytes in the columns, %d are reserved", got, machineBytes)
	}
}
