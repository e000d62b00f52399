package session_test

import (
	"testing"
	"time"

	"github.com/tonnage/tonnage/shard/session"
)

// TestRollupsOfAClusterAreApart: the first roll-up is read at once; of those that
// follow within the interval only the newest is, when it is over. A new session
// does not begin anew.
func TestRollupsOfAClusterAreApart(t *testing.T) {
	const least = 400 * time.Millisecond
	f := serve(t, session.Deps{ClusterInterval: least})
	o := f.connect(t, "a")
	began := time.Now()
	o.send(rollup("a", 1))
	o.ack("rollup")
	for rows := 2; rows <= 5; rows++ {
		o.send(rollup("a", rows))
	}
	other := f.connect(t, "b") // nobody else waits
	other.send(rollup("b", 7))
	other.ack("rollup")
	o.ack("rollup")
	// The shard counts from when it reads a roll-up, which its acknowledgement
	// follows by some time: what is measured begins before the first is sent.
	if took := time.Since(began); took < least {
		t.Errorf("two roll-ups were acknowledged within %v, want %v between them", took, least)
	}
	second := time.Now()
	again := f.connect(t, "a")
	again.send(rollup("a", 6))
	again.ack("rollup")
	if took := time.Since(began); took < 2*least {
		t.Errorf("three roll-ups over two sessions were acknowledged within %v, want %v at least", took, 2*least)
	}
	if took := time.Since(second); took > waitMax/2 {
		t.Errorf("the third waited %v", took)
	}
	want := map[string]int{"a 1 1": 1, "a 5 1": 1, "a 6 1": 1, "b 7 1": 1}
	for range len(want) {
		if got := await(t, f.core.taken); want[got] != 1 {
			t.Errorf("the shard took %q", got)
		}
	}
	if n := len(f.core.taken); n != 0 {
		t.Errorf("%d more were taken: superseded roll-ups are not read", n)
	}
}

// TestReplaysOfAClusterAreApart: a cluster that says hello again and again, over
// several sessions, is told of its machines once an interval.
func TestReplaysOfAClusterAreApart(t *testing.T) {
	const least = 400 * time.Millisecond
	f := serve(t, session.Deps{ClusterInterval: least})
	f.core.bound["a"] = []string{"m"}
	began := time.Now()
	o := f.connect(t, "a")
	if u := o.next().GetNodeStateUpdate(); u.GetMachineId() != "m" {
		t.Fatalf("told %v", u)
	}
	for range 3 {
		o = f.connect(t, "a")
	}
	if u := o.next().GetNodeStateUpdate(); u.GetMachineId() != "m" {
		t.Fatalf("told %v", u)
	}
	if took := time.Since(began); took < least {
		t.Errorf("told twice within %v, want %v between", took, least)
	}
}
