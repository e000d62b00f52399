package shard_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/stamps"
)

// scripted lists what a test says; calls go to the fleet behind it.
type scripted struct {
	shard.Provider
	next shard.ListResponse
	err  error
	seen [][]byte // the cursors it was asked with
}

func (s *scripted) List(_ context.Context, req shard.ListRequest) (shard.ListResponse, error) {
	s.seen = append(s.seen, req.SinceRevision)
	return s.next, s.err
}

func (s *scripted) say(full bool, ms ...model.Machine) {
	s.next = shard.ListResponse{Full: full, Revision: []byte{byte(len(s.seen) + 1)}}
	for _, m := range ms {
		if m.Host == "" && m.State != model.Speculative && m.State != model.Creating {
			m.Host = "h"
		}
		s.next.Records = append(s.next.Records, shard.Record{Machine: m})
	}
}

func scriptedWorld(t *testing.T, options ...option) (*world, *scripted) {
	s := &scripted{}
	return newWorld(t, nil, append(options, func(_ *shard.Config, d *shard.Deps, _ *provCfg) { d.Provider = s })...), s
}

func TestSameStateTakesWhatChanged(t *testing.T) {
	w, p := scriptedWorld(t)
	m := machine("m", model.Configured, "c1")
	p.say(true, m)
	w.step()
	m.PricePerHour, m.InterruptionProbability = 7, 0.25
	m.Labels = map[string]string{"rack": "r1"}
	m.Allocatable = cpu(3)
	p.say(false, m)
	if c := w.step(); c.Reconciled.Changed != 1 {
		t.Errorf("got %+v", c.Reconciled)
	}
	got := w.get("m")
	if got.PricePerHour != 7 || got.InterruptionProbability != 0.25 || got.Labels["rack"] != "r1" || got.EffectiveAllocatable().Get("cpu") != 3 {
		t.Errorf("got %+v", got)
	}
	if c := w.step(); c.Reconciled.Changed != 0 {
		t.Errorf("nothing changed, but: %+v", c.Reconciled)
	}
}

func TestOnlyFullListingsRemove(t *testing.T) {
	w, p := scriptedWorld(t)
	a, b := machine("a", model.Idle, ""), machine("b", model.Idle, "")
	p.say(true, a, b)
	w.step()
	p.say(false, a)
	if c := w.step(); c.Reconciled.Removed != 0 || w.get("b").ID == "" {
		t.Errorf("a delta without b removed it: %+v", c.Reconciled)
	}
	p.say(true, a)
	if c := w.step(); c.Reconciled.Removed != 1 || w.get("b").ID != "" {
		t.Errorf("a full listing without b kept it: %+v", c.Reconciled)
	}
	p.say(false)
	p.next.Removed = []string{"a", "nobody"}
	if c := w.step(); c.Reconciled.Removed != 1 || w.get("a").ID != "" {
		t.Errorf("a named removal: %+v", c.Reconciled)
	}
}

// TestRefusedRecordIsNoRemoval: it leaves the last good one in place and is
// counted by reason.
func TestRefusedRecordIsNoRemoval(t *testing.T) {
	for what, x := range map[string]struct {
		spoil func(*model.Machine)
		want  shard.Refusal
	}{
		"NaN price":          {func(m *model.Machine) { m.PricePerHour = math.NaN() }, shard.RefusedPrice},
		"negative price":     {func(m *model.Machine) { m.PricePerHour = -1 }, shard.RefusedPrice},
		"probability":        {func(m *model.Machine) { m.InterruptionProbability = 1.5 }, shard.RefusedProbability},
		"bound to nobody":    {func(m *model.Machine) { m.State = model.Configured }, shard.RefusedStructural},
		"idle and bound":     {func(m *model.Machine) { m.Cluster = "c1" }, shard.RefusedStructural},
		"no such type":       {func(m *model.Machine) { m.CapacityType = 77 }, shard.RefusedStructural},
		"no such state":      {func(m *model.Machine) { m.State = 77 }, shard.RefusedStructural},
		"host for no reason": {func(m *model.Machine) { m.State, m.Host = model.Speculative, "h" }, shard.RefusedStructural},
	} {
		w, p := scriptedWorld(t)
		m := machine("m", model.Idle, "")
		p.say(true, m)
		w.step()
		x.spoil(&m)
		p.say(true, m)
		c := w.step()
		if c.Reconciled.Refused[x.want] != 1 || c.Reconciled.Removed != 0 {
			t.Errorf("%s: %+v", what, c.Reconciled)
		}
		if got := w.get("m"); got.State != model.Idle || got.PricePerHour != 1 {
			t.Errorf("%s: the last good record is gone: %+v", what, got)
		}
	}
}

