package report

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// TestQueueTakesTurns: whoever has one that waits does not wait for another's thousands;
// what is put again takes the place of what waits.
func TestQueueTakesTurns(t *testing.T) {
	var q queue[string]
	v := func(uid string) version { return version{uid: types.UID(uid)} }
	for i := range 1000 {
		q.put("many", v(fmt.Sprint(i)), fmt.Sprint("m", i))
	}
	q.put("few", v("a"), "a")
	q.put("few", v("b"), "b")
	q.put("few", v("b"), "b2")
	if got := strings.Join(q.take(5), " "); got != "m0 a m1 b2 m2" || q.len() != 997 {
		t.Errorf("taken: %s, and %d wait", got, q.len())
	}
	q.put("one", v("c"), "c")
	q.put("many", v("1"), "again")
	if got := strings.Join(q.take(3), " "); got != "m3 c m4" {
		t.Errorf("taken: %s", got)
	}
	rest := q.take(5000)
	if len(rest) != 996 || rest[995] != "again" || q.len() != 0 || len(q.lines) != 0 || len(q.take(1)) != 0 {
		t.Errorf("%d taken in the end, %d wait", len(rest), q.len())
	}
}
