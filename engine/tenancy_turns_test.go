package engine_test

import (
	"fmt"
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
)

// TestTurnsBetweenTenantsThatFindNothing: where all tenants but one have their share, and that one can spare less than a machine, the short
// rows do not look at the machines of others one class after the other.
func TestTurnsBetweenTenantsThatFindNothing(t *testing.T) {
	const tenants, classes, n = 8, 60, 1200
	build := func(shared bool) func(*scaled) {
		return func(x *scaled) {
			for i := range tenants {
				x.opts.Tenancy.Tenants = append(x.opts.Tenancy.Tenants, tenantOf(fmt.Sprint("t", i), x.n/tenants))
			}
			x.opts.Tenancy.Tenants[0].Share = model.NewResources(model.Amount{Name: "cpu", Value: int64(4000*x.n/tenants - 1)})
			if !shared {
				x.opts.Tenancy.Tenants = nil
			}
			for i := range x.n {
				c := fmt.Sprint("t", i%tenants)
				m := x.machine(c, nil)
				m.Zone = fmt.Sprint("z", i%3)
				m.Resources = model.NewResources(model.Amount{Name: "cpu", Value: 4000}, model.Amount{Name: "memory", Value: int64(1<<30 + i/tenants%classes)})
				x.need(c, model.ProfileSpec{}, 1, "")
				if i%16 < tenants {
					x.need(c, spreadOver(0, model.KeyZone), 1, fmt.Sprint("g", i))
				} else {
					x.need(c, model.ProfileSpec{}, 1, fmt.Sprint("g", i))
				}
			}
		}
	}
	without, _ := work(t, n, build(false))
	with, _ := work(t, n, build(true))
	t.Logf("candidates that are looked at: %d without tenants, %d with them", without, with)
	if with > without+4*n {
		t.Errorf("%d rows that find nothing look at %d candidates", n, with-without)
	}
}

// TestWhatATenantCanJustSpare: a tenant may give a machine if it keeps exactly its share, and another tenant may take it if it then has exactly its
// share. If the share of the one who gives is a millicore larger, or that of the other a millicore smaller, nothing is preempted.
func TestWhatATenantCanJustSpare(t *testing.T) {
	for _, c := range []struct {
		giver, taker int64 // millicores of the share
		want         int
	}{
		{8000, 4000, 1}, {8001, 4000, 0}, {8000, 3999, 0}, {7999, 4001, 1},
	} {
		e, in := scale(t, 1, func(x *scaled) {
			for i, cores := range []int64{c.giver, c.taker} {
				tenant := tenantOf(fmt.Sprint("t", i), 1)
				tenant.Share = model.NewResources(model.Amount{Name: "cpu", Value: cores})
				x.opts.Tenancy.Tenants = append(x.opts.Tenancy.Tenants, tenant)
			}
			for range 3 {
				x.machine("t0", nil)
			}
			x.need("t0", model.ProfileSpec{}, 3, "")
			x.need("t1", model.ProfileSpec{}, 1, "")
		})
		plan, err := e.Cycle(in)
		if err != nil {
			t.Fatal(err)
		}
		if got := plan.Stats.Actions[engine.Preempt]; got != c.want {
			t.Errorf("shares of %d and %d: %d machines are preempted, want %d", c.giver, c.taker, got, c.want)
		}
		e.Close()
	}
}
