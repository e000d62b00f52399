package provider_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/shard"
)

// offered returns the slots of a zone that may be taken, and those that are held back after failures.
func (r *rig) offered(zone string) (open, held []string) {
	for id, m := range r.list() {
		switch {
		case m.GetZone() != zone:
		case m.GetState() == speculative:
			open = append(open, id)
		case m.GetState() == failed && strings.Contains(m.GetLastError(), "held back until"):
			held = append(held, id)
		}
	}
	return sorted(open), sorted(held)
}

// breakZone has machines of a zone fail for good when they are made.
func (r *rig) breakZone(zone string) {
	r.driver.set(func() {
		r.driver.fail = func(verb string, m *driver.Machine) error {
			if (verb == "Configure" || verb == "Create") && m.Offer.Zone == zone {
				return fmt.Errorf("no such image: %w", driver.ErrPermanent)
			}
			return nil
		}
	})
}

// A wrong template holds its offer back, and no other: 10 s with all slots offered again, and from the second failure in a
// row on twice as long each time, with one slot at the end.
func TestAnOfferWhoseMachinesFail(t *testing.T) {
	inBubble(t, strings.Replace(late, "zones: [a]", "zones: [a, b]", 1), func(t *testing.T, r *rig) {
		r.breakZone("a")
		buy := func(ids ...string) {
			for _, id := range ids {
				r.must(shard.OpCreate, id, "")
			}
			for _, id := range ids {
				r.must(shard.OpConfigure, id, "c")
			}
			r.pass(3 * time.Second)
			for _, id := range ids {
				if m := r.want(id, failed); !strings.HasSuffix(m.GetLastError(), "no such image: permanent error") {
					t.Errorf("failed with %q", m.GetLastError())
				}
			}
		}
		open, _ := r.offered("a")
		buy(open[:2]...) // on their way at the same time: one failure
		for k, seconds := range []int{10, 20, 40, 80, 160, 320, 640, 1280, 1800, 1800} {
			wait := time.Duration(seconds) * time.Second
			open, held := r.offered("a")
			if len(open) != 0 || len(held) == 0 {
				t.Fatalf("%d open, %d held back at the beginning of %v", len(open), len(held), wait)
			}
			says := r.list()[held[0]].GetLastError()
			if want := fmt.Sprintf(" after %d failures in a row: no such image", k+1); k > 0 && !strings.Contains(says, want) {
				t.Errorf("held back with %q, want %q", says, want)
			}
			if _, err := r.do(shard.OpCreate, held[0], ""); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("a slot that is held back is taken, or refused with %v", err)
			}
			if open, held := r.offered("b"); len(open) != 4 || len(held) != 0 {
				t.Errorf("the other zone: %d open, %d held back", len(open), len(held))
			}
			if wait > 15*time.Second {
				r.pass(wait - 10*time.Second)
				if open, _ := r.offered("a"); len(open) != 0 {
					t.Fatalf("%d open before %v", len(open), wait)
				}
			}
			r.pass(min(wait, 10*time.Second) + 5*time.Second)
			open, _ = r.offered("a")
			if k == 0 && len(open) != 4 || k > 0 && len(open) != 1 {
				t.Fatalf("%d open after %v", len(open), wait)
			}
			buy(open[0])
		}
		if n := r.driver.count("Configure"); n != 12 {
			t.Errorf("%d machines were begun, want 12", n)
		}
	})
}

