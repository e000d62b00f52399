package server_test

import (
	"bytes"
	"maps"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/engine/model"
)

// What the public conformance suite of providers asks of the protocol's calls, as far as
// no other test here says it. The machines of these tests change state at once.

// call is a call that changes a machine, by its name.
type call struct {
	name, machine, shard string
	epoch, sequence      int64
}

func (r *rig) call(c call) error {
	var err error
	switch c.name {
	case "Create":
		_, err = r.Create(ctx, &pb.CreateRequest{MachineId: c.machine, ShardId: c.shard, ShardEpoch: c.epoch, SequenceNumber: c.sequence})
	case "Configure":
		_, err = r.Configure(ctx, &pb.ConfigureRequest{MachineId: c.machine, ClusterId: "c", ShardId: c.shard, ShardEpoch: c.epoch, SequenceNumber: c.sequence})
	case "Drain":
		_, err = r.Drain(ctx, &pb.DrainRequest{MachineId: c.machine, ShardId: c.shard, ShardEpoch: c.epoch, SequenceNumber: c.sequence})
	case "Delete":
		_, err = r.Delete(ctx, &pb.DeleteRequest{MachineId: c.machine, ShardId: c.shard, ShardEpoch: c.epoch, SequenceNumber: c.sequence})
	}
	return err
}

var calls = []string{"Create", "Configure", "Drain", "Delete"}

// TestTokensAreNumbers: epochs and sequence numbers compare as numbers, negative ones
// and the largest too. Each table is of one shard and machine.
func TestTokensAreNumbers(t *testing.T) {
	type step struct {
		epoch, sequence int64
		accepted        bool
	}
	const most = math.MaxInt64
	for what, steps := range map[string][]step{
		"lexicographic": {
			{2, 5, true}, {2, 5, false}, {2, 4, false}, {1, 99999, false}, {2, 6, true}, {2, 6, false}, {3, 0, true}, {3, 0, false},
			{2, 999999, false}, {3, 1, true}, {4, 0, true}, {10, 7, true}, {9, 999, false},
		},
		"a negative sequence number is a low one": {{6, 1, true}, {6, -1, false}, {7, -1, true}, {7, -1, false}, {7, -2, false}, {7, 0, true}},
		"negative at first contact":               {{-7, -3, true}, {-7, -3, false}, {-7, -4, false}, {-8, 1, false}, {-6, math.MinInt64, true}, {0, 0, true}},
		"the largest":                             {{most, most, true}, {most, most, false}, {most - 1, most, false}, {math.MinInt64, most, false}},
	} {
		t.Run(what, func(t *testing.T) {
			c := start(t, machine("m", model.Idle)) // Create is a repeat there
			for _, s := range steps {
				want := codes.FailedPrecondition
				if s.accepted {
					want = codes.OK
				}
				if err := c.call(call{"Create", "m", "s", s.epoch, s.sequence}); status.Code(err) != want {
					t.Errorf("(%d, %d): %v, want %s", s.epoch, s.sequence, err, want)
				}
			}
		})
	}
}

// TestRandomTokens compares many tokens near the newest one with the rule.
func TestRandomTokens(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	c := start(t, machine("m", model.Idle), machine("n", model.Idle))
	type token struct{ epoch, sequence int64 }
	newest := map[[2]string]token{}
	for range 500 {
		at := [2]string{[]string{"s1", "s2", "s3"}[random.IntN(3)], []string{"m", "n"}[random.IntN(2)]}
		last, known := newest[at]
		x := token{last.epoch + random.Int64N(3) - 1, last.sequence + random.Int64N(5) - 2}
		want := codes.FailedPrecondition
		if !known || x.epoch > last.epoch || x.epoch == last.epoch && x.sequence > last.sequence {
			want, newest[at] = codes.OK, x
		}
		if err := c.call(call{"Create", at[1], at[0], x.epoch, x.sequence}); status.Code(err) != want {
			t.Fatalf("seed %d: %v after %v (known %v) of %v: %v, want %s", seed, x, last, known, at, err, want)
		}
	}
}

