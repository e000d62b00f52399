package victims

import (
	"reflect"
	"testing"

	"github.com/tonnage/tonnage/engine/internal/cycle"
)

// TestColumnsAreReserved: what is reserved for the store's columns is what they take.
func TestColumnsAreReserved(t *testing.T) {
	sum := func(columns ...any) (bytes int) {
		for _, c := range columns {
			bytes += int(reflect.TypeOf(c).Elem().Size())
		}
		return bytes
	}
	var st Store
	if got := sum(st.Lines, st.RankSlots, st.RankOf, st.Order, st.KindAt, st.ByCluster, st.Lacking, st.Gangs.looked); got != cycle.LineBytes {
		t.Errorf("a line takes %d bytes in the columns, %d are reserved", got, cycle.LineBytes)
	}
	if got := sum(st.Claims, st.Taken, st.Priority, st.Owner, st.Gangs.Of); got != cycle.MachineBytes {
		t.Errorf("a machine takes %d bytes in the columns, %d are reserved", got, cycle.MachineBytes)
	}
}
