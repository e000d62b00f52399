package shard_test

import (
	"slices"
	"testing"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
)

// TestLostDomainsStopEverything: until it is known which domains the shard has; then it
// acts on those, and on nothing when it has none.
func TestLostDomainsStopEverything(t *testing.T) {
	for _, c := range []struct {
		name  string
		known shard.DomainKnowledge
		has   string
		want  []string
	}{
		{"one domain", shard.DomainsKnown, "a", []string{"Bootstrap a1"}},
		{"no domain", shard.DomainsKnown, "", nil},
		{"never any", shard.DomainsNever, "", []string{"Bootstrap a1", "Bootstrap b1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			knowledge := shard.DomainsUnknown
			w, mem, _ := silentWorld(t, []model.Machine{zoned("a1", "a", model.Idle, ""), zoned("b1", "b", model.Idle, "")},
				func(_ *shard.Config, d *shard.Deps, _ *provCfg) {
					d.Domains = func() shard.DomainKnowledge { return knowledge }
				})
			w.deps.Provider.(*silent).called = func(string) {}
			w.report("c1", need(t, 7, 8))
			for range 3 {
				if x := w.step(); len(x.Started) != 0 || x.Disposition != shard.DomainsLost || len(w.ids()) > 0 {
					t.Fatalf("lost: %s, started %v, has %v", x.Disposition, x.Started, w.ids())
				}
			}
			if c.has != "" {
				if err := w.shard.AssignDomain(shard.Domain{Key: model.KeyZone, Value: c.has}); err != nil {
					t.Fatal(err)
				}
			}
			knowledge = c.known
			got := w.steps(3)
			if slices.Sort(got); !slices.Equal(got, c.want) {
				t.Errorf("known: %v, want %v", got, c.want)
			}
			if _, marked := mem.entries["d\x00"]; marked != (c.known == shard.DomainsKnown) {
				t.Errorf("that domains were once assigned is remembered: %v", marked)
			}
		})
	}
}
