package provider

import (
	"strings"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/driver"
)

// TestDecide goes through what may be seen of a machine in each state.
func TestDecide(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	offer := &driver.Offer{
		Allocatable: model.NewResources(model.Amount{Name: "cpu", Value: 2000}, model.Amount{Name: "gpu", Value: 8}),
		Labels:      map[string]string{"a": "b"}, Taints: []driver.Taint{{Key: "k", Value: "v", Effect: "NoSchedule"}},
	}
	in := func(p driver.Phase) *driver.Observation {
		return &driver.Observation{Generation: 2, Phase: p, Ref: "r", Reason: "smoke"}
	}
	with := func(o *driver.Observation, do func(*driver.Observation)) *driver.Observation {
		do(o)
		return o
	}
	const early, late = false, true
	const asked, fresh = true, false
	gone, there := seen{absent: true}, seen{}
	see := func(o *driver.Observation) seen { return seen{obs: o} }
	erased := func(o *driver.Observation) seen { return seen{obs: o, erased: true} }
	half := func(o *driver.Observation) *driver.Observation {
		return with(o, func(o *driver.Observation) { o.Incomplete = true })
	}
	const missing = "a part of it is missing, and the driver is asked again"
	taken := seen{taken: &driver.Observation{Generation: 1, Phase: driver.Failed, Reason: "rack 4 has it", Taken: true}}
	for _, c := range []struct {
		state model.State
		late  bool
		asked bool
		seen  seen
		want  step
	}{
		{model.Creating, early, fresh, there, step{verb: verbCreate, generation: 2}},
		{model.Creating, early, asked, there, step{}},
		{model.Creating, early, asked, gone, step{fail: "it was removed while it was created"}},
		{model.Creating, early, fresh, see(in(driver.Creating)), step{verb: verbCreate, generation: 2}}, // perhaps by half
		{model.Creating, early, asked, see(in(driver.Creating)), step{}},
		{model.Creating, early, asked, see(half(in(driver.Creating))), step{verb: verbCreate, generation: 2, waits: missing}},
		{model.Creating, early, asked, see(half(in(driver.Idle))), step{verb: verbCreate, generation: 2, waits: missing}},
		{model.Creating, early, fresh, see(in(driver.Deleting)), step{}},
		{model.Creating, early, fresh, see(in(driver.Idle)), step{to: model.Idle}},
		{model.Creating, early, asked, see(in(driver.Idle)), step{to: model.Idle}},
		{model.Creating, early, asked, see(with(in(driver.Idle), func(o *driver.Observation) { o.Ref = "" })), step{}},
		{model.Creating, early, asked, see(in(driver.Failed)), step{fail: "smoke"}},
		{model.Creating, early, asked, see(with(in(driver.Failed), func(o *driver.Observation) { o.OutOfStock, o.Reason = true, "" })), step{fail: "the driver gives no reason", outOfStock: true}},
		{model.Creating, early, fresh, seen{older: 1}, step{verb: verbDelete, generation: 1}},

		{model.Idle, early, asked, see(in(driver.Idle)), step{}},
		{model.Idle, early, asked, there, step{}},
		{model.Idle, early, asked, gone, step{gone: true}},
		{model.Idle, early, asked, see(in(driver.Failed)), step{fail: "smoke"}},
		{model.Idle, late, fresh, gone, step{}},
		{model.Idle, late, fresh, see(in(driver.Configured)), step{verb: verbDelete, generation: 2}},
		{model.Idle, late, fresh, see(in(driver.Deleting)), step{verb: verbDelete, generation: 2}},
		{model.Idle, late, fresh, erased(in(driver.Deleting)), step{}},

		{model.Configuring, early, fresh, see(in(driver.Idle)), step{verb: verbConfigure, generation: 2}},
		{model.Configuring, early, asked, see(in(driver.Idle)), step{verb: verbConfigure, generation: 2, waits: "the driver has lost the request, and is asked again"}},
		{model.Configuring, early, asked, gone, step{gone: true}},
		{model.Configuring, late, fresh, there, step{verb: verbConfigure, generation: 2}},
		{model.Configuring, late, fresh, gone, step{verb: verbConfigure, generation: 2}},
		{model.Configuring, late, asked, there, step{}},
		{model.Configuring, late, asked, see(with(in(driver.Configuring), func(o *driver.Observation) { o.Incomplete = true })), step{verb: verbConfigure, generation: 2, waits: missing}},
		{model.Configuring, late, asked, gone, step{fail: "it was removed while it was made"}},
		{model.Configuring, late, asked, see(in(driver.Configuring)), step{}},
		{model.Configuring, late, fresh, see(in(driver.Configuring)), step{verb: verbConfigure, generation: 2}},
		{model.Configuring, early, fresh, see(in(driver.Configuring)), step{verb: verbConfigure, generation: 2}},
		{model.Configuring, early, asked, see(half(in(driver.Configuring))), step{verb: verbConfigure, generation: 2, waits: missing}},
		{model.Configuring, early, asked, see(half(in(driver.Configured))), step{verb: verbConfigure, generation: 2, waits: missing}},
		{model.Configuring, early, fresh, see(in(driver.Deleting)), step{}},
		{model.Configuring, late, asked, see(in(driver.Configured)), step{to: model.Configured}},
		{model.Configuring, late, asked, see(in(driver.Failed)), step{fail: "smoke"}},
		{model.Configuring, late, asked, see(with(in(driver.Configured), func(o *driver.Observation) { o.Cluster = "d" })), step{fail: `it is in cluster "d", and was to join "c"`}},
		{model.Configuring, late, asked, see(with(in(driver.Configured), func(o *driver.Observation) { o.Labels = map[string]string{"a": "c"} })), step{waits: `label a is "c", not "b"`}},
		{model.Configuring, late, asked, see(with(in(driver.Configured), func(o *driver.Observation) { o.Labels = map[string]string{} })), step{waits: "label a is missing"}},
		{model.Configuring, late, asked, see(with(in(driver.Configured), func(o *driver.Observation) { o.Taints = []driver.Taint{} })), step{waits: "taint k=v:NoSchedule is missing"}},
		{model.Configuring, late, asked, see(with(in(driver.Configured), func(o *driver.Observation) { o.Allocatable = offer.Allocatable[:1] })), step{waits: "allocatable gpu is 0 of 8"}},
		{model.Configuring, late, asked, see(with(in(driver.Configured), func(o *driver.Observation) { o.Ref = "" })), step{waits: "its reference must not be empty"}},

		{model.Configured, early, asked, see(in(driver.Configured)), step{}},
		{model.Configured, early, asked, see(in(driver.Configuring)), step{}}, // its node is not Ready for a while
		{model.Configured, early, asked, see(in(driver.Deleting)), step{}},
		{model.Configured, early, asked, gone, step{gone: true}},
		{model.Configured, early, asked, there, step{}},
		{model.Configured, late, asked, see(in(driver.Failed)), step{fail: "smoke"}},
		{model.Configured, early, asked, see(in(driver.Idle)), step{fail: `it is no longer in cluster "c", and nobody drained it`}},

		{model.Draining, early, fresh, see(in(driver.Configured)), step{verb: verbDrain, generation: 2}},
		{model.Draining, early, asked, see(in(driver.Configured)), step{}},
		{model.Draining, early, asked, see(in(driver.Draining)), step{}},
		{model.Draining, early, fresh, see(in(driver.Draining)), step{verb: verbDrain, generation: 2}},
		{model.Draining, early, asked, see(half(in(driver.Draining))), step{verb: verbDrain, generation: 2, waits: missing}},
		{model.Draining, early, asked, see(in(driver.Idle)), step{to: model.Idle}},
		{model.Draining, early, asked, gone, step{gone: true}},
		{model.Draining, late, fresh, gone, step{to: model.Idle}},
		{model.Draining, late, asked, there, step{}},
		{model.Draining, late, asked, see(in(driver.Deleting)), step{}},
		{model.Draining, late, fresh, see(in(driver.Deleting)), step{verb: verbDrain, generation: 2}},

		{model.Deleting, early, fresh, see(in(driver.Idle)), step{verb: verbDelete, generation: 2}},
		{model.Deleting, early, asked, see(in(driver.Idle)), step{}},
		{model.Deleting, early, asked, see(in(driver.Deleting)), step{}},
		{model.Deleting, early, fresh, see(in(driver.Deleting)), step{verb: verbDelete, generation: 2}},
		{model.Deleting, early, asked, see(half(in(driver.Deleting))), step{verb: verbDelete, generation: 2, waits: missing}},
		{model.Deleting, early, asked, gone, step{to: model.Speculative}},
		{model.Deleting, early, asked, there, step{}},

		{model.Failed, early, asked, see(in(driver.Configured)), step{verb: verbDelete, generation: 2}},
		{model.Failed, early, asked, see(in(driver.Deleting)), step{verb: verbDelete, generation: 2}},
		{model.Failed, early, asked, erased(in(driver.Deleting)), step{}},
		{model.Failed, early, asked, erased(half(in(driver.Deleting))), step{verb: verbDelete, generation: 2}},
		{model.Failed, early, asked, erased(in(driver.Configured)), step{verb: verbDelete, generation: 2}},
		{model.Failed, early, asked, there, step{}},
		{model.Failed, early, asked, gone, step{cleaned: true}},

		{model.Speculative, early, fresh, there, step{}},
		{model.Speculative, early, fresh, gone, step{}},
		{model.Speculative, early, fresh, see(in(driver.Idle)), step{verb: verbDelete, generation: 2}},

		{model.Creating, early, fresh, taken, step{fail: "rack 4 has it"}},
		{model.Idle, early, asked, taken, step{fail: "rack 4 has it"}},
		{model.Configured, early, asked, taken, step{fail: "rack 4 has it"}},
		{model.Deleting, early, fresh, taken, step{fail: "rack 4 has it"}},
		{model.Failed, early, asked, taken, step{}},
		{model.Speculative, early, fresh, taken, step{}},
	} {
		r := &record{Generation: 2, State: c.state, LateBound: c.late, Asked: c.asked, Cluster: "c", Since: now}
		c.seen.now = now
		before := *r
		if got := decide(r, c.seen, offer, &defaultTimeouts); got != c.want {
			t.Errorf("%s, late-bound %t, asked %t, %+v:\ngot  %+v\nwant %+v", c.state, c.late, c.asked, c.seen, got, c.want)
		}
		if r.State != before.State || r.Asked != before.Asked {
			t.Errorf("%s was changed", c.state)
		}
	}
}

