package supply

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/engine/model"
)

// TestHosts: a host is kept as it was given, wherever the id stands in it, and
// takes next to nothing when it holds the id.
func TestHosts(t *testing.T) {
	for id, names := range map[string][]string{
		"i-0abc": {"i-0abc", "i-0abc.node", "aws:///zone/i-0abc", "a\x00i-0abci-0abc", strings.Repeat("p", 300) + "i-0abc" + strings.Repeat("s", 200), "I-0abc", "i-0ab", "other", "\x00", ""},
		"p":      {"pp", "ppp", "qpq", "q"},
	} {
		x := New()
		m := model.Machine{ID: id, State: model.Configured, Cluster: "c"}
		for _, to := range names {
			for _, from := range names {
				m.Host = from
				if model.CheckOptionalName(from) != nil {
					m.Host = "" // SetHost takes what a record cannot hold
				}
				r := put(t, x, m)
				if x.SetHost(r, to); x.Get(r).Host != to {
					t.Errorf("machine %q: host %q becomes %q, want %q", id, from, x.Get(r).Host, to)
				}
			}
		}
		x.Remove(id)
		if x.hosts.forms.dict.Len() != 0 || x.hosts.texts.Len() != 0 || x.hosts.stored() != 0 {
			t.Errorf("machine %q left %d forms and %d texts of its hosts behind", id, x.hosts.forms.dict.Len(), x.hosts.texts.Len())
		}
	}
}

// TestHostsAreTidied: the texts of hosts that changed do not pile up, and those
// that stay are found where they are copied to.
func TestHostsAreTidied(t *testing.T) {
	x := New()
	host := func(i, round int) string { return fmt.Sprint("host-", i*i, "-", round, strings.Repeat("x", 100)) }
	for round := range 30 {
		for i := range 500 {
			if m := machine(i); round == 0 || i%3 > 0 {
				m.State, m.Cluster, m.Host = model.Configured, "c", host(i, round)
				put(t, x, m)
			}
		}
	}
	for i := range 500 {
		r, _ := x.Lookup(machine(i).ID)
		want := host(i, 29)
		if i%3 == 0 {
			want = host(i, 0)
		}
		if got := x.Get(r).Host; got != want {
			t.Fatalf("machine %d is on host %q, want %q", i, got, want)
		}
	}
	if got := x.hosts.bytes(); got > 500*130*3+200_000 {
		t.Errorf("500 hosts take %d bytes after 30 rounds", got)
	}
}