func TestStampsBelongToTheShardWhileBound(t *testing.T) {
	w := newWorld(t, machines(1, model.Idle, ""))
	w.report("c1", need(t, 700, 4))
	w.step()
	stamps := w.get("m-00").Assigned
	if stamps.Priority != 700 || stamps.Fingerprint == 0 {
		t.Fatalf("stamps: %+v", stamps)
	}
	price := 3.0
	if err := w.fleet.Change("m-00", change{PricePerHour: &price}); err != nil {
		t.Fatal(err)
	}
	w.step()
	if got := w.get("m-00"); got.Assigned != stamps || got.PricePerHour != 3 {
		t.Errorf("after a change of price: %+v", got)
	}
}

// TestRestartRestoresFromTheEcho: stamps of bound machines, the owner of one
// that is created and of one that drains; an Idle one's reservation gets a new
// deadline.
func TestRestartRestoresFromTheEcho(t *testing.T) {
	ms := []model.Machine{machine("victim", model.Configured, "low"), inRack(machine("spec", model.Speculative, ""), "r"), machine("idle", model.Idle, "")}
	w := newWorld(t, ms, latencies(time.Hour, 0, time.Hour))
	w.report("low", need(t, 1, 4))
	plain := need(t, 5, 4)
	plain.Profile = profile(t, model.ProfileSpec{Priority: 5, Requirements: []model.Requirement{{Key: "rack", Operator: model.Exists}}})
	w.report("mid", plain)
	high := need(t, 900, 8)
	high.Profile = profile(t, model.ProfileSpec{Priority: 900, Requirements: []model.Requirement{{Key: "rack", Operator: model.DoesNotExist}}})
	w.report("top", high)
	w.step()
	want := map[string]model.Machine{}
	for _, id := range []string{"victim", "spec", "idle"} {
		want[id] = w.get(id)
	}
	if want["victim"].State != model.Draining || want["spec"].State != model.Creating || want["idle"].State != model.Configured {
		t.Fatalf("before the restart: %+v", want)
	}
	w.restart()
	w.step()
	for id, x := range want {
		got := w.get(id)
		if got.State != x.State || got.Assigned != x.Assigned || got.Reservation != x.Reservation {
			t.Errorf("%s: got %s %+v %+v, want %s %+v %+v", id, got.State, got.Assigned, got.Reservation, x.State, x.Assigned, x.Reservation)
		}
	}
	w.now += 3600 * second
	w.step()
	if got := w.get("victim"); got.State != model.Idle || got.Reservation.Deadline != w.now+2*600*second {
		t.Errorf("drained: %s, deadline in %ds", got.State, (got.Reservation.Deadline-w.now)/second)
	}
}

func TestIdleMachineOfABeforeLifeGetsADeadline(t *testing.T) {
	w, p := scriptedWorld(t)
	p.say(true, machine("m", model.Idle, ""))
	echo := stamps.Echo{Reservation: model.Reservation{Owner: model.Owner{Cluster: "c1", Fingerprint: 5}, Priority: 1}, GraceSeconds: 30}
	p.next.Records[0].Metadata = new(stamps.Encoder).Encode(echo)
	w.step()
	if got := w.get("m"); got.Reservation.Deadline != w.now+60*second || got.IdleSince != w.now {
		t.Errorf("got %+v", got)
	}
}

func TestFailedMachinesAreRetired(t *testing.T) {
	w, p := scriptedWorld(t)
	broken := machine("m", model.Failed, "")
	broken.LastError = "smoke"
	p.say(true, broken)
	w.step()
	if got := w.get("m"); got.State != model.Failed || got.LastError != "smoke" {
		t.Fatalf("got %+v", got)
	}
	p.say(true, machine("m", model.Idle, ""))
	if c := w.step(); c.Reconciled.Retired != 1 || w.get("m").State != model.Idle {
		t.Errorf("healthy again: %+v, %s", c.Reconciled, w.get("m").State)
	}
	p.say(true, broken)
	w.step()
	p.say(true)
	if c := w.step(); c.Reconciled.Retired != 1 || w.get("m").ID != "" {
		t.Errorf("no longer listed: %+v", c.Reconciled)
	}
}