// TestOrderOfChecks: an empty id, then the fence, then whether the machine exists, then
// the other arguments, then the position.
func TestOrderOfChecks(t *testing.T) {
	c := start(t, machine("idle", model.Idle), machine("slot", model.Speculative))
	for _, name := range calls {
		if err := c.call(call{name, "", "s", -1, -1}); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s of no machine: %v", name, err)
		}
	}
	for _, id := range []string{"ghost", "idle", "slot"} { // the newest token of each is (9, 9) then
		if err := c.call(call{"Create", id, "s", 9, 9}); (status.Code(err) == codes.NotFound) != (id == "ghost") {
			t.Errorf("Create of %s: %v", id, err)
		}
	}
	for _, name := range calls {
		if err := c.call(call{name, "ghost", "s", 1, 1}); status.Code(err) != codes.FailedPrecondition {
			t.Errorf("%s of a machine that is not there, by a replaced process: %v", name, err)
		}
		if err := c.call(call{name, "idle", "s", 9, 9}); status.Code(err) != codes.FailedPrecondition {
			t.Errorf("%s of a machine that is there, by a replaced process: %v", name, err)
		}
	}
	configure := func(id string, epoch int64) error {
		_, err := c.Configure(ctx, &pb.ConfigureRequest{MachineId: id, ShardId: "s", ShardEpoch: epoch}) // for no cluster
		return err
	}
	drain := func(id string, epoch int64) error {
		_, err := c.Drain(ctx, &pb.DrainRequest{MachineId: id, GracePeriodSeconds: -5, ShardId: "s", ShardEpoch: epoch})
		return err
	}
	for _, x := range []struct {
		what string
		err  error
		want codes.Code
	}{
		{"a bad argument by a replaced process", configure("idle", 1), codes.FailedPrecondition},
		{"a negative grace by a replaced process", drain("idle", 1), codes.FailedPrecondition},
		{"a bad argument for a machine that is not there", configure("ghost", 10), codes.NotFound},
		{"a bad argument", configure("idle", 10), codes.InvalidArgument},
		{"its token counts", configure("idle", 10), codes.FailedPrecondition},
		{"a negative grace before the position", drain("idle", 11), codes.InvalidArgument},
	} {
		if status.Code(x.err) != x.want {
			t.Errorf("%s: %v, want %s", x.what, x.err, x.want)
		}
	}
	if m, err := c.Get(ctx, &pb.MachineRef{Id: "idle"}); err != nil || m.State != pb.MachineState_MACHINE_STATE_IDLE || m.Cluster != "" || len(m.ShardMetadata) != 0 {
		t.Errorf("what was refused changed the machine: %v, %v", m, err)
	}
}

