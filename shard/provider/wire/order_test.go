package wire_test

import (
	"fmt"
	"testing"

	"github.com/tonnage/tonnage/shard/provider/wire"
)

// label is a record's field of a label, as an encoder writes it.
func label(key, value string) []byte {
	return appendRaw(nil, 10, appendRaw(appendRaw(nil, 1, []byte(key)), 2, []byte(value)))
}

// TestEntriesInAnyOrder: the same entries in another order are the set that was met before; others are not, also with an entry
// twice or as many as are not looked for one by one.
func TestEntriesInAnyOrder(t *testing.T) {
	many := func(from int) (fields [][]byte) {
		for i := range 20 {
			fields = append(fields, label(fmt.Sprint("k", (from+i)%20), "v"))
		}
		return fields
	}
	a, b, c, a2 := label("a", "1"), label("b", "2"), label("c", "3"), label("a", "2")
	for i, x := range []struct {
		before, then [][]byte
		same         bool
	}{
		{[][]byte{a, b, c}, [][]byte{a, b, c}, true},
		{[][]byte{a, b, c}, [][]byte{c, a, b}, true},
		{[][]byte{a, b, c}, [][]byte{a, c, b}, true},
		{[][]byte{a, b}, [][]byte{a, c}, false},
		{[][]byte{a, b}, [][]byte{a, a}, false},
		{[][]byte{a, a}, [][]byte{a, b}, false},
		{[][]byte{a, b}, [][]byte{b, a2}, false},
		{[][]byte{a, a2}, [][]byte{a2, a}, false}, // the last one holds
		{[][]byte{a, b}, [][]byte{a}, false},
		{many(0), many(0), true},
		{many(0), many(7), true},
	} {
		var msg []byte
		for k, fields := range [][][]byte{x.before, x.then} {
			record := appendRaw(nil, 1, fmt.Append(nil, "m", k))
			for _, f := range fields {
				record = append(record, f...)
			}
			msg = appendRaw(msg, 1, record)
		}
		var l wire.List
		parse(t, &l, msg)
		var numbers [2]uint64
		for k, fields := range [][][]byte{x.before, x.then} {
			rec, err := l.Record(k)
			if err != nil {
				t.Fatal(err)
			}
			numbers[k] = rec.LabelsNumber
			want := map[string]string{}
			for _, f := range fields {
				key, value := f[4:4+f[3]], f[6+f[3]:]
				want[string(key)] = string(value)
			}
			if fmt.Sprint(rec.Machine.Labels) != fmt.Sprint(want) {
				t.Errorf("%d: labels of record %d are %v, want %v", i, k, rec.Machine.Labels, want)
			}
		}
		if (numbers[0] == numbers[1]) != x.same {
			t.Errorf("%d: numbers %v, want the same: %t", i, numbers, x.same)
		}
	}
}