// A change that takes too long fails with what it waits for; a drain has its grace besides.
func TestOverdue(t *testing.T) {
	began := time.Unix(1_000_000, 0)
	for _, c := range []struct {
		state    model.State
		deadline time.Duration
		obs      *driver.Observation
		after    time.Duration
		want     string
	}{
		{model.Creating, 0, nil, defaultTimeouts.Create, ""},
		{model.Creating, 0, nil, defaultTimeouts.Create + 1, "Creating took longer than 15m0s: the driver gives no reason"},
		{model.Configuring, 0, &driver.Observation{Generation: 1, Phase: driver.Configuring, Reason: "no node"}, defaultTimeouts.Configure + 1, "Configuring took longer than 20m0s: no node"},
		{model.Draining, time.Hour, &driver.Observation{Generation: 1, Phase: driver.Draining}, time.Hour + defaultTimeouts.Drain, ""},
		{model.Draining, time.Hour, &driver.Observation{Generation: 1, Phase: driver.Draining}, time.Hour + defaultTimeouts.Drain + 1, "Draining took longer than 10m0s"},
		{model.Deleting, 0, &driver.Observation{Generation: 1, Phase: driver.Deleting}, defaultTimeouts.Delete + 1, "Deleting took longer"},
		{model.Idle, 0, nil, 1000 * time.Hour, ""},
	} {
		r := &record{Generation: 1, State: c.state, Asked: true, Since: began}
		if c.deadline > 0 {
			r.Deadline = began.Add(c.deadline)
		}
		got := decide(r, seen{obs: c.obs, now: began.Add(c.after)}, &driver.Offer{}, &defaultTimeouts).fail
		if (got == "") != (c.want == "") || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s after %v: %q, want %q", c.state, c.after, got, c.want)
		}
	}
	stuck := decide(&record{Generation: 2, State: model.Creating, Since: began}, seen{older: 1, now: began.Add(time.Hour)}, &driver.Offer{}, &defaultTimeouts)
	if !strings.Contains(stuck.fail, "generation 1 of it is still there") {
		t.Errorf("an older making that stays: %+v", stuck)
	}
}