// TestALifeOfAMachine: what is to be seen of a machine in each state, twice around. The
// host's provider never changes, repeats have the same operation, others a new one, and
// what is out of position is refused and changes nothing.
func TestALifeOfAMachine(t *testing.T) {
	slot := machine("m", model.Speculative)
	slot.Allocatable = nil
	c := start(t, slot)
	metadata := map[string]string{"a": "\x00", "": "", "節": "\u009b"}
	operations := map[string]bool{}
	for range 2 {
		for _, step := range []struct {
			call    func() (*pb.TransitionAck, error)
			to      pb.MachineState
			legal   string // the calls that the state allows, or repeats
			host    bool
			cluster string
		}{
			{func() (*pb.TransitionAck, error) { return c.Create(ctx, &pb.CreateRequest{MachineId: "m"}) }, pb.MachineState_MACHINE_STATE_IDLE, "Create Configure Delete", true, ""},
			{func() (*pb.TransitionAck, error) {
				return c.Configure(ctx, &pb.ConfigureRequest{MachineId: "m", ClusterId: "c", BootstrapBlob: make([]byte, 3<<20), ShardMetadata: metadata})
			}, pb.MachineState_MACHINE_STATE_CONFIGURED, "Configure Drain", true, "c"},
			{func() (*pb.TransitionAck, error) { return c.Drain(ctx, &pb.DrainRequest{MachineId: "m"}) }, pb.MachineState_MACHINE_STATE_IDLE, "Configure Drain Delete", true, ""},
			{func() (*pb.TransitionAck, error) { return c.Delete(ctx, &pb.DeleteRequest{MachineId: "m"}) }, pb.MachineState_MACHINE_STATE_SPECULATIVE, "Create Delete", false, ""},
		} {
			ack, err := step.call()
			if err != nil || ack.OperationId == "" || operations[ack.OperationId] {
				t.Fatalf("to %s: %v, %v; want a new operation", step.to, ack, err)
			}
			operations[ack.OperationId] = true
			if again, err := step.call(); err != nil || again.OperationId != ack.OperationId {
				t.Errorf("to %s again: %q, %v, want %q", step.to, again.GetOperationId(), err, ack.OperationId)
			}
			for _, name := range calls {
				if strings.Contains(step.legal, name) {
					continue
				}
				if err := c.call(call{name: name, machine: "m"}); err == nil || status.Code(err) == codes.FailedPrecondition {
					t.Errorf("%s in %s: %v", name, step.to, err)
				}
			}
			got, err := c.Get(ctx, &pb.MachineRef{Id: "m"})
			if err != nil {
				t.Fatal(err)
			}
			list, err := c.List(ctx, &pb.ListFilter{States: []pb.MachineState{step.to}})
			if err != nil || len(list.Machines) != 1 {
				t.Fatalf("listed in %s: %v, %v", step.to, list, err)
			}
			for where, m := range map[string]*pb.Machine{"Get": got, "List": list.Machines[0]} {
				host, want := m.GetHost(), map[string]string(nil)
				if step.cluster != "" {
					want = metadata
				}
				if m.State != step.to || m.Cluster != step.cluster || !maps.Equal(m.ShardMetadata, want) || m.LastError != "" {
					t.Errorf("%s, %s: %v", where, step.to, m)
				}
				if (host != nil) != step.host || step.host && (host.Provider != "tonnage" || host.Ref == "") {
					t.Errorf("%s, %s: the host is %v", where, step.to, host)
				}
				if m.InstanceType == "" || m.Zone == "" || !maps.Equal(m.GetAllocatable().GetResources(), m.GetResources().GetResources()) || len(m.GetResources().GetResources()) == 0 {
					t.Errorf("%s, %s: %v", where, step.to, m)
				}
			}
		}
	}
}

// TestPages: max_results and since_revision together go through everything, without a
// machine twice or left out.
func TestPages(t *testing.T) {
	var ms []model.Machine
	for i := range 11 {
		ms = append(ms, machine(string(rune('a'+i)), model.Speculative))
	}
	c := start(t, ms...)
	list := func(since []byte, most int32) *pb.MachineList {
		t.Helper()
		l, err := c.List(ctx, &pb.ListFilter{SinceRevision: since, MaxResults: most})
		if err != nil || most > 0 && len(l.Machines) > int(most) || len(l.Revision) == 0 {
			t.Fatalf("%v, %v", l, err)
		}
		return l
	}
	walk := func(since []byte, most int32) (ids map[string]bool) {
		t.Helper()
		ids = map[string]bool{}
		for range 20 {
			l := list(since, most)
			for _, m := range l.Machines {
				if ids[m.Id] {
					t.Errorf("%s comes twice", m.Id)
				}
				ids[m.Id] = true
			}
			if len(l.Machines) == 0 || bytes.Equal(since, l.Revision) {
				return ids
			}
			since = l.Revision
		}
		t.Fatal("there is no end")
		return nil
	}
	for _, most := range []int32{1, 2, 3, 11, 12} {
		if ids := walk(nil, most); len(ids) != 11 {
			t.Errorf("pages of %d: %d machines", most, len(ids))
		}
	}
	now := list(nil, 0).Revision
	for _, id := range []string{"d", "a", "g"} {
		if err := c.call(call{name: "Create", machine: id}); err != nil {
			t.Fatal(err)
		}
	}
	if ids := walk(now, 2); !maps.Equal(ids, map[string]bool{"a": true, "d": true, "g": true}) {
		t.Errorf("what changed: %v", ids)
	}
	page := list(nil, 2).Revision
	for what, bad := range map[string][]byte{
		"longer": append(bytes.Clone(now), '!'), "cut": now[:len(now)-1], "a longer page's": append(bytes.Clone(page), 0, 0xff),
		"junk": bytes.Repeat([]byte{0xde}, 4096), "a page's length": bytes.Repeat([]byte{0xff}, len(page)),
	} {
		if l := list(bad, 0); len(l.Machines) != 11 {
			t.Errorf("%s cursor: %d machines, want all", what, len(l.Machines))
		}
	}
}