// What ends it: a machine that is made, a template that is another one, a restart.
func TestAnOfferThatIsMended(t *testing.T) {
	for _, file := range []string{early, late} {
		inBubble(t, file, func(t *testing.T, r *rig) {
			failOnce := func() {
				r.breakZone("a")
				open, _ := r.offered("a")
				r.must(shard.OpCreate, open[0], "")
				if file == late {
					r.must(shard.OpConfigure, open[0], "c")
				}
				r.pass(3 * time.Second)
				r.want(open[0], failed)
				if _, held := r.offered("a"); len(held) == 0 {
					t.Fatal("nothing is held back")
				}
				r.driver.set(func() { r.driver.fail = nil })
			}
			all := func(when string) {
				t.Helper()
				if open, held := r.offered("a"); len(open) == 0 || len(held) != 0 {
					t.Errorf("%s: %d open, %d held back", when, len(open), len(held))
				}
			}
			failOnce()
			r.pass(15 * time.Second)
			all("after the first wait")
			open, _ := r.offered("a")
			r.must(shard.OpCreate, open[0], "")
			if file == late {
				r.must(shard.OpConfigure, open[0], "c")
			}
			r.pass(40 * time.Second)
			failOnce() // counts as the first one: a machine was made since
			_, held := r.offered("a")
			if says := r.list()[held[0]].GetLastError(); !strings.Contains(says, "after a failure: no such image") {
				t.Errorf("held back with %q", says)
			}
			r.file = strings.Replace(r.file, "zones: [a]", "zones: [a], template: {image: y}", 1)
			if err := r.provider.SetPools(t.Context(), parse(t, r.dir, r.file)); err != nil {
				t.Fatal(err)
			}
			all("with another template")
			failOnce()
			r.end()
			r.start()
			all("after a restart")
		})
	}
}

// Machines that were bought before their offer was held back wait after a first failure, and are given up after more or when
// there is no capacity: the driver is not asked for them.
func TestMachinesThatWaitForAHeldOffer(t *testing.T) {
	pool := strings.Replace(late, "machines: 5, freeSlots: 4", "machines: 20, freeSlots: 16", 1)
	for kind, with := range map[string]error{"no such image": driver.ErrPermanent, "none left": driver.ErrOutOfStock} {
		inBubble(t, pool, func(t *testing.T, r *rig) {
			r.file = strings.Replace(r.file, "launchesPerMinute: 6000, launchBurst: 1000", "launchesPerMinute: 20, launchBurst: 1", 1)
			if err := r.provider.SetPools(t.Context(), parse(t, r.dir, r.file)); err != nil {
				t.Fatal(err)
			}
			r.driver.set(func() {
				r.driver.fail = func(verb string, _ *driver.Machine) error {
					if verb != "Configure" {
						return nil
					}
					return fmt.Errorf("%s: %w", kind, with)
				}
			})
			begin := func(n int) []string {
				ids := r.in(speculative)[:n]
				for _, id := range ids {
					r.must(shard.OpCreate, id, "")
				}
				for _, id := range ids {
					r.must(shard.OpConfigure, id, "c")
				}
				return ids
			}
			ids := begin(5)
			r.pass(6 * time.Second)
			if errors.Is(with, driver.ErrPermanent) {
				if n := r.driver.count("Configure"); n != 1 || len(r.in(configuring)) != 4 {
					t.Errorf("%d begun, %d wait after the first failure; want 1 and 4", n, len(r.in(configuring)))
				}
				r.pass(time.Minute)
				if n := r.driver.count("Configure"); n != 5 || len(r.in(configuring)) != 0 {
					t.Errorf("%d begun, %d wait after the first wait; want 5 and 0", n, len(r.in(configuring)))
				}
				ids = begin(5) // since the first failure
				r.pass(6 * time.Second)
			}
			begun := r.driver.count("Configure")
			if errors.Is(with, driver.ErrPermanent) {
				begun -= 5
			}
			if begun != 1 {
				t.Errorf("%s: %d of 5 were begun, want 1", kind, begun)
			}
			for _, id := range ids {
				if m := r.want(id, failed); !strings.Contains(m.GetLastError(), kind) && !strings.Contains(m.GetLastError(), "insufficient capacity until") {
					t.Errorf("%s: failed with %q", kind, m.GetLastError())
				}
			}
		})
	}
}

