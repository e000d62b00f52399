package engine_test

import (
	"fmt"
	"testing"

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
