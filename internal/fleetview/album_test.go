package fleetview

import (
	"strings"
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/internal/world/worldtest"
	"github.com/tonnage/tonnage/shard"
)

const albumWorld = `
machines:
- {id: v-1, state: Configured, cluster: v, resources: {cpu: 4}, assigned: {priority: 1, need: low}}
needs:
- {name: low, cluster: v, priority: 1, aggregate: {cpu: 4}}
- {name: top, cluster: t, priority: 1000, aggregate: {cpu: 4}}
`

// TestActionsLeadToThePicturesOfTheirPlans, of which the last ones are kept.
func TestActionsLeadToThePicturesOfTheirPlans(t *testing.T) {
	in, plan := worldtest.Decide(t, albumWorld)
	p := NewRecorder(Config{Album: &Album{}})
	const cycles = AlbumPlansMax + 1
	for range cycles {
		p.Decided(in, plan)
	}
	did := didOf(&shard.CycleReport{Actions: []shard.ReportAction{
		{Kind: engine.Preempt, Machine: "v-1"}, {Kind: engine.Preempt, Machine: "of another plan"}, {Kind: engine.Reclaim, Machine: "v-1"},
	}}, p.plans, nil)
	if v := p.plans[0].taken; len(v) != 1 || v[0].Need != "v/0" || v[0].Priority != 1 {
		t.Errorf("the plan takes %+v", v)
	}
	if len(did) != 3 || did[0].For != "t/0" || did[0].Plan != cycles || did[1].Plan != 0 || did[2].Plan != 0 {
		t.Errorf("actions are %+v", did)
	}
	for number, want := range map[uint64]bool{0: false, 1: false, 2: true, cycles: true, cycles + 1: false, 1 << 63: false} {
		var out strings.Builder
		ok, err := p.cfg.Album.Write(number, &out)
		if err != nil || ok != want || ok != strings.Contains(out.String(), "takes 1 machine anywhere") {
			t.Errorf("plan %d: %v %v %q", number, ok, err, out.String())
		}
		for _, says := range []string{">t/0 of cluster t</text>", ">1 × v/0 of v</text>", ">held for t/0</text>", "in no gang, serves v/0"} {
			if ok && !strings.Contains(out.String(), says) {
				t.Errorf("plan %d does not say %q: %s", number, says, out.String())
			}
		}
	}
}