// Owned hosts fail one by one: one that cannot be made holds back no other.
func TestAnOwnedHostThatFails(t *testing.T) {
	inBubble(t, `pools: [{name: p, driver: sim, initial: idle, hosts: [h1, h2], zones: [a], types: [{name: small, resources: {cpu: 2}, prices: [{capacityType: BareMetal, pricePerHour: 0}]}]}]
`, func(t *testing.T, r *rig) {
		r.pass(20 * time.Second)
		ids := r.in(idle)
		if len(ids) != 2 {
			t.Fatalf("%d idle", len(ids))
		}
		for _, id := range ids {
			r.must(shard.OpDelete, id, "")
		}
		r.pass(20 * time.Second)
		r.driver.set(func() {
			r.driver.fail = func(verb string, m *driver.Machine) error {
				if verb == "Create" && m.ID == ids[0] {
					return fmt.Errorf("no power: %w", driver.ErrPermanent)
				}
				return nil
			}
		})
		r.must(shard.OpCreate, ids[0], "")
		r.pass(3 * time.Second)
		r.want(ids[0], failed)
		r.must(shard.OpCreate, ids[1], "")
		r.pass(20 * time.Second)
		r.want(ids[1], idle)
	})
}

// A template with which machines of five types fail holds all its offers back, and one failure more each time; a machine that is
// made ends it, but for offers whose own machines failed more than once.
func TestATemplateWithWhichMachinesFail(t *testing.T) {
	var types []string
	for i := range 40 {
		types = append(types, fmt.Sprintf("{name: t%d, resources: {cpu: 2}, prices: [{capacityType: OnDemand, pricePerHour: 0.1}]}", i))
	}
	file := "pools:\n- {name: p, driver: sim, lateBound: true, machines: 1000, freeSlots: 2, zones: [a], template: {image: x}, types: [" + strings.Join(types, ", ") + `]}
- {name: o, driver: sim, lateBound: true, machines: 10, freeSlots: 2, zones: [b], template: {image: x}, ` + small + "}\n"
	inBubble(t, file, func(t *testing.T, r *rig) {
		r.breakZone("a")
		begun := 0
		buy := func(id string) {
			r.must(shard.OpCreate, id, "")
			r.must(shard.OpConfigure, id, "c")
			begun++
			r.pass(3 * time.Second)
			r.want(id, failed)
		}
		open, _ := r.offered("a")
		if len(open) != 80 {
			t.Fatalf("%d slots", len(open))
		}
		for len(open) > 0 && begun < 80 {
			buy(open[len(open)-1]) // of another type each time
			open, _ = r.offered("a")
		}
		if begun > 10 { // those of the first type may come back after 10 s
			t.Errorf("%d machines were begun until all offers were held back", begun)
		}
		if open, _ := r.offered("b"); len(open) != 2 {
			t.Errorf("the other pool has %d slots", len(open))
		}
		_, held := r.offered("a")
		fails := func(part string) (n int) {
			for _, id := range held {
				if strings.Contains(r.list()[id].GetLastError(), part) {
					n++
				}
			}
			return n
		}
		if n := fails("since machines of 5 types fail with its template: no such image"); n < 60 {
			t.Errorf("%d slots of other types say why, the first of %d %q", n, len(held), r.list()[held[0]].GetLastError())
		}
		for range 6 { // one slot of each, and the next failure holds all back
			before := begun
			for open, _ := r.offered("a"); len(open) == 0; open, _ = r.offered("a") {
				r.pass(10 * time.Second)
			}
			for open, _ := r.offered("a"); len(open) > 0 && begun < before+40; open, _ = r.offered("a") {
				if len(open) > 40 {
					t.Fatalf("%d slots are offered", len(open))
				}
				buy(open[len(open)-1])
			}
			if begun-before > 2 {
				t.Errorf("%d machines were begun, want one or two", begun-before)
			}
		}
		r.driver.set(func() { r.driver.fail = nil })
		for open, _ = r.offered("a"); len(open) == 0; open, _ = r.offered("a") {
			r.pass(10 * time.Second)
		}
		r.must(shard.OpCreate, open[0], "")
		r.must(shard.OpConfigure, open[0], "c")
		r.pass(30 * time.Second)
		r.want(open[0], configured)
		if open, _ := r.offered("a"); len(open) < 50 {
			t.Errorf("after a machine was made, %d slots are offered", len(open))
		}
	})
}
