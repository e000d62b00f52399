package session_test

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard/session"
)

// TestAnOperatorIsToldTheLimits: those of its cluster, and what machines offer once that is
// known and short enough.
func TestAnOperatorIsToldTheLimits(t *testing.T) {
	var offered []model.Amount
	known := false
	f := serve(t, session.Deps{
		Limits:  session.ClusterLimits{Rows: 9, Gangs: 8, RequirementSets: 7, Keys: 6},
		Offered: func() ([]model.Amount, bool) { return offered, known },
	})
	told := func() string {
		o := f.open(t, f.dial(t, nil))
		o.send(hello("a"))
		o.ack("hello")
		h, err := o.stream.Header()
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, key := range []string{"rows", "gangs", "requirement-sets", "keys"} {
			all = append(all, h.Get("tonnage-max-"+key)...)
		}
		return strings.Join(append(all, h.Get("tonnage-offered-bin")...), " ")
	}
	if got := told(); got != "9 8 7 6" {
		t.Errorf("before anything is known it is told %q", got)
	}
	known = true
	if got := told(); got != "9 8 7 6 " {
		t.Errorf("without machines it is told %q", got)
	}
	offered = []model.Amount{{Name: "cpu", Value: 64_500}, {Name: "größe", Value: 3}, {Name: "memory", Value: 1 << 30}}
	if got := told(); got != "9 8 7 6 cpu=64500m\ngröße=3\nmemory=1Gi\n" {
		t.Errorf("it is told %q", got)
	}
	for i := range 60 {
		offered = append(offered, model.Amount{Name: fmt.Sprint(i, strings.Repeat("x", 100)), Value: 1})
	}
	if got := told(); got != "9 8 7 6" {
		t.Errorf("a list that is too long is told: %q", got)
	}
}

// TestWhatMachinesOfferIsKnownAfterACycle: and not before.
func TestWhatMachinesOfferIsKnownAfterACycle(t *testing.T) {
	x := newFleet(t, 3)
	if offered, known := x.decisions.Offered(); known {
		t.Errorf("before a cycle machines offer %v", offered)
	}
	x.step(t)
	if offered, known := x.decisions.Offered(); !known || len(offered) != 1 || offered[0] != (model.Amount{Name: "cpu", Value: 4000}) {
		t.Errorf("machines offer %v, %v", offered, known)
	}
}

// TestServeAfterDrain: a process that is stopped while it starts ends without an error.
func TestServeAfterDrain(t *testing.T) {
	server, err := session.NewServer(session.Deps{Core: newCore()})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Serve(l); err != nil {
		t.Error(err)
	}
	if c, err := net.Dial("tcp", l.Addr().String()); err == nil {
		c.Close()
		t.Error("the listener is open")
	}
}
