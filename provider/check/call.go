package check

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
)

// token says who calls, and when.
type token struct {
	shard           string
	epoch, sequence int64
}

// request is a call that changes a machine. Zero stands for what the target usually sends.
type request struct {
	move     move
	machine  string
	cluster  string
	noneOf   bool // no cluster
	blob     []byte
	metadata map[string]string
	grace    int64
	token    *token
	unknown  []byte // fields that nobody knows
}

// bootstrapBytes are what machines start with where nothing else is said.
const bootstrapBytes = "#cloud-config\n"

// graceSeconds is the grace of drains: nothing runs on the machines.
const graceSeconds = 1

// next returns a token that is newer than all before.
func (t *Target) next() *token {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sequence++
	return &token{t.o.Shard, t.epoch, t.sequence}
}

// raise returns the first of so many epochs that no call had yet. Later calls have newer ones.
func (t *Target) raise(n int64) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	first := t.epoch + 1
	t.epoch += n + 1
	return first
}

// other returns the name of a shard that the provider has never heard of.
func (t *Target) other(name string) string {
	return fmt.Sprintf("%s-%d-%s", t.o.Shard, t.o.Epoch, name)
}

// ghost returns an id that no machine has.
func (t *Target) ghost(name string) string {
	return fmt.Sprintf("no-such-machine-%d-%s", t.o.Epoch, name)
}

func (t *Target) bootstrap() []byte {
	if t.o.Bootstrap != nil {
		return t.o.Bootstrap
	}
	return []byte(bootstrapBytes)
}

// call makes a call. The request holds its token afterwards.
func (t *Target) call(ctx context.Context, r *request) (*pb.TransitionAck, error) {
	if r.token == nil {
		r.token = t.next()
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	msg, send := t.message(r)
	if r.unknown != nil {
		msg.ProtoReflect().SetUnknown(r.unknown)
	}
	ack, err := send(ctx)
	if err == nil && ack.GetMachine() != nil {
		t.saw("the answer to "+r.move.String(), ack.GetMachine())
	}
	return ack, err
}

// message returns the message of a request, and how it is sent.
func (t *Target) message(r *request) (proto.Message, func(context.Context) (*pb.TransitionAck, error)) {
	k := *r.token
	switch r.move {
	case create:
		m := &pb.CreateRequest{MachineId: r.machine, ShardId: k.shard, ShardEpoch: k.epoch, SequenceNumber: k.sequence}
		return m, func(ctx context.Context) (*pb.TransitionAck, error) { return t.client.Create(ctx, m) }
	case configure:
		m := &pb.ConfigureRequest{
			MachineId: r.machine, ClusterId: t.o.Cluster, BootstrapBlob: t.bootstrap(), ShardMetadata: r.metadata,
			ShardId: k.shard, ShardEpoch: k.epoch, SequenceNumber: k.sequence,
		}
		if r.cluster != "" || r.noneOf {
			m.ClusterId = r.cluster
		}
		if r.blob != nil {
			m.BootstrapBlob = r.blob
		}
		return m, func(ctx context.Context) (*pb.TransitionAck, error) { return t.client.Configure(ctx, m) }
	case drain:
		m := &pb.DrainRequest{MachineId: r.machine, GracePeriodSeconds: graceSeconds, ShardId: k.shard, ShardEpoch: k.epoch, SequenceNumber: k.sequence}
		if r.grace != 0 {
			m.GracePeriodSeconds = r.grace
		}
		return m, func(ctx context.Context) (*pb.TransitionAck, error) { return t.client.Drain(ctx, m) }
	}
	m := &pb.DeleteRequest{MachineId: r.machine, ShardId: k.shard, ShardEpoch: k.epoch, SequenceNumber: k.sequence}
	return m, func(ctx context.Context) (*pb.TransitionAck, error) { return t.client.Delete(ctx, m) }
}

// get asks for one machine.
func (t *Target) get(ctx context.Context, id string) (*pb.Machine, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	m, err := t.client.Get(ctx, &pb.MachineRef{Id: id})
	if err != nil {
		return nil, err
	}
	t.saw("Get", m)
	if m.GetId() != id {
		t.violate(ruleSameID, broken("the machine that was asked for: "+id, "Get answers with %s", brief(m)))
	}
	return m, nil
}

// list asks for machines.
func (t *Target) list(ctx context.Context, f *pb.ListFilter) (*pb.MachineList, error) {
	ctx, cancel := context.WithTimeout(ctx, 4*callTimeout)
	defer cancel()
	l, err := t.client.List(ctx, f)
	for _, m := range l.GetMachines() {
		t.saw("List", m)
	}
	return l, err
}

// listed returns a machine of a full listing, nil = it is not there.
func (t *Target) listed(ctx context.Context, id string) (*pb.Machine, error) {
	l, err := t.list(ctx, &pb.ListFilter{})
	if err != nil {
		return nil, err
	}
	return find(l, id), nil
}

func find(l *pb.MachineList, id string) *pb.Machine {
	for _, m := range l.GetMachines() {
		if m.GetId() == id {
			return m
		}
	}
	return nil
}

// timed returns how long something took.
func timed(do func() error) (time.Duration, error) {
	start := time.Now()
	err := do()
	return time.Since(start), err
}
