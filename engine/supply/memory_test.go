package supply_test

import (
	"fmt"
	"testing"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
)

// The most that a machine may take, in bytes, as the package's essay adds it up.
const (
	machineBytesMax     = 104
	machineBytesGrowMax = 112 // of a table that was not told its size
	machineBytesOwnMax  = 200 // of machines with hosts, labels and racks of their own
)

// calibrated returns machine i of a fleet as the essay has it.
func calibrated(i int) model.Machine {
	m := model.Machine{
		ID: fmt.Sprintf("cpu-stateful-%05d", i), State: model.Idle, InstanceType: fmt.Sprint("type-", i%9), Zone: fmt.Sprint("zone-", i/16%3),
		CapacityType: model.OnDemand, PricePerHour: 0.1 * float64(i%9), Labels: map[string]string{"topology.kubernetes.io/rack": fmt.Sprintf("zone-%d-rack-%d", i/16%3, i/16)},
		Resources: model.NewResources(model.Amount{Name: "cpu", Value: int64(1000 << (i % 9))}, model.Amount{Name: "memory", Value: 1 << 34}),
	}
	m.Host = m.ID + ".node"
	if i%2 == 0 {
		m.State, m.Cluster = model.Configured, fmt.Sprint("cluster-", i%997)
		m.Assigned = model.Assignment{Priority: 5, Fingerprint: uint64(i % 13), Interruption: 3, Reclamation: 4}
	}
	return m
}

// inUse returns demand that forms gangs by rack and spreads over zones.
func inUse(tb testing.TB) (out []*model.Profile) {
	for i := range 9 {
		spec := model.ProfileSpec{Requirements: []model.Requirement{
			{Key: model.KeyInstanceType, Operator: model.In, Values: []string{fmt.Sprint("type-", i)}},
		}}
		if i%3 == 0 {
			spec.Requirements = append(spec.Requirements, model.Requirement{Key: "topology.kubernetes.io/rack", Operator: model.Same})
		} else {
			spec.Spread = []model.Spread{{Key: model.KeyZone, MaxSkew: 1, WhenUnsatisfiable: model.DoNotSchedule}}
		}
		p, err := model.NewProfile(spec)
		if err != nil {
			tb.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

// TestMemoryBudget: a machine takes what the essay says, by the table's own
// account, and the account is what the heap grows by.
func TestMemoryBudget(t *testing.T) {
	if testing.Short() {
		t.Skip("fills three tables with half a million machines each; run without -short")
	}
	const n = 500_000
	profiles := inUse(t)
	for name, c := range map[string]struct {
		most  float64
		told  bool
		spoil func(i int, m *model.Machine)
	}{
		"told its size": {most: machineBytesMax, told: true},
		"growing":       {most: machineBytesGrowMax},
		"all different": {most: machineBytesOwnMax, spoil: func(i int, m *model.Machine) {
			m.Host = fmt.Sprintf("host-%012x", i)
			m.Labels = map[string]string{"topology.kubernetes.io/rack": fmt.Sprintf("r%06d", i)}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			before := heap()
			x := supply.New()
			if err := x.Use(profiles); err != nil {
				t.Fatal(err)
			}
			if c.told {
				x.GrowTo(n)
			}
			for i := range n {
				m := calibrated(i)
				if c.spoil != nil {
					c.spoil(i, &m)
				}
				if err := x.Put(&m); err != nil {
					t.Fatal(err)
				}
			}
			x.Order()
			held := x.Memory()
			if got := float64(held.Total()) / n; got > c.most {
				t.Errorf("a machine takes %.1f bytes (%+v), at most %v are planned", got, held, c.most)
			}
			if grown := float64(heap()-before) / n; grown > float64(held.Total())/n*1.05 {
				t.Errorf("the heap grew by %.1f bytes a machine, of which the account knows %.1f", grown, float64(held.Total())/n)
			}
			t.Logf("%.1f bytes a machine", float64(held.Total())/n)
			if x.Len() != n {
				t.Fatal(x.Len())
			}
		})
	}
}