func TestUnexpectedStateIsTakenOver(t *testing.T) {
	w, p := scriptedWorld(t)
	p.say(true, machine("m", model.Configured, "c1"))
	w.step()
	p.say(true, machine("m", model.Idle, ""))
	if c := w.step(); c.Reconciled.Diverged != 1 || w.get("m").State != model.Idle || w.get("m").Cluster != "" {
		t.Errorf("got %+v, %+v", c.Reconciled, w.get("m"))
	}
}

// TestNoListingNoDecision: acting on an old view against a provider that does
// not answer would only break machines.
func TestNoListingNoDecision(t *testing.T) {
	w, p := scriptedWorld(t)
	p.err = errors.New("down")
	w.report("c1", need(t, 1, 4))
	if _, err := w.shard.Step(t.Context(), w.now); err == nil || w.shard.Ready() {
		t.Errorf("got %v, ready %v", err, w.shard.Ready())
	}
	p.err = nil
	p.say(true)
	w.step()
	p.err = errors.New("down again")
	if _, err := w.shard.Step(t.Context(), w.now); err == nil || !w.shard.Ready() {
		t.Errorf("got %v; once ready, always ready: %v", err, w.shard.Ready())
	}
}

func TestFullListingFromTimeToTime(t *testing.T) {
	w, p := scriptedWorld(t, configured(func(c *shard.Config) { c.FullListCycles = 3 }))
	p.say(true)
	w.step()
	p.next.Full = false
	for range 3 {
		w.step()
	}
	w.step()
	if full := slices.IndexFunc(p.seen[1:], func(b []byte) bool { return b == nil }) + 1; full != 4 {
		t.Errorf("cursors %v: the next full listing is number %d, want 4", p.seen, full)
	}
}

// TestListingOlderThanACallIsPutAside: what the provider said of a machine
// while a call on it was under way is looked at when the call has ended.
func TestListingOlderThanACallIsPutAside(t *testing.T) {
	w, gate := gatedWorld(t, machines(1, model.Idle, ""))
	w.report("c1", need(t, 1, 4))
	stop := w.run()
	defer stop()
	gate.entered.wait(t, 1)
	c := w.step()
	if len(c.Started) != 0 || w.get("m-00").State != model.Configuring {
		t.Fatalf("while the call lasts: %v, %s", c.Started, w.get("m-00").State)
	}
	price := 9.0
	if err := w.fleet.Change("m-00", change{PricePerHour: &price}); err != nil {
		t.Fatal(err)
	}
	if c := w.step(); c.Reconciled.Skipped != 1 || w.get("m-00").PricePerHour != 1 {
		t.Errorf("in flight: %+v, price %v", c.Reconciled, w.get("m-00").PricePerHour)
	}
	gate.open()
	waitFor(t, func() bool { return w.get("m-00").State == model.Configured })
	w.step()
	if got := w.get("m-00"); got.PricePerHour != 9 || got.State != model.Configured {
		t.Errorf("after the call: %s, price %v", got.State, got.PricePerHour)
	}
	if c := w.step(); len(c.Started) != 0 || c.Counts != [engine.NumKinds]int{} {
		t.Errorf("it acts again: %v", c.Started)
	}
}

// TestAMachineIsRemovedOnce: also when the provider names it twice.
func TestAMachineIsRemovedOnce(t *testing.T) {
	w := newWorld(t, machines(3, model.Idle, ""))
	p := &removing{Provider: w.fleet}
	w.deps.Provider = p
	w.restart()
	w.step()
	p.removed = []string{"m-00", "m-00", "m-01", "none"}
	if c := w.step(); c.Reconciled.Removed != 2 || w.shard.Count()[model.Idle] != 1 {
		t.Errorf("%d were removed, %d are left, want 2 and 1", c.Reconciled.Removed, w.shard.Count()[model.Idle])
	}
}

// removing names machines that are gone.
type removing struct {
	shard.Provider
	removed []string
}

func (p *removing) List(ctx context.Context, r shard.ListRequest) (shard.ListResponse, error) {
	if p.removed != nil {
		return shard.ListResponse{Removed: p.removed}, nil
	}
	return p.Provider.List(ctx, r)
}
